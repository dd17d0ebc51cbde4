"""Operators, as far as the stage meets them."""
from typing import Optional

import torch


def paged_attention_v1(output, query, alibi_slopes=None):
    output.copy_(query)


def paged_attention_v2(
    out: torch.Tensor,
    exp_sum: torch.Tensor,
    max_logits: torch.Tensor,
    tmp_out: torch.Tensor,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    num_kv_heads: int,
    scale: float,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    block_size: int,
    max_seq_len: int,
    alibi_slopes: Optional[torch.Tensor],
    kv_cache_dtype: str,
    k_scale: float,
    v_scale: float,
    tp_rank: int = 0,
    blocksparse_local_blocks: int = 0,
    blocksparse_vert_stride: int = 0,
    blocksparse_block_size: int = 64,
    blocksparse_head_sliding_step: int = 0,
) -> None:
    from vllm.attention.ops.paged_attention_v2_pytorch import (
        paged_attention_v2 as attend)
    attend(out, exp_sum, max_logits, tmp_out, query, key_cache, value_cache,
           num_kv_heads, scale, block_tables, seq_lens, block_size,
           max_seq_len, alibi_slopes, kv_cache_dtype, k_scale, v_scale,
           tp_rank, blocksparse_local_blocks, blocksparse_vert_stride,
           blocksparse_block_size, blocksparse_head_sliding_step)


def paged_attention_elsewhere(query: torch.Tensor) -> None:
    raise NotImplementedError()
