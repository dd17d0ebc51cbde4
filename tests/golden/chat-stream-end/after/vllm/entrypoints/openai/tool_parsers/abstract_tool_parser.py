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

    # A parser that sends each call in one piece has nothing left to send.
    sends_whole_calls = False

    def finish(self, delta: Union[DeltaMessage, None]) -> DeltaMessage:
        """Return the last message of a streamed answer, even if it is empty."""
        return DeltaMessage() if delta is None else delta


class Registry:
    parsers = {}
