"""The completion server, as far as the stage meets it."""
from vllm.entrypoints.openai.protocol import UsageInfo
from vllm.entrypoints.openai.cached_tokens import CachedTokens


class OpenAIServingCompletion:

    async def completion_stream_generator(self, request, result_generator):
        async for prompt_idx, res in result_generator:
            for output in res.outputs:
                if request.include_usage:
                    usage = UsageInfo(
                        prompt_tokens=prompt_idx,
                        completion_tokens=len(output.token_ids),
                    )
                    usage.prompt_tokens_details = CachedTokens(res).details()
                    yield usage

    def request_output_to_completion_response(self, final_res_batch):
        num_prompt_tokens = 0
        for final_res in final_res_batch:
            num_prompt_tokens += len(final_res.prompt_token_ids)

        usage = UsageInfo(prompt_tokens=num_prompt_tokens)
        usage.prompt_tokens_details = CachedTokens(
            *final_res_batch).details()
        return usage
