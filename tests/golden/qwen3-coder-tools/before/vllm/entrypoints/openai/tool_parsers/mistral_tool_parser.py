from .abstract_tool_parser import ToolParser, ToolParserManager


@ToolParserManager.register_module("mistral")
class MistralToolParser(ToolParser):
    pass
