from .abstract_tool_parser import ToolParser, ToolParserManager
from .mistral_tool_parser import MistralToolParser
from .qwen3_coder_tool_parser import Qwen3CoderToolParser

__all__ = [
    "ToolParser", "ToolParserManager",
    "MistralToolParser"
]
