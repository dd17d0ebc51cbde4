"""Prefill against a cached context, as a Triton kernel: `context_attention_fwd` with vLLM 0.6.3's interface.

One program computes a tile of BLOCK_M rows of one sequence and one KV head. A row is one query head of one new token:
the heads that share a KV head stand side by side in the tile, so any group size fills it and keys and values are read
once for all of them. The program walks over the keys in tiles of BLOCK_N:

* full tiles of the context, read through the block table, without any mask on a load (a mask there would turn every
  16-byte load into eight of 2 bytes);
* what is left of the context, one tile whose token index is clamped, so that only scores are masked and no slot
  beyond the context is read, which may hold NaN;
* the new tokens up to the causal diagonal, without masks; the tiles on the diagonal, masked; nothing above it.

Tiles are combined by their softmax statistics (Milakov and Gimelshein 2018, "Online normalizer calculation for
softmax"), in base 2. Scores are scaled after the product, in float32.

Cache layout, with `x` elements in 16 bytes: key `[num_blocks, kv_heads, head_size / x, block_size, x]`, value
`[num_blocks, kv_heads, head_size, block_size]`.

The file imports torch and Triton (2.3.1 or 3.x) and runs unchanged on Python 3.8 and newer.
"""

# What Triton compiles has no Python types, takes pointers and strides one by one, and is one function however long.
# ruff: noqa: ANN001, ANN202, C901, PLR0912, PLR0915, PLR0917
# mypy: disable-error-code="import-not-found,import-untyped,no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from .muh_dispatch import DEVICES, PrefillConfig, device_of, padded, prefill_config

_LOG2_E = 1.4426950408889634
_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
_CACHE_DTYPE_NAMES = {
    torch.float16: ("auto", "half", "float16", "fp16"),
    torch.bfloat16: ("auto", "bfloat16", "bf16"),
    torch.float32: ("auto", "float", "float32", "fp32"),
}


# ---------------------------------------------------------------------------------------------------------------------
# On the device
# ---------------------------------------------------------------------------------------------------------------------


@triton.jit
def _load(pointers, dims, HEAD: tl.constexpr, PADDED: tl.constexpr):
    """Load a tile whose head axis is `dims`, already broadcast; zeros beyond the head size."""
    return tl.load(pointers, mask=dims < HEAD, other=0.0) if PADDED else tl.load(pointers)


@triton.jit
def _scores(q_0, q_1, keys, offsets_0, offsets_1, HEAD: tl.constexpr, PART_0: tl.constexpr, PART_1: tl.constexpr):
    """Return the products of the queries with the keys at `keys`, read in one or two parts of the head axis."""
    k_0 = _load(keys[None, :] + offsets_0[:, None], tl.arange(0, PART_0)[:, None], HEAD, PART_0 > HEAD)
    scores = tl.dot(q_0, k_0, allow_tf32=False)
    if PART_1 > 0:
        dims_1 = PART_0 + tl.arange(0, PART_1)
        k_1 = _load(keys[None, :] + offsets_1[:, None], dims_1[:, None], HEAD, PART_0 + PART_1 > HEAD)
        scores = tl.dot(q_1, k_1, acc=scores, allow_tf32=False)
    return scores


@triton.jit
def _absorb(acc, total, top, scores, values, scale):
    """Add a tile to the running softmax: `top` is the largest scaled score so far, `total` the sum of weights."""
    peak = tl.maximum(top, tl.max(scores, 1) * scale)
    weights = tl.math.exp2(scores * scale - peak[:, None])
    decay = tl.math.exp2(top - peak)
    acc = acc * decay[:, None]
    acc = tl.dot(weights.to(values.dtype), values, acc=acc, allow_tf32=False)
    return acc, total * decay + tl.sum(weights, 1), peak


@triton.jit
def _hide(scores, visible):
    # Finite, and so far below the first `top` of -1e30 that the weight of a masked key is exactly 0 even in a row
    # whose whole tile is masked.
    return tl.where(visible, scores, -1.0e34)


