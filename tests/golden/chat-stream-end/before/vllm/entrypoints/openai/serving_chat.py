"""Answers chats, as far as the stage meets it."""
from vllm.entrypoints.openai.tool_parsers.abstract_tool_parser import ToolParser


class OpenAIServingChat:

    tool_parser = ToolParser

    async def chat_completion_stream_generator(self, results, tokenizer,
                                               num_choices):
        # One for each choice
        tool_parsers = [self.tool_parser(tokenizer)] * num_choices
        previous_texts = [""] * num_choices

        async for output in results:
            i = output.index
            tool_parser = tool_parsers[i]
            current_text = previous_texts[i] + output.text
            delta_message = tool_parser.extract_tool_calls_streaming(
                current_text)

            # what was read so far
            previous_texts[i] = current_text

            if delta_message is None:
                continue
            if self._should_check_for_unstreamed_tool_arg_tokens(
                    delta_message, output) and tool_parser:
                delta_message = tool_parser.rest(i)
            yield delta_message

    def _should_check_for_unstreamed_tool_arg_tokens(self, delta, output):
        return delta is not None and output.finish_reason is not None
