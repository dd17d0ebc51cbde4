"""What a tool parser has to do, and where it is registered."""


class ToolParser:

    def __init__(self, tokenizer):
        self.prev_tool_call_arr = []
        self.streamed_args_for_tool = []
        self.current_tool_id = -1


class ToolParserManager:
    tool_parsers = {}

    @classmethod
    def register_module(cls, name):

        def register(parser):
            cls.tool_parsers[name] = parser
            return parser

        return register
