"""The chat server, as far as the stage meets it."""
from vllm.entrypoints.openai.protocol import (RequestResponseMetadata,
                                              UsageInfo)
from vllm.entrypoints.openai.cached_tokens import CachedTokens


class OpenAIServingChat:

    async def chat_completion_stream_generator(
            self, request, result_generator,
            request_metadata: RequestResponseMetadata):
        num_prompt_tokens = 0
        cached_tokens = CachedTokens()
        previous_num_tokens = 0

        async for res in result_generator:
            cached_tokens.note(res)
            if res.prompt_token_ids is not None:
                num_prompt_tokens = len(res.prompt_token_ids)
            previous_num_tokens += 1
            yield res

        if request.include_usage:
            final_usage = UsageInfo(
                prompt_tokens=num_prompt_tokens,
                completion_tokens=previous_num_tokens,   # all of them
            )
            final_usage.prompt_tokens_details = cached_tokens.details()
            yield final_usage

        request_metadata.final_usage_info = UsageInfo(
            prompt_tokens=num_prompt_tokens)

    async def chat_completion_full_generator(
            self, request, result_generator,
            request_metadata: RequestResponseMetadata):
        final_res = None
        async for res in result_generator:
            final_res = res
        assert final_res is not None

        usage = UsageInfo(
            prompt_tokens=len(final_res.prompt_token_ids),
            completion_tokens=1,
        )
        usage.prompt_tokens_details = CachedTokens(final_res).details()

        request_metadata.final_usage_info = usage
        return usage
