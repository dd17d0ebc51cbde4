"""PagedAttention V2 in plain PyTorch: what stands in for the kernel that the vendor's `_custom_ops.py` does not have.

All partitions of all sequences are taken at once as far as memory allows. Deployed beside `paged_attention_pytorch.py`,
which does the work; here is V2's interface.
"""

from __future__ import annotations

import torch  # noqa: TC002 - no guard in a file that is deployed as it is

from .paged_attention_pytorch import DecodeBatch, PagedCache, refuse_unsupported


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

    No tensor has more elements than the largest of `MAX_GATHERED` (2^24, in the sibling module; 2^25 off the CPU), one
    partition of one sequence (`512 * kv_heads * head_size`, rounded up to pages) and `query`, whatever the lengths.
    The device is never read, so the call can be captured; `max_seq_len` may be a mere bound of the lengths.

    The work buffers, which belong to the CUDA kernel's way of working, are neither read nor written: its callers never
    look at them, and filling them would take a third of a short call's time.

    Args:
        out: `[seqs, heads, head_size]`.
        exp_sum: Left alone.
        max_logits: Left alone.
        tmp_out: Left alone.
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
    del exp_sum, max_logits, tmp_out, num_kv_heads, block_size, k_scale, v_scale
    del tp_rank, blocksparse_local_blocks, blocksparse_block_size, blocksparse_head_sliding_step
    if blocksparse_vert_stride is not None and blocksparse_vert_stride > 1:
        raise NotImplementedError("block-sparse attention is not supported by the PyTorch PagedAttention V2")
    cache = PagedCache(key_cache, value_cache)
    refuse_unsupported(query, cache, key_cache.shape[1], kv_cache_dtype)
    DecodeBatch(query, cache, block_tables, seq_lens, scale, alibi_slopes).attend(out, max_seq_len)
