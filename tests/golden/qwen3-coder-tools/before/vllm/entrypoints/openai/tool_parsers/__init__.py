from .abstract_tool_parser import ToolParser, ToolParserManager
from .mistral_tool_parser import MistralToolParser

__all__ = [
    "ToolParser", "ToolParserManager",
    "MistralToolParser"
]
