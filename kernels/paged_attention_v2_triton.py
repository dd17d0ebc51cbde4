# Kernels are no Python: their arguments are traced, not typed, and one is not cut into functions for its length.
# ruff: noqa: ANN001, ANN202, C901, PLR0912, PLR0915, PLR0917
# mypy: disable-error-code="no-untyped-def, untyped-decorator, import-not-found, unused-ignore"
"""PagedAttention V2 in Triton: decode over vLLM's paged cache, split over the tokens of each sequence.

Two launches a call. The first gives every program one KV head of one sequence and a part of its tokens; the query
heads that share the KV head are the rows of one product, so keys and values are read once. The second joins the parts
by their log-sum-exp. How many parts there are follows from the batch, the KV heads, the longest length and the device
(`split_count`); how long each is follows, on the device, from the sequence's own length. `max_seq_len` may therefore be
far above the lengths, as it is in captured graphs: programs without tokens return at once.

One source for Triton 2.3.1 and 3.x. Where the time goes is in the loads, hence three rules in the kernel: no masks on a
full tile, the innermost extent of the keys a constant, and one last tile whose tokens are clamped rather than masked.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from .muh_dispatch import DEVICES, DecodeConfig, decode_config, device_of, padded

_HAS_PERMUTE = hasattr(tl, "permute")  # not in Triton 2.3.1
_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
_CACHE_NAMES = {
    torch.float16: ("auto", "half", "float16", "fp16"),
    torch.bfloat16: ("auto", "bfloat16", "bf16"),
    torch.float32: ("auto", "float", "float32", "fp32"),
}
_LEAST_WORKSPACE = 1 << 22  # float32 elements, 16 MiB
_MOST_BLOCKS = 16  # a multiprocessor; bounds how many find no tokens in a captured graph


@triton.jit
def _key_load(keys, step, index: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, KEY_DIMS: tl.constexpr):
    """Return keys `[KEY_DIMS, tokens]`, dimensions `index * KEY_DIMS` and up."""
    if (index + 1) * KEY_DIMS <= D:
        k = tl.load(keys + index * KEY_DIMS * PAGE)
    else:
        k = tl.load(keys + index * KEY_DIMS * PAGE, mask=(step < D - index * KEY_DIMS)[:, None], other=0.0)
    return k


@triton.jit
def _query_load(rows, is_row, step, index: tl.constexpr, D: tl.constexpr, KEY_DIMS: tl.constexpr):
    """Return the queries' dimensions `index * KEY_DIMS` and up; past the last one, any tile of that shape."""
    if index * KEY_DIMS < D:
        q = tl.load(rows + index * KEY_DIMS, mask=is_row[:, None] & (step < D - index * KEY_DIMS)[None, :], other=0.0)
    else:
        q = tl.load(rows, mask=is_row[:, None] & (step < D)[None, :], other=0.0)
    return q


@triton.jit
def _value_load(values, dim, D: tl.constexpr, D_TILE: tl.constexpr):
    """Return values `[tokens, D_TILE]`."""
    if D == D_TILE:  # noqa: SIM108 - chosen when compiling
        v = tl.load(values)
    else:
        v = tl.load(values, mask=(dim < D)[None, :], other=0.0)
    return v


