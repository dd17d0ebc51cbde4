import torch

from vllm.triton_utils import HAS_TRITON
from vllm.attention.ops.paged_attention_pytorch import prefix_attention
from vllm.attention.ops.trust import attempt

if HAS_TRITON:
    from vllm.attention.ops.prefix_prefill import context_attention_fwd


class PagedAttention:

    @staticmethod
    def forward_prefix(query, key, value, kv_cache_dtype, key_cache,
                       value_cache, block_tables, query_start_loc,
                       seq_lens_tensor, context_lens, max_query_len,
                       alibi_slopes, sliding_window, k_scale, v_scale):
        # Nothing is hidden.
        if HAS_TRITON:
            # no program of the kernel writes the rows of no sequence
            output = torch.zeros_like(query)
            if attempt(
                    "prefix_prefill",
                    context_attention_fwd,
                    query,
                    key,
                    value,
                    output,
                    kv_cache_dtype,
                    key_cache,
                    value_cache,
                    block_tables,
                    # query_start_loc is (batch_size + 1,)
                    query_start_loc[:-1],
                    seq_lens_tensor,
                    context_lens,
                    max_query_len,
                    k_scale,
                    v_scale,
                    alibi_slopes,
                    sliding_window,
            ):
                return output
        return prefix_attention(query, key, value, kv_cache_dtype, key_cache,
                                value_cache, block_tables, query_start_loc)

    @staticmethod
    def empty(query):
        return torch.empty_like(query)