# These change from step to step: a version for each that is 1 or a multiple of 16 would be compiled while serving.
@triton.jit(do_not_specialize=["window", "tiles", "table_width", "table_row", "work_split"])
def _prefill(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    k_cache_ptr,
    v_cache_ptr,
    table_ptr,
    start_ptr,
    seq_len_ptr,
    ctx_len_ptr,
    slope_ptr,
    scale,
    window,
    tiles,
    table_width,
    q_token,
    q_head,
    k_token,
    k_head,
    v_token,
    v_head,
    o_token,
    o_head,
    k_page,
    k_page_head,
    v_page,
    v_page_head,
    table_row,
    work_ptr,
    work_lse_ptr,
    work_split,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    PART_0: tl.constexpr,
    PART_1: tl.constexpr,
    PAGE: tl.constexpr,
    X: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    HAS_SLOPES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    # Longest rows first: the last programs to start are then short ones.
    tile = tiles - 1 - tl.program_id(0) // KV_HEADS
    kv_head = tl.program_id(0) % KV_HEADS
    seq = tl.program_id(1)
    context = tl.load(ctx_len_ptr + seq).to(tl.int32)
    rows = (tl.load(seq_len_ptr + seq).to(tl.int32) - context) * GROUP
    first_row = tile * BLOCK_M
    if first_row >= rows:
        return
    start = tl.load(start_ptr + seq).to(tl.int64)
    new = rows // GROUP
    last_row = tl.minimum(first_row + BLOCK_M, rows) - 1
    first_token = first_row // GROUP
    last_token = last_row // GROUP
    # A table that is too narrow is never read past its row: such a sequence's output is NaN.
    fits = context <= table_width * PAGE
    readable = tl.where(fits, context, 0)

    row = first_row + tl.arange(0, BLOCK_M)
    inside = row < rows
    row = tl.minimum(row, rows - 1)
    token = row // GROUP
    head = kv_head * GROUP + row % GROUP
    lane = tl.arange(0, BLOCK_N)
    dims = tl.arange(0, HEAD_PADDED)
    dims_0 = tl.arange(0, PART_0)
    q_rows = q_ptr + (start + token) * q_token + head * q_head
    q_0 = _load(q_rows[:, None] + dims_0[None, :], dims_0[None, :], HEAD, PART_0 > HEAD)
    dims_1 = dims_0
    q_1 = q_0
    if PART_1 > 0:
        dims_1 = PART_0 + tl.arange(0, PART_1)
        q_1 = _load(q_rows[:, None] + dims_1[None, :], dims_1[None, :], HEAD, PART_0 + PART_1 > HEAD)
    slope = tl.zeros([BLOCK_M], dtype=tl.float32)
    if HAS_SLOPES:
        slope = tl.load(slope_ptr + head).to(tl.float32) * 1.4426950408889634 / scale

    acc = tl.zeros([BLOCK_M, HEAD_PADDED], dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    top = tl.zeros([BLOCK_M], dtype=tl.float32) - 1.0e30

    # The context: full tiles, then its edges: the tile where the window begins, and the tail.
    low = 0
    full_begin = 0
    if HAS_WINDOW:
        low = tl.maximum(readable + first_token + 1 - window, 0)
        full_begin = (low + BLOCK_N - 1) // BLOCK_N * BLOCK_N
    full = readable // BLOCK_N * BLOCK_N
    edge = full
    if HAS_WINDOW:
        edge = tl.where(low < full_begin, tl.minimum(full, full_begin - BLOCK_N), full)
    own_begin = 0
    if HAS_WINDOW:
        own_begin = tl.maximum(first_token + 1 - window, 0) // BLOCK_N * BLOCK_N
    own_full = (first_token + 1) // BLOCK_N * BLOCK_N
    # This split's share of the full tiles, those of the context first. The last split has all masked tiles too.
    ctx_end = full
    own_end = own_full
    edge_end = readable
    diagonal_end = last_token + 1
    if SPLITS > 1:
        split = tl.program_id(2)
        ctx_tiles = tl.maximum(full - full_begin, 0) // BLOCK_N
        own_tiles = tl.maximum(own_full - own_begin, 0) // BLOCK_N
        share = (ctx_tiles + own_tiles + SPLITS - 1) // SPLITS
        ctx_end = full_begin + tl.minimum((split + 1) * share, ctx_tiles) * BLOCK_N
        full_begin += tl.minimum(split * share, ctx_tiles) * BLOCK_N
        diagonal_begin = tl.maximum(own_begin, own_full)
        own_end = own_begin + tl.minimum(tl.maximum((split + 1) * share - ctx_tiles, 0), own_tiles) * BLOCK_N
        own_begin += tl.minimum(tl.maximum(split * share - ctx_tiles, 0), own_tiles) * BLOCK_N
        edge_end = tl.where(split == SPLITS - 1, readable, edge)
        diagonal_end = tl.where(split == SPLITS - 1, last_token + 1, diagonal_begin)
    else:
        diagonal_begin = tl.maximum(own_begin, own_full)
    position = context + token
    pages_ptr = table_ptr + seq.to(tl.int64) * table_row
    k_cached = k_cache_ptr + kv_head.to(tl.int64) * k_page_head
    v_cached = v_cache_ptr + kv_head.to(tl.int64) * v_page_head
    k_dims_0 = dims_0 // X * (PAGE * X) + dims_0 % X
    k_dims_1 = dims_1 // X * (PAGE * X) + dims_1 % X
    v_dims = (dims * PAGE)[None, :]
    # Page numbers are read one tile ahead, so that no load of keys waits for one.
    ahead = tl.multiple_of(full_begin, BLOCK_N) + lane
    page = tl.load(pages_ptr + ahead // PAGE, mask=lane * 0 + full_begin < ctx_end, other=0)
    for first_key in range(full_begin, ctx_end, BLOCK_N):
        key = tl.multiple_of(first_key, BLOCK_N) + lane
        k_slots = k_cached + page.to(tl.int64) * k_page + key % PAGE * X
        v_slots = v_cached + page.to(tl.int64) * v_page + key % PAGE
        ahead = tl.multiple_of(tl.minimum(first_key + BLOCK_N, ctx_end - BLOCK_N), BLOCK_N) + lane
        page = tl.load(pages_ptr + ahead // PAGE)
        scores = _scores(q_0, q_1, k_slots, k_dims_0, k_dims_1, HEAD, PART_0, PART_1)
        if HAS_SLOPES:
            scores += slope[:, None] * (key[None, :] - position[:, None]).to(tl.float32)
        if HAS_WINDOW:
            scores = _hide(scores, position[:, None] - key[None, :] < window)
        values = _load(v_slots[:, None] + v_dims, dims[None, :], HEAD, HEAD_PADDED > HEAD)
        acc, total, top = _absorb(acc, total, top, scores, values, scale)
    # Twice at most: the step leads from the one edge to the other.
    for first_key in range(edge, edge_end, tl.maximum(full - edge, BLOCK_N)):
        key = first_key + lane
        # Keys that are not to be seen may be anything, their scores are replaced; values may not, 0 * NaN is NaN.
        column = key // PAGE
        named = (column >= low // PAGE) & (column <= (readable - 1) // PAGE)
        last = tl.load(pages_ptr + column, mask=named, other=0).to(tl.int64)
        k_slots = k_cached + last * k_page + key % PAGE * X
        v_slots = v_cached + last * v_page + key % PAGE
        cached = (key >= low) & (key < readable)
        scores = _scores(q_0, q_1, k_slots, k_dims_0, k_dims_1, HEAD, PART_0, PART_1)
        if HAS_SLOPES:
            scores += slope[:, None] * (key[None, :] - position[:, None]).to(tl.float32)
        visible = cached[None, :] & (row >= 0)[:, None]
        if HAS_WINDOW:
            visible = visible & (position[:, None] - key[None, :] < window)
        scores = _hide(scores, visible)
        values = tl.load(v_slots[:, None] + v_dims, mask=cached[:, None] & (dims < HEAD)[None, :], other=0.0)
        acc, total, top = _absorb(acc, total, top, scores, values, scale)

    # The new tokens: below the diagonal, then on it.
    k_new = k_ptr + start * k_token + kv_head * k_head
    v_new = v_ptr + start * v_token + kv_head * v_head
    for first_key in range(own_begin, own_end, BLOCK_N):
        key = first_key + lane
        k_rows = k_new + key.to(tl.int64) * k_token
        v_rows = v_new + key.to(tl.int64) * v_token
        scores = _scores(q_0, q_1, k_rows, dims_0, dims_1, HEAD, PART_0, PART_1)
        if HAS_SLOPES:
            scores += slope[:, None] * (key[None, :] - token[:, None]).to(tl.float32)
        if HAS_WINDOW:
            scores = _hide(scores, token[:, None] - key[None, :] < window)
        values = _load(v_rows[:, None] + dims[None, :], dims[None, :], HEAD, HEAD_PADDED > HEAD)
        acc, total, top = _absorb(acc, total, top, scores, values, scale)
    for first_key in range(diagonal_begin, diagonal_end, BLOCK_N):
        key = first_key + lane
        clamped = tl.minimum(key, new - 1).to(tl.int64)
        k_rows = k_new + clamped * k_token
        v_rows = v_new + clamped * v_token
        scores = _scores(q_0, q_1, k_rows, dims_0, dims_1, HEAD, PART_0, PART_1)
        if HAS_SLOPES:
            scores += slope[:, None] * (key[None, :] - token[:, None]).to(tl.float32)
        visible = key[None, :] <= token[:, None]
        if HAS_WINDOW:
            visible = visible & (token[:, None] - key[None, :] < window)
        scores = _hide(scores, visible)
        values = _load(v_rows[:, None] + dims[None, :], dims[None, :], HEAD, HEAD_PADDED > HEAD)
        acc, total, top = _absorb(acc, total, top, scores, values, scale)

    stored = inside[:, None] & (dims < HEAD)[None, :]
    if SPLITS > 1:
        # A split may have nothing to see: zeros, with a weight of 0.
        acc = tl.where(fits, acc / tl.where(total > 0, total, 1.0)[:, None], float("nan"))
        lse = tl.where(total > 0, top + tl.math.log2(tl.maximum(total, 1.0e-30)), -1.0e30)
        line = (start + token) * (KV_HEADS * GROUP) + head + split * work_split.to(tl.int64)
        # In the input's type, and what that rounding lost in a second half: as exact as float32, whose rearrangement
        # for the store would take twice the shared memory, more than a small device has.
        high = acc.to(work_ptr.dtype.element_ty)
        tl.store(work_ptr + line[:, None] * HEAD + dims[None, :], high, mask=stored)
        line_low = line + SPLITS * work_split.to(tl.int64)
        low_part = (acc - high.to(tl.float32)).to(work_ptr.dtype.element_ty)
        tl.store(work_ptr + line_low[:, None] * HEAD + dims[None, :], low_part, mask=stored)
        tl.store(work_lse_ptr + line, lse, mask=inside)
    else:
        # Every row saw its own token: `total` is not 0.
        acc = tl.where(fits, acc / total[:, None], float("nan"))
        o_rows = o_ptr + (start + token) * o_token + head * o_head
        tl.store(o_rows[:, None] + dims[None, :], acc.to(o_ptr.dtype.element_ty), mask=stored)


@triton.jit(do_not_specialize=["work_split"])
def _merge(
    o_ptr,
    work_ptr,
    work_lse_ptr,
    start_ptr,
    seq_len_ptr,
    ctx_len_ptr,
    work_split,
    o_token,
    o_head,
    HEADS: tl.constexpr,
    HEAD: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Combine what the splits left in the workspace, BLOCK query heads of new tokens at a time."""
    seq = tl.program_id(1)
    rows = (tl.load(seq_len_ptr + seq) - tl.load(ctx_len_ptr + seq)).to(tl.int32) * HEADS
    first_row = tl.program_id(0) * BLOCK
    if first_row >= rows:
        return
    start = tl.load(start_ptr + seq).to(tl.int64)
    row = first_row + tl.arange(0, BLOCK)
    inside = row < rows
    row = tl.minimum(row, rows - 1)
    dims = tl.arange(0, HEAD_PADDED)
    stored = inside[:, None] & (dims < HEAD)[None, :]
    acc = tl.zeros([BLOCK, HEAD_PADDED], dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    top = tl.zeros([BLOCK], dtype=tl.float32) - 1.0e30
    for split in range(SPLITS):
        line = start * HEADS + row + split * work_split.to(tl.int64)
        lse = tl.load(work_lse_ptr + line)
        line_low = line + SPLITS * work_split.to(tl.int64)
        part = tl.load(work_ptr + line[:, None] * HEAD + dims[None, :], mask=stored, other=0.0).to(tl.float32)
        part += tl.load(work_ptr + line_low[:, None] * HEAD + dims[None, :], mask=stored, other=0.0).to(tl.float32)
        peak = tl.maximum(top, lse)
        decay = tl.math.exp2(top - peak)
        weight = tl.math.exp2(lse - peak)
        acc = acc * decay[:, None] + part * weight[:, None]
        total = total * decay + weight
        top = peak
    acc = acc / total[:, None]
    o_rows = o_ptr + (start + row // HEADS) * o_token + row % HEADS * o_head
    tl.store(o_rows[:, None] + dims[None, :], acc.to(o_ptr.dtype.element_ty), mask=stored)


# ---------------------------------------------------------------------------------------------------------------------
# On the host
# ---------------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def _device(index: int | None) -> tuple[str, int]:
    """Return whose rows a device uses, and its multiprocessors; in the interpreter, one."""
    if index is None:
        return device_of("the interpreter", DEVICES["h200"].shared_bytes), 1
    found = torch.cuda.get_device_properties(index)
    shared = getattr(found, "shared_memory_per_block_optin", 0) or DEVICES["bi100"].shared_bytes
    return device_of(found.name, shared), found.multi_processor_count


@functools.lru_cache(maxsize=None)
def config_for(device: str, dtype: torch.dtype, head_size: int) -> PrefillConfig:
    """Return the row for these inputs.

    Raises:
        NotImplementedError: No row serves them.
    """
    try:
        return prefill_config(device, _NAMES.get(dtype, str(dtype)), head_size)
    except LookupError as error:
        raise NotImplementedError(f"the Triton prefill cannot serve this: {error}") from error


@functools.lru_cache(maxsize=None)
def parts_of(head_size: int, key_parts: int) -> tuple[int, int]:
    """Return the sizes of the loads in which the head axis of keys is read; the second is 0 where there is one.

    Two are also taken where powers of two then waste less: 192 is 128 and 64.
    """
    whole = padded(head_size)
    half = whole // 2
    rest = padded(head_size - half)
    return (half, rest) if key_parts > 1 or half + rest < whole else (whole, 0)


def splits_of(programs: int, keys: int, multiprocessors: int, config: PrefillConfig) -> int:
    """Return among how many programs the keys of one tile are split.

    Short inputs behind long contexts have few tiles; splits fill the multiprocessors. `keys` bounds the keys of a
    sequence from above.
    """
    free = multiprocessors * config.resident // max(programs, 1)
    return max(1, min(free, keys // config.split_keys, config.most_splits))


def refuse_unsupported(
    q: torch.Tensor,
    k: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    kv_cache_dtype: str,
) -> None:
    """Raise before any launch where the answer would be wrong.

    Raises:
        NotImplementedError: The cache is quantised, or of another type than the query.
        ValueError: Shapes or strides contradict each other.
    """
    if kv_cache_dtype not in _CACHE_DTYPE_NAMES.get(k_cache.dtype, ()) or k_cache.dtype != q.dtype:
        raise NotImplementedError(
            f"kv_cache_dtype {kv_cache_dtype!r} with a cache of {k_cache.dtype} and a query of {q.dtype} is not "
            f"supported by the Triton prefill: start the engine with --kv-cache-dtype auto"
        )
    heads, head_size = q.shape[1:]
    kv_heads = k.shape[1]
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot be divided among {kv_heads} KV heads")
    _, cache_heads, chunks, page, x = k_cache.shape
    if (cache_heads, chunks * x) != (kv_heads, head_size) or v_cache.shape[1:] != (kv_heads, head_size, page):
        raise ValueError(
            f"caches of shapes {tuple(k_cache.shape)} and {tuple(v_cache.shape)} do not hold {kv_heads} KV heads of "
            f"size {head_size}"
        )
    if k_cache.stride()[2:] != (page * x, x, 1) or v_cache.stride()[2:] != (page, 1):
        raise ValueError("the caches of one head of one page must be contiguous")


def refuse_narrow_table(b_loc: torch.Tensor, b_ctx_len: torch.Tensor, page: int, batch: int) -> None:
    """Raise where a table cannot name its context, as far as that is known without reading the device.

    On the device the kernel itself checks: it reads nothing past a table's row and writes NaN for such a sequence.

    Raises:
        ValueError: There are fewer tables than sequences, or (lengths on the CPU) a table is too narrow.
    """
    if b_loc.shape[0] < batch or b_ctx_len.shape[0] < batch:
        raise ValueError(f"{b_loc.shape[0]} tables and {b_ctx_len.shape[0]} context lengths for {batch} sequences")
    if b_ctx_len.device.type == "cpu":
        for index, context in enumerate(b_ctx_len[:batch].tolist()):
            if context > b_loc.shape[1] * page:
                raise ValueError(
                    f"sequence {index}: its context of {context} tokens takes {-(-context // page)} pages, its table "
                    f"names {b_loc.shape[1]}"
                )


def context_attention_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    kv_cache_dtype: str,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    b_loc: torch.Tensor,
    b_start_loc: torch.Tensor,
    b_seq_len: torch.Tensor,
    b_ctx_len: torch.Tensor,
    max_input_len: int,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    alibi_slopes: torch.Tensor | None = None,
    sliding_window: int | None = None,
) -> None:
    """Write causal attention of new tokens over their cached context and over each other into `o`.

    The scale of the logits is `head_size ** -0.5`. Nothing is read back from the device: the call can be captured.

    Args:
        q: `[tokens, heads, head_size]`, the sequences' new tokens one after the other.
        k: `[tokens, kv_heads, head_size]`, of the new tokens only.
        v: The same shape.
        o: The shape and type of `q`; rows that belong to no sequence stay as they are.
        kv_cache_dtype: `auto`, or the name of the cache's own type.
        k_cache: Keys of the context, in the layout stated above.
        v_cache: Values of the context.
        b_loc: Block tables `[seqs, width]`; the row of a sequence without context is never read.
        b_start_loc: `[seqs]` or longer, where each sequence's new tokens begin.
        b_seq_len: `[seqs]`, context and new tokens together.
        b_ctx_len: `[seqs]`, tokens in the cache.
        max_input_len: At least the largest number of new tokens of a sequence.
        k_scale: Only for quantised caches, which are refused.
        v_scale: The same.
        alibi_slopes: `[heads]` or None; the bias is `slope * (k_pos - q_pos)`.
        sliding_window: A query sees keys with `q_pos - k_pos < sliding_window`; None or not positive for all.

    Raises:
        NotImplementedError: The cache is quantised, or no configuration serves the inputs.
        ValueError: Shapes contradict each other, or a table is known to be too narrow for its context.
    """
    del k_scale, v_scale
    refuse_unsupported(q, k, k_cache, v_cache, kv_cache_dtype)
    batch, page = b_seq_len.shape[0], v_cache.shape[3]
    refuse_narrow_table(b_loc, b_ctx_len, page, batch)
    _, heads, head_size = q.shape
    device, multiprocessors = _device(q.device.index)
    config = config_for(device, q.dtype, head_size)
    kv_heads = k.shape[1]
    tiles = -(-max_input_len * (heads // kv_heads) // config.block_m)
    if tiles <= 0 or not batch:
        return
    q, k, v = (tensor if tensor.stride(2) == 1 else tensor.contiguous() for tensor in (q, k, v))
    if o.stride(2) != 1:
        raise ValueError("the output of one head must be contiguous")
    window = max(sliding_window or 0, 0)
    keys = max_input_len + b_loc.shape[1] * page
    keys = min(keys, max_input_len + window) if window else keys
    splits = splits_of(tiles * kv_heads * batch, keys, multiprocessors, config)
    launch(
        config,
        (tiles, batch, splits),
        q,
        k,
        v,
        o,
        k_cache,
        v_cache,
        b_loc,
        b_start_loc,
        b_seq_len,
        b_ctx_len,
        max_input_len,
        alibi_slopes,
        window,
    )


def launch(
    config: PrefillConfig,
    grid: tuple[int, int, int],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    b_loc: torch.Tensor,
    b_start_loc: torch.Tensor,
    b_seq_len: torch.Tensor,
    b_ctx_len: torch.Tensor,
    max_input_len: int,
    alibi_slopes: torch.Tensor | None,
    window: int,
) -> None:
    """Launch the kernel on checked operands; `grid` is tiles of the longest sequence, sequences, splits of the keys.

    With splits a workspace of `2 * splits * tokens * heads * head_size` elements of the query's type is allocated, and
    as many float32 divided by `2 * head_size`; a second kernel combines the splits.
    """
    tokens, heads, head_size = q.shape
    kv_heads = k.shape[1]
    tiles, batch, splits = grid
    part_0, part_1 = parts_of(head_size, config.key_parts)
    work, work_lse = o, o
    if splits > 1:
        work = torch.empty((2, splits, tokens, heads, head_size), dtype=q.dtype, device=q.device)
        work_lse = torch.empty((splits, tokens, heads), dtype=torch.float32, device=q.device)
    _prefill[(tiles * kv_heads, batch, splits)](
        q,
        k,
        v,
        o,
        k_cache,
        v_cache,
        b_loc,
        b_start_loc,
        b_seq_len,
        b_ctx_len,
        q if alibi_slopes is None else alibi_slopes,
        head_size**-0.5 * _LOG2_E,
        window,
        tiles,
        b_loc.shape[1],
        q.stride(0),
        q.stride(1),
        k.stride(0),
        k.stride(1),
        v.stride(0),
        v.stride(1),
        o.stride(0),
        o.stride(1),
        k_cache.stride(0),
        k_cache.stride(1),
        v_cache.stride(0),
        v_cache.stride(1),
        b_loc.stride(0),
        work,
        work_lse,
        tokens * heads,
        KV_HEADS=kv_heads,
        GROUP=heads // kv_heads,
        HEAD=head_size,
        HEAD_PADDED=padded(head_size),
        PART_0=part_0,
        PART_1=part_1,
        PAGE=v_cache.shape[3],
        X=k_cache.shape[4],
        HAS_WINDOW=window > 0,
        HAS_SLOPES=alibi_slopes is not None,
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        SPLITS=splits,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    if splits > 1:
        _merge[(-(-max_input_len * heads // config.merge_rows), batch)](
            o,
            work,
            work_lse,
            b_start_loc,
            b_seq_len,
            b_ctx_len,
            tokens * heads,
            o.stride(0),
            o.stride(1),
            HEADS=heads,
            HEAD=head_size,
            HEAD_PADDED=padded(head_size),
            SPLITS=splits,
            BLOCK=config.merge_rows,
            num_warps=config.merge_warps,
            num_stages=config.merge_stages,
        )
