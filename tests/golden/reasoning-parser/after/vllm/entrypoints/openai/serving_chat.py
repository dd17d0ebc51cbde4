"""Answers chats, as far as the stage meets it."""
from typing import Optional

from vllm.entrypoints.openai.protocol import (ChatCompletionResponseChoice,
                                              ChatMessage, DeltaMessage)
from vllm.reasoning.parsers import delta_with_thought, thoughts_of, with_thought


class OpenAIServingChat:

    reasoning_parser: Optional[str] = None

    def __init__(self, engine_client, tool_parser: Optional[str] = None):
        self.engine_client = engine_client
        self.tool_parser = tool_parser

    def get_chat_request_role(self, request):
        return request.role

    async def chat_completion_stream_generator(self, request, results,
                                               conversation, tokenizer):
        first_iteration = True
        thoughts = thoughts_of(self.reasoning_parser, request, conversation,
                               tokenizer)
        previous_num_tokens = [0]

        async for res in results:
            for output in res.outputs:
                i = output.index
                thought, delta_text = thoughts.piece(res.prompt_token_ids, output)

                # with tools or without
                if self.tool_parser:
                    delta_message = self.tool_parser.read(delta_text)
                else:
                    delta_message = DeltaMessage(content=delta_text)

                delta_message = delta_with_thought(delta_message, thought)

                # for the next iteration
                previous_num_tokens[i] += len(output.token_ids)
                yield first_iteration, delta_message

    async def chat_completion_full_generator(self, request, results,
                                             conversation, tokenizer):
        final_res = None
        async for res in results:
            final_res = res
        assert final_res is not None

        thoughts = thoughts_of(self.reasoning_parser, request, conversation,
                               tokenizer)
        role = self.get_chat_request_role(request)
        choices = []
        for output in final_res.outputs:
            thought, answer = thoughts.whole(final_res.prompt_token_ids, output)
            token_ids = output.token_ids

            if not self.tool_parser:
                message = ChatMessage(role=role, content=answer)
            elif request.name:
                message = ChatMessage(
                    role=role,
                    content="",
                    arguments=answer)
            elif request.none:
                message = ChatMessage(role=role, content=answer)
            else:
                found = self.tool_parser.find(
                    answer, request=request)
                if found:
                    message = found
                elif token_ids:
                    message = ChatMessage(role=role, content=answer)
                else:
                    message = ChatMessage(role=role, content=answer)

            message = with_thought(message, thought)
            choice_data = ChatCompletionResponseChoice(index=output.index,
                                                       message=message)
            choices.append(choice_data)
        return choices
