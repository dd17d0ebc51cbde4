"""Attention over pages, as far as the stage meets it."""
from typing import Optional

import torch

from vllm.triton_utils import HAS_TRITON
from vllm.attention.ops.paged_attention_pytorch import long_decode_attention, prefix_attention

if HAS_TRITON:
    from vllm.attention.ops.prefix_prefill import context_attention_fwd

PARTITION = 512  # tokens


class PagedAttention:

    _PYTORCH_DECODE_THRESHOLD = 32768
    @staticmethod
    def sizes():
        return [64, 128]   # blanks here are left alone

    @staticmethod
    def forward_decode(
        query: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        block_tables: torch.Tensor,
        seq_lens: torch.Tensor,
        max_seq_len: int,
        kv_cache_dtype: str,
        scale: float,
        alibi_slopes: Optional[torch.Tensor],
        k_scale: float,
        v_scale: float,
        blocksparse_vert_stride: int = 0,
    ) -> torch.Tensor:
        if blocksparse_vert_stride > 1:
            assert value_cache.size(-1)

        if max_seq_len > PagedAttention._PYTORCH_DECODE_THRESHOLD:
            if blocksparse_vert_stride is not None and blocksparse_vert_stride > 1:
                raise NotImplementedError("block-sparse attention over contexts this long")
            return long_decode_attention(query, key_cache, value_cache,
                                         block_tables, seq_lens, max_seq_len,
                                         kv_cache_dtype, scale, alibi_slopes,
                                         k_scale, v_scale)
        # The answer.
        output = torch.empty_like(query)
        return output

    @staticmethod
    def forward_prefix(query, key, value, kv_cache_dtype, key_cache,
                       value_cache, block_tables, query_start_loc,
                       seq_lens_tensor, context_lens, max_query_len,
                       alibi_slopes, sliding_window, k_scale, v_scale):
        return prefix_attention(query, key, value, kv_cache_dtype, key_cache,
                                value_cache, block_tables, query_start_loc,
                                seq_lens_tensor, context_lens, max_query_len,
                                alibi_slopes, sliding_window, k_scale, v_scale)

    @staticmethod
    def last(query):
        output = torch.empty_like(query)
        return output