@triton.jit
def _scores(
    keys,
    q0,
    q1,
    q2,
    q3,
    q4,
    q5,
    q6,
    q7,
    q8,
    q9,
    q10,
    q11,
    q12,
    q13,
    q14,
    q15,
    step,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    KEY_DIMS: tl.constexpr,
):
    """Return `q·k` of one tile, its keys loaded `KEY_DIMS` dimensions at a time; a last load may be shorter."""
    s = tl.dot(q0, _key_load(keys, step, 0, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > KEY_DIMS:
        s += tl.dot(q1, _key_load(keys, step, 1, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 2 * KEY_DIMS:
        s += tl.dot(q2, _key_load(keys, step, 2, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 3 * KEY_DIMS:
        s += tl.dot(q3, _key_load(keys, step, 3, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 4 * KEY_DIMS:
        s += tl.dot(q4, _key_load(keys, step, 4, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 5 * KEY_DIMS:
        s += tl.dot(q5, _key_load(keys, step, 5, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 6 * KEY_DIMS:
        s += tl.dot(q6, _key_load(keys, step, 6, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 7 * KEY_DIMS:
        s += tl.dot(q7, _key_load(keys, step, 7, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 8 * KEY_DIMS:
        s += tl.dot(q8, _key_load(keys, step, 8, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 9 * KEY_DIMS:
        s += tl.dot(q9, _key_load(keys, step, 9, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 10 * KEY_DIMS:
        s += tl.dot(q10, _key_load(keys, step, 10, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 11 * KEY_DIMS:
        s += tl.dot(q11, _key_load(keys, step, 11, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 12 * KEY_DIMS:
        s += tl.dot(q12, _key_load(keys, step, 12, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 13 * KEY_DIMS:
        s += tl.dot(q13, _key_load(keys, step, 13, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 14 * KEY_DIMS:
        s += tl.dot(q14, _key_load(keys, step, 14, D, PAGE, KEY_DIMS), allow_tf32=False)
    if D > 15 * KEY_DIMS:
        s += tl.dot(q15, _key_load(keys, step, 15, D, PAGE, KEY_DIMS), allow_tf32=False)
    return s


@triton.jit
def _whole_pages(
    key_pages,
    value_pages,
    here,
    key_stride,
    value_stride,
    q,
    chunk,
    dim,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    X: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Return `q·k` and the values of one tile, its pages read in the order in which they lie in memory."""
    key_at = key_pages + (here * key_stride)[:, None, None, None]
    value_at = value_pages + (here * value_stride)[:, None, None]
    if D == D_TILE:
        k = tl.load(key_at)
        v = tl.load(value_at)
    else:
        k = tl.load(key_at, mask=(chunk < D // X)[None, :, None, None], other=0.0)
        v = tl.load(value_at, mask=(dim < D)[None, :, None], other=0.0)
    k = tl.reshape(tl.permute(k, (1, 3, 0, 2)), (D_TILE, BLOCK_N))
    v = tl.reshape(tl.permute(v, (0, 2, 1)), (BLOCK_N, D_TILE))
    return tl.dot(q, k, allow_tf32=False), v


@triton.jit(do_not_specialize=["limit", "splits"])
def _attend_split(
    parts_ptr,
    out_ptr,
    query_ptr,
    key_ptr,
    value_ptr,
    tables_ptr,
    lengths_ptr,
    slopes_ptr,
    scale,
    query_stride,
    out_stride,
    table_stride,
    key_stride,
    value_stride,
    limit,
    splits,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    PAGE: tl.constexpr,
    X: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_BLOCKS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    KEY_DIMS: tl.constexpr,
    WHOLE_PAGES: tl.constexpr,
    ALIBI: tl.constexpr,
    DIRECT: tl.constexpr,
):
    """Attend over one part of one sequence's tokens, for the query heads of one KV head."""
    block = tl.program_id(0)
    split = tl.program_id(1)
    seq = tl.program_id(2)
    head = block // HEAD_BLOCKS
    length = tl.minimum(tl.load(lengths_ptr + seq), limit)
    tiles = (length + BLOCK_N - 1) // BLOCK_N
    per_split = tl.maximum((tiles + splits - 1) // splits, 1) * BLOCK_N
    begin = split * per_split
    if begin >= length + DIRECT:
        return
    end = tl.minimum(begin + per_split, length)

    row = (block % HEAD_BLOCKS) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_row = row < GROUP
    query_head = head * GROUP + row
    step = tl.arange(0, KEY_DIMS)
    dim = tl.arange(0, D_TILE)
    rows = query_ptr + seq.to(tl.int64) * query_stride + query_head[:, None] * D + step[None, :]
    q0 = _query_load(rows, is_row, step, 0, D, KEY_DIMS)
    q1 = _query_load(rows, is_row, step, 1, D, KEY_DIMS)
    q2 = _query_load(rows, is_row, step, 2, D, KEY_DIMS)
    q3 = _query_load(rows, is_row, step, 3, D, KEY_DIMS)
    q4 = _query_load(rows, is_row, step, 4, D, KEY_DIMS)
    q5 = _query_load(rows, is_row, step, 5, D, KEY_DIMS)
    q6 = _query_load(rows, is_row, step, 6, D, KEY_DIMS)
    q7 = _query_load(rows, is_row, step, 7, D, KEY_DIMS)
    q8 = _query_load(rows, is_row, step, 8, D, KEY_DIMS)
    q9 = _query_load(rows, is_row, step, 9, D, KEY_DIMS)
    q10 = _query_load(rows, is_row, step, 10, D, KEY_DIMS)
    q11 = _query_load(rows, is_row, step, 11, D, KEY_DIMS)
    q12 = _query_load(rows, is_row, step, 12, D, KEY_DIMS)
    q13 = _query_load(rows, is_row, step, 13, D, KEY_DIMS)
    q14 = _query_load(rows, is_row, step, 14, D, KEY_DIMS)
    q15 = _query_load(rows, is_row, step, 15, D, KEY_DIMS)

    # Where an element of a page is. The keys' innermost extent is a constant, or the loads become two bytes wide.
    key_dim = (step // X) * (PAGE * X) + step % X
    key_base = key_ptr + head * (D * PAGE)
    value_base = value_ptr + head * (D * PAGE) + dim * PAGE
    table = tables_ptr + seq.to(tl.int64) * table_stride
    token = tl.arange(0, BLOCK_N)

    scale_log2 = scale * 1.4426950408889634
    if ALIBI:
        slope = tl.load(slopes_ptr + query_head, mask=is_row, other=0.0).to(tl.float32) * 1.4426950408889634

    top = tl.full([BLOCK_M], -1e30, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_TILE], tl.float32)

    full_end = begin + (end - begin) // BLOCK_N * BLOCK_N
    # The table is read one tile ahead, so that a tile's loads wait for no other. Without a full tile, entry 0 is read.
    last_full = tl.maximum(full_end - BLOCK_N, begin)
    any_full = tl.minimum(full_end - begin, 1)
    if WHOLE_PAGES:
        in_tile = tl.arange(0, BLOCK_N // PAGE)
        in_page = tl.arange(0, PAGE)
        chunk = tl.arange(0, D_TILE // X)
        key_in_page = (
            (chunk * (PAGE * X))[:, None, None] + (in_page * X)[None, :, None] + tl.arange(0, X)[None, None, :]
        )
        key_pages = key_ptr + head * (D * PAGE) + key_in_page[None, :, :, :]
        value_pages = value_base[None, :, None] + in_page[None, None, :]
        page = tl.load(table + (begin // PAGE + in_tile) * any_full)
    else:
        page = tl.load(table + (begin + token) // PAGE * any_full)
    for first in range(begin, full_end, BLOCK_N):
        n = tl.multiple_of(first, BLOCK_N) + token
        here = page.to(tl.int64)
        following = tl.multiple_of(tl.minimum(first + BLOCK_N, last_full), BLOCK_N)
        if WHOLE_PAGES:
            page = tl.load(table + following // PAGE + in_tile)
            s, v = _whole_pages(
                key_pages, value_pages, here, key_stride, value_stride, q0, chunk, dim, D, D_TILE, X, BLOCK_N
            )
        else:
            page = tl.load(table + (following + token) // PAGE)
            slot = n % PAGE
            keys = key_base + (here * key_stride + slot * X)[None, :] + key_dim[:, None]
            values = value_base[None, :] + (here * value_stride + slot)[:, None]
            v = _value_load(values, dim, D, D_TILE)
            s = _scores(
                keys, q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15, step, D, PAGE, KEY_DIMS
            )
        s = s * scale_log2
        if ALIBI:
            s += slope[:, None] * (n - (length - 1)).to(tl.float32)[None, :]
        new_top = tl.maximum(top, tl.max(s, 1))
        keep = tl.math.exp2(top - new_top)
        p = tl.math.exp2(s - new_top[:, None])
        total = total * keep + tl.sum(p, 1)
        acc = acc * keep[:, None] + tl.dot(p.to(v.dtype), v, allow_tf32=False)
        top = new_top

    if full_end < end:
        # Tokens past the end read the last one again: what the unused slots and table entries hold is never seen.
        n = tl.minimum(full_end + token, end - 1)
        slot = n % PAGE
        here = tl.load(table + n // PAGE).to(tl.int64)
        keys = key_base + (here * key_stride + slot * X)[None, :] + key_dim[:, None]
        values = value_base[None, :] + (here * value_stride + slot)[:, None]
        v = _value_load(values, dim, D, D_TILE)
        s = _scores(keys, q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15, step, D, PAGE, KEY_DIMS)
        s = s * scale_log2
        if ALIBI:
            s += slope[:, None] * (n - (length - 1)).to(tl.float32)[None, :]
        s = tl.where((full_end + token < end)[None, :], s, -1e30)
        new_top = tl.maximum(top, tl.max(s, 1))
        keep = tl.math.exp2(top - new_top)
        p = tl.math.exp2(s - new_top[:, None])
        total = total * keep + tl.sum(p, 1)
        acc = acc * keep[:, None] + tl.dot(p.to(v.dtype), v, allow_tf32=False)
        top = new_top

    mask = is_row[:, None] & (dim < D)[None, :]
    acc = acc / tl.maximum(total, 1e-30)[:, None]
    if DIRECT:
        target = out_ptr + seq.to(tl.int64) * out_stride + query_head[:, None] * D + dim[None, :]
        tl.store(target, acc.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        heads = tl.num_programs(0) // HEAD_BLOCKS * GROUP
        part = (seq * heads + query_head).to(tl.int64) * splits + split
        tl.store(parts_ptr + part[:, None] * D + dim[None, :], acc, mask=mask)
        sums = parts_ptr + tl.num_programs(2).to(tl.int64) * heads * splits * D
        tl.store(sums + part, top + tl.math.log2(tl.maximum(total, 1e-30)), mask=is_row)


@triton.jit(do_not_specialize=["limit", "splits"])
def _join_splits(
    out_ptr,
    parts_ptr,
    lengths_ptr,
    out_stride,
    limit,
    splits,
    D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
    DIMS: tl.constexpr,
):
    """Join the parts of one query head of one sequence: `DIMS` of its dimensions, `SPLITS` parts at a time."""
    head = tl.program_id(0)
    seq = tl.program_id(1)
    length = tl.minimum(tl.load(lengths_ptr + seq), limit)
    tiles = (length + BLOCK_N - 1) // BLOCK_N
    per_split = tl.maximum((tiles + splits - 1) // splits, 1)
    used = (tiles + per_split - 1) // per_split

    heads = tl.num_programs(0)
    first_part = (seq * heads + head).to(tl.int64) * splits
    sums = parts_ptr + tl.num_programs(1).to(tl.int64) * heads * splits * D + first_part
    dim = tl.program_id(2) * DIMS + tl.arange(0, DIMS)
    is_dim = dim < D
    parts = parts_ptr + first_part * D + dim

    top = tl.full([1], -1e30, tl.float32)
    total = tl.zeros([1], tl.float32)
    acc = tl.zeros([DIMS], tl.float32)
    for first in range(0, used, SPLITS):
        part = first + tl.arange(0, SPLITS)
        is_part = part < used
        found = tl.load(sums + part, mask=is_part, other=-1e30)
        rows = tl.load(parts[None, :] + part[:, None] * D, mask=is_part[:, None] & is_dim[None, :], other=0.0)
        new_top = tl.maximum(top, tl.max(found, 0))
        keep = tl.math.exp2(top - new_top)
        weight = tl.math.exp2(found - new_top)
        total = total * keep + tl.sum(weight, 0)
        acc = acc * keep + tl.sum(weight[:, None] * rows, 0)
        top = new_top
    result = acc / tl.maximum(total, 1e-30)
    target = out_ptr + seq.to(tl.int64) * out_stride + head * D + dim
    tl.store(target, result.to(out_ptr.dtype.element_ty), mask=is_dim)


def split_count(programs: int, tiles: int, config: DecodeConfig, sms: int) -> int:
    """Return into how many parts each sequence is split.

    The multiprocessor with the most blocks decides: it works through them in waves of `resident` blocks, which take
    what starting takes, and their tiles at a rate that grows with the blocks of the wave. Each part adds to the second
    launch. Only counts that fill every multiprocessor with a whole number of blocks can be best; of those the one with
    the least sum wins, the smaller one of two equals.

    Args:
        programs: Blocks without a split: sequences times KV heads.
        tiles: Tiles of the longest sequence.
        config: Row of the table.
        sms: Multiprocessors of the device.
    """
    least = -(-tiles * config.block_n // config.max_tokens)
    best, best_cost = least, float("inf")
    for blocks in range(1, _MOST_BLOCKS + 1):
        filling = min(tiles, max(least, blocks * sms // programs))
        longest = -(-tiles // filling)
        splits = -(-tiles // longest)  # the fewest parts of that length
        waves, rest = divmod(-(-programs * splits // sms), config.resident)
        # A wave of k blocks takes k blocks' tiles, at the rate k / (k + latency).
        cost = waves * (longest * (config.resident + config.latency) + config.start_tiles)
        if rest:
            cost += longest * (rest + config.latency) + config.start_tiles
        if splits > 1:
            cost += config.merge_tiles * splits
        if cost < best_cost:
            best, best_cost = splits, cost
    return best


@functools.lru_cache(maxsize=None)
def _device(index: int | None) -> tuple[str, int]:
    """Return whose rows a device uses, and its multiprocessors; in the interpreter, few of them."""
    if index is None:
        return "h200", DEVICES["bi100"].sms
    found = torch.cuda.get_device_properties(index)
    shared = getattr(found, "shared_memory_per_block_optin", 0) or DEVICES["bi100"].shared_bytes
    return device_of(found.name, shared), found.multi_processor_count


@functools.lru_cache(maxsize=4096)
def _plan(
    index: int | None, dtype: torch.dtype, head_size: int, group: int, kv_heads: int, seqs: int, max_tokens: int
) -> tuple[DecodeConfig, int, int]:
    """Return the configuration, the blocks of query heads for a KV head, and the splits.

    Raises:
        NotImplementedError: The table has no row for this type on this device.
    """
    name, sms = _device(index)
    try:
        config = decode_config(name, _NAMES[dtype], head_size, group)
    except LookupError as error:
        raise NotImplementedError(f"the Triton PagedAttention V2 cannot serve this: {error}") from error
    head_blocks = -(-group // config.block_m)
    tiles = -(-max_tokens // config.block_n)
    return config, head_blocks, split_count(seqs * kv_heads * head_blocks, tiles, config, sms)


_workspaces: dict[tuple[int | None, int], list[torch.Tensor]] = {}


def _workspace(elements: int, like: torch.Tensor) -> torch.Tensor:
    """Return float32 scratch memory of the stream in use, at least `elements` long.

    It grows by doubling, and what was handed out once is never freed: a captured graph may still write to it. Calls on
    one stream follow each other, so they share it; graphs captured on one stream must not be replayed at the same time.
    """
    index = like.device.index
    stream = torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else 0
    kept = _workspaces.setdefault((index, stream), [])
    if not kept or kept[-1].numel() < elements:
        size = max(elements, 2 * kept[-1].numel() if kept else _LEAST_WORKSPACE)
        kept.append(torch.empty(size, dtype=torch.float32, device=like.device))
    return kept[-1]


def _refuse_unsupported(query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, kind: str) -> None:
    """Raise, before anything is launched, where the answer would be wrong.

    Raises:
        NotImplementedError: The cache is quantised, of another type than the query, or not dense within a page.
        ValueError: The query heads cannot be divided among the KV heads.
    """
    if kind not in _CACHE_NAMES.get(key_cache.dtype, ()):
        raise NotImplementedError(
            f"kv_cache_dtype {kind!r} with a cache of {key_cache.dtype} is not supported by the Triton PagedAttention "
            f"V2: start the engine with --kv-cache-dtype auto"
        )
    if query.dtype is not key_cache.dtype:
        raise NotImplementedError(f"queries of {query.dtype} with a cache of {key_cache.dtype} are not supported")
    _, kv_heads, chunks, page, x = key_cache.shape
    if query.shape[1] % kv_heads:
        raise ValueError(f"{query.shape[1]} query heads cannot be divided among {kv_heads} KV heads")
    row = chunks * x * page
    if key_cache.stride()[1:] != (row, page * x, x, 1) or value_cache.stride()[1:] != (row, page, 1):
        raise NotImplementedError("a cache whose pages are not dense is not supported by the Triton PagedAttention V2")


def paged_attention_v2(
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

    The device is never read, so the call can be captured; `max_seq_len` may be a mere bound of the lengths. The
    caller's work buffers are left alone: they are sized for partitions of 512 tokens and hold half precision, which
    costs a relative error of 2e-4; the parts are kept in float32 in memory of our own.

    Args:
        out: `[seqs, heads, head_size]`.
        exp_sum: Not used.
        max_logits: Not used.
        tmp_out: Not used.
        query: `[seqs, heads, head_size]`; head `h` uses KV head `h // (heads / kv_heads)`.
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
        NotImplementedError: The cache is quantised, of another type than `query` or not dense within a page, or
            block-sparse attention is asked for.
        ValueError: The heads cannot be divided among the KV heads.
    """
    del exp_sum, max_logits, tmp_out, num_kv_heads, block_size, k_scale, v_scale
    del tp_rank, blocksparse_local_blocks, blocksparse_block_size, blocksparse_head_sliding_step
    if blocksparse_vert_stride is not None and blocksparse_vert_stride > 1:
        raise NotImplementedError("block-sparse attention is not supported by the Triton PagedAttention V2")
    _refuse_unsupported(query, key_cache, value_cache, kv_cache_dtype)

    seqs, _, head_size = query.shape
    page = key_cache.shape[3]
    limit = min(int(max_seq_len), block_tables.shape[1] * page) if key_cache.shape[0] else 0
    if not seqs:
        return
    if limit <= 0:
        out.zero_()
        return
    if query.stride()[1:] != (head_size, 1):
        query = query.contiguous()
    target = out if out.stride()[1:] == (head_size, 1) else torch.empty_like(query)
    _launch(target, query, key_cache, value_cache, scale, block_tables, seq_lens, limit, alibi_slopes)
    if target is not out:
        out.copy_(target)


def _launch(
    out: torch.Tensor,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    scale: float,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    limit: int,
    slopes: torch.Tensor | None,
) -> None:
    """Launch both kernels, or the first alone where no sequence is split."""
    seqs, heads, head_size = query.shape
    _, kv_heads, _, page, x = key_cache.shape
    group = heads // kv_heads
    # A bound rounded up changes nothing and lets a growing sequence keep its plan.
    config, head_blocks, splits = _plan(
        query.device.index, query.dtype, head_size, group, kv_heads, seqs, (limit + 63) & -64
    )
    direct = splits == 1
    parts = out if direct else _workspace(seqs * heads * splits * (head_size + 1), query)
    d_tile = padded(head_size)
    whole = config.whole_pages and _HAS_PERMUTE and config.block_n % page == 0 and page & (page - 1) == 0
    _attend_split[kv_heads * head_blocks, splits, seqs](
        parts,
        out,
        query,
        key_cache,
        value_cache,
        block_tables,
        seq_lens,
        seq_lens if slopes is None else slopes,
        scale,
        query.stride(0),
        out.stride(0),
        block_tables.stride(0),
        key_cache.stride(0),
        value_cache.stride(0),
        limit,
        splits,
        head_size,
        d_tile,
        page,
        x,
        group,
        head_blocks,
        config.block_m,
        config.block_n,
        d_tile if whole else min(config.key_dims, d_tile),
        whole,
        slopes is not None,
        direct,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    if direct:
        return
    _join_splits[heads, seqs, -(-head_size // config.merge_dims)](
        out,
        parts,
        seq_lens,
        out.stride(0),
        limit,
        splits,
        head_size,
        config.block_n,
        config.merge_splits,
        config.merge_dims,
        num_warps=config.merge_warps,
        num_stages=config.merge_stages,
    )
