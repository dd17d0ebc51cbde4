import torch

from vllm.triton_utils import HAS_TRITON
from vllm.attention.ops.trust import attempt

if HAS_TRITON:
    from vllm.attention.ops.prefix_prefill import context_attention_fwd
    from vllm.attention.ops.paged_attention_v2_triton import (
        paged_attention_v2 as triton_paged_attention_v2)


class PagedAttention:
    _PYTORCH_DECODE_THRESHOLD = 32768

    @staticmethod
    def forward_decode(query, key_cache, value_cache, block_tables, seq_lens,
                       max_seq_len, kv_cache_dtype, num_kv_heads, scale,
                       alibi_slopes, k_scale, v_scale, tp_rank=0,
                       blocksparse_local_blocks=0, blocksparse_vert_stride=0,
                       blocksparse_block_size=64,
                       blocksparse_head_sliding_step=0):
        # Long contexts first.
        if HAS_TRITON and max_seq_len > 8192:
            output = torch.empty_like(query)
            if attempt("paged_decode_v2", triton_paged_attention_v2, output,
                       None, None, None, query, key_cache, value_cache,
                       num_kv_heads, scale, block_tables, seq_lens,
                       value_cache.shape[3], max_seq_len, alibi_slopes,
                       kv_cache_dtype, k_scale, v_scale, tp_rank,
                       blocksparse_local_blocks, blocksparse_vert_stride,
                       blocksparse_block_size,
                       blocksparse_head_sliding_step):
                return output
        if max_seq_len > PagedAttention._PYTORCH_DECODE_THRESHOLD:
            return None
        output = torch.empty_like(query)
        use_v1 = max_seq_len <= 8192
        return output if use_v1 else None

    @staticmethod
    def forward_prefix(*arguments):
        attempt("prefix_prefill", context_attention_fwd, *arguments)
