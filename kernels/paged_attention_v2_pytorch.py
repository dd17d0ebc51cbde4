"""PagedAttention V2 in plain PyTorch: what stands in for the kernel that the vendor's `_custom_ops.py` does not have.

Partitions of 512 tokens get their softmax statistics all at once, and a log-sum-exp reduction combines them, as in
vLLM's CUDA kernel; there is no loop over partitions. Deployed beside `paged_attention_pytorch.py`, whose gathers and
statistics it shares; where one sequence alone would need too much memory, call `long_decode_attention` there.
"""

from __future__ import annotations

import torch

from .paged_attention_pytorch import DecodeBatch, PagedCache, Partitions, refuse_unsupported


def paged_attention_v2(  # noqa: PLR0917 - vLLM's signature
    out: torch.Tensor,
    exp_sum: torch.Tensor,
    max_logits: torch.Tensor,
    tmp_out: torch.Tensor,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    num_kv_heads: int | torch.Tensor,
    scale: float,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    block_size: int,
    max_seq_len: int,
    alibi_slopes: torch.Tensor | None,
    kv_cache_dtype: str,
    k_scale: float,
    v_scale: float,
    tp_rank: int = 0,
    blocksparse_local_blocks: int = 0,
    blocksparse_vert_stride: int | None = 0,
    blocksparse_block_size: int = 64,
    blocksparse_head_sliding_step: int = 0,
) -> None:
    """Write decode attention of `query` over the paged cache into `out`; vLLM 0.6.3's signature.

    Sequences are taken in groups: no tensor has more elements than the largest of `MAX_GATHERED` (2^24, in the sibling
    module), one sequence of `max_seq_len` (`max_seq_len * kv_heads * head_size`, rounded up to partitions) and `query`.
    The device is never read, so the call can be captured; `max_seq_len` may be a mere bound of the lengths.

    The work buffers end up as the CUDA kernel leaves them, except that empty partitions are written too (`exp_sum` 0,
    the lowest float in `max_logits`, 0 in `tmp_out`). They are outputs only: the reduction runs on float32 sums, not on
    the half precision `tmp_out`. A buffer of another shape than stated, or with too few partitions, is left alone.

    Args:
        out: `[seqs, heads, head_size]`.
        exp_sum: `[seqs, heads, partitions]`, float32: each partition's sum of `exp(logit - max)`.
        max_logits: The same shape: each partition's largest logit.
        tmp_out: `[seqs, heads, partitions, head_size]`: each partition's own attention output.
        query: `[seqs, heads, head_size]`, half or single precision; head `h` uses KV head `h // (heads / kv_heads)`.
        key_cache: `[num_blocks, kv_heads, head_size / x, block_size, x]`.
        value_cache: `[num_blocks, kv_heads, head_size, block_size]`.
        num_kv_heads: Not read, since the vendor's backend passes its head mapping here: the cache's shape tells.
        scale: Factor of `q·k`.
        block_tables: `[seqs, width]`; entries beyond a sequence may be anything.
        seq_lens: `[seqs]`, with the new token, which is in the cache already; a length of 0 gives zeros.
        block_size: Not read: the cache's shape tells.
        max_seq_len: Upper bound of `seq_lens`, in tokens; a narrower table bounds it further.
        alibi_slopes: `[heads]` or None; the bias is `slope * (k_pos - q_pos)` with `q_pos = seq_len - 1`.
        kv_cache_dtype: `auto`, or the name of the cache's own type.
        k_scale: Only for quantised caches, which are refused.
        v_scale: The same.
        tp_rank: Only for block-sparse attention, which is refused; so are the four that follow.
        blocksparse_local_blocks: See `tp_rank`.
        blocksparse_vert_stride: Above 1 it asks for block-sparse attention.
        blocksparse_block_size: See `tp_rank`.
        blocksparse_head_sliding_step: See `tp_rank`.

    Raises:
        NotImplementedError: The cache is quantised, or block-sparse attention is asked for.
        ValueError: The heads cannot be divided among the KV heads.
    """
    del num_kv_heads, block_size, k_scale, v_scale
    del tp_rank, blocksparse_local_blocks, blocksparse_block_size, blocksparse_head_sliding_step
    if blocksparse_vert_stride is not None and blocksparse_vert_stride > 1:
        raise NotImplementedError("block-sparse attention is not supported by the PyTorch PagedAttention V2")
    cache = PagedCache(key_cache, value_cache)
    refuse_unsupported(query, cache, key_cache.shape[1], kv_cache_dtype)

    batch = DecodeBatch.bounded(
        query=query,
        cache=cache,
        block_tables=block_tables,
        seq_lens=seq_lens,
        max_seq_len=max_seq_len,
        scale=scale,
        alibi_slopes=alibi_slopes,
    )
    partitions = batch.num_partitions
    if partitions <= 0:
        out.zero_()
        return
    for rows in batch.groups(partitions):
        parts = batch.part(rows).statistics(0, partitions)
        out[rows] = parts.merged().outputs().squeeze(1).to(out.dtype)
        _fill_buffers(parts, exp_sum, max_logits, tmp_out, rows)


def _fill_buffers(
    parts: Partitions, exp_sum: torch.Tensor, max_logits: torch.Tensor, tmp_out: torch.Tensor, rows: slice
) -> None:
    """Leave a group's statistics in those of the caller's work buffers that have room for them."""
    for buffer, found, empty in (
        (exp_sum, parts.exp_sum.flatten(2), 0.0),
        (max_logits, parts.max_logit.flatten(2), torch.finfo(torch.float32).min),
        (tmp_out, parts.outputs(), 0.0),
    ):
        content = found.transpose(1, 2)
        part = buffer[rows]
        count = content.shape[2]
        if part.dim() != content.dim() or part.shape[2] < count:
            continue
        if part.shape[:2] + part.shape[3:] != content.shape[:2] + content.shape[3:]:
            continue
        part[:, :, :count] = content
        if part.shape[2] > count:
            part[:, :, count:] = empty
