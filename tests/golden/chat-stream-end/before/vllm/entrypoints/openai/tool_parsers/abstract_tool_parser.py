"""What a tool parser has to do."""
from typing import Union

from vllm.entrypoints.openai.protocol import DeltaMessage


class ToolParser:
    """Finds calls."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def extract_tool_calls_streaming(self,
                                     text: str) -> Union[DeltaMessage, None]:
        """
        Return what more text brings.
        """
        raise NotImplementedError("not here")


class Registry:
    parsers = {}
