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
Where Triton can turn what it loaded (3.x), a page is read as the flat run of memory that it is.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, NamedTuple

import torch
import triton
import triton.language as tl

from .muh_dispatch import DEVICES, LEAST_TILE, DecodeConfig, decode_config, device_of, padded

_VERSION = tuple(int(number) for number in re.findall(r"\d+", triton.__version__)[:2])
_HAS_PERMUTE = hasattr(tl, "permute")  # not in Triton 2.3.1
# From here on `tl.dot` takes 8 columns, and a compiled kernel takes what the uncompiled one takes, constants included.
_RECENT = _VERSION >= (3, 6)
_LEAST_COLUMNS = 8 if _RECENT else 16
_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
_CACHE_NAMES = {
    torch.float16: ("auto", "half", "float16", "fp16"),
    torch.bfloat16: ("auto", "bfloat16", "bf16"),
    torch.float32: ("auto", "float", "float32", "fp32"),
}
_LEAST_WORKSPACE = 1 << 22  # float32 elements, 16 MiB
_MOST_BLOCKS = 16  # a multiprocessor; bounds how many find no tokens in a captured graph
_FEW_SPLITS = 8  # all counts up to here are tried, whatever they leave of the last wave


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
def _page_load(pages, here, stride, flat, dims: tl.constexpr, padded_dims: tl.constexpr, PAGE: tl.constexpr):
    """Return pages `[pages, padded_dims * PAGE]` as they lie in memory: what threads read next to each other, is."""
    at = pages + (here * stride)[:, None]
    if dims == padded_dims:  # noqa: SIM108 - chosen when compiling
        page = tl.load(at)
    else:
        page = tl.load(at, mask=(flat < dims * PAGE)[None, :], other=0.0)
    return page


@triton.jit
def _page_step(
    q,
    k,
    v,
    scale_log2,
    bias,
    valid,
    top,
    total,
    acc,
    D_TILE: tl.constexpr,
    PAGE: tl.constexpr,
    X: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ALIBI: tl.constexpr,
    TAIL: tl.constexpr,
):
    """Return the running maximum, sum and product after one tile of pages; tokens are rows, query heads columns."""
    k = tl.permute(tl.reshape(k, (BLOCK_N // PAGE, D_TILE // X, PAGE, X)), (0, 2, 1, 3))
    k = tl.reshape(k, (BLOCK_N, D_TILE))
    v = tl.permute(tl.reshape(v, (BLOCK_N // PAGE, D_TILE, PAGE)), (1, 0, 2))
    v = tl.reshape(v, (D_TILE, BLOCK_N))
    if TAIL:
        k = tl.where(valid[:, None], k, 0.0)
        v = tl.where(valid[None, :], v, 0.0)
    s = tl.dot(k, q, allow_tf32=False) * scale_log2
    if ALIBI:
        s += bias
    if TAIL:
        s = tl.where(valid[:, None], s, -1e30)
    new_top = tl.maximum(top, tl.max(s, 0))
    keep = tl.math.exp2(top - new_top)
    p = tl.math.exp2(s - new_top[None, :])
    total = total * keep + tl.sum(p, 0)
    acc = acc * keep[None, :] + tl.dot(v, p.to(v.dtype), allow_tf32=False)
    return new_top, total, acc


@triton.jit
def _attend_pages(
    query_ptr,
    key_ptr,
    value_ptr,
    table,
    slopes_ptr,
    scale_log2,
    key_stride,
    value_stride,
    begin,
    end,
    length,
    query_head,
    is_row,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    PAGE: tl.constexpr,
    X: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ALIBI: tl.constexpr,
):
    """Return the maximum, the sum and the product `[D_TILE, BLOCK_M]` of one part, whose tiles are whole pages.

    Pages are loaded flat, so that neighbouring threads read neighbouring bytes, and turned afterwards. The products are
    transposed: keys and values come as they lie, and no more columns than query heads, padded to 8, are multiplied.
    """
    dim = tl.arange(0, D_TILE)
    q = tl.load(
        query_ptr + query_head[None, :] * D + dim[:, None], mask=is_row[None, :] & (dim < D)[:, None], other=0.0
    )
    slope = tl.zeros([BLOCK_M], tl.float32)
    if ALIBI:
        slope = tl.load(slopes_ptr + query_head, mask=is_row, other=0.0).to(tl.float32) * 1.4426950408889634
    token = tl.arange(0, BLOCK_N)
    in_tile = tl.arange(0, BLOCK_N // PAGE)
    flat = tl.arange(0, D_TILE * PAGE)
    key_pages = key_ptr + flat[None, :]
    value_pages = value_ptr + flat[None, :]

    top = tl.full([BLOCK_M], -1e30, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([D_TILE, BLOCK_M], tl.float32)
    full_end = begin + (end - begin) // BLOCK_N * BLOCK_N
    # The table is read one tile ahead, so that a tile's loads wait for no other. Without a full tile, entry 0 is read.
    last_full = tl.maximum(full_end - BLOCK_N, begin)
    any_full = tl.minimum(full_end - begin, 1)
    page = tl.load(table + (begin // PAGE + in_tile) * any_full)
    for first in range(begin, full_end, BLOCK_N):
        here = page.to(tl.int64)
        following = tl.multiple_of(tl.minimum(first + BLOCK_N, last_full), BLOCK_N)
        page = tl.load(table + following // PAGE + in_tile)
        k = _page_load(key_pages, here, key_stride, flat, D, D_TILE, PAGE)
        v = _page_load(value_pages, here, value_stride, flat, D, D_TILE, PAGE)
        bias = slope[None, :] * (first + token - (length - 1)).to(tl.float32)[:, None]
        top, total, acc = _page_step(
            q, k, v, scale_log2, bias, token, top, total, acc, D_TILE, PAGE, X, BLOCK_N, ALIBI, False
        )
    if full_end < end:
        # A page is there as a whole, whatever its unused slots hold; pages past the end repeat the last one.
        here = tl.load(table + tl.minimum(full_end // PAGE + in_tile, (end - 1) // PAGE)).to(tl.int64)
        k = _page_load(key_pages, here, key_stride, flat, D, D_TILE, PAGE)
        v = _page_load(value_pages, here, value_stride, flat, D, D_TILE, PAGE)
        bias = slope[None, :] * (full_end + token - (length - 1)).to(tl.float32)[:, None]
        valid = full_end + token < end
        top, total, acc = _page_step(
            q, k, v, scale_log2, bias, valid, top, total, acc, D_TILE, PAGE, X, BLOCK_N, ALIBI, True
        )
    return top, total, acc


@triton.jit
def _store_part(
    parts_ptr,
    out_ptr,
    out_stride,
    seq,
    split,
    splits,
    query_head,
    is_row,
    top,
    total,
    acc,
    heads,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    DIRECT: tl.constexpr,
    TURNED: tl.constexpr,
):
    """Store one part `[BLOCK_M, D_TILE]`, or turned round, and its log-sum-exp; the only part goes to the output."""
    dim = tl.arange(0, D_TILE)
    norm = tl.maximum(total, 1e-30)
    part = (seq * heads + query_head).to(tl.int64) * splits + split
    base = out_ptr + seq.to(tl.int64) * out_stride if DIRECT else parts_ptr
    row = query_head if DIRECT else part
    if TURNED:
        target = base + row[None, :] * D + dim[:, None]
        mask = is_row[None, :] & (dim < D)[:, None]
        acc = acc / norm[None, :]
    else:
        target = base + row[:, None] * D + dim[None, :]
        mask = is_row[:, None] & (dim < D)[None, :]
        acc = acc / norm[:, None]
    tl.store(target, acc.to(base.dtype.element_ty), mask=mask)
    if not DIRECT:
        sums = parts_ptr + tl.num_programs(2).to(tl.int64) * heads * splits * D
        tl.store(sums + part, top + tl.math.log2(norm), mask=is_row)


@triton.jit
def _attend_tokens(
    query_ptr,
    key_ptr,
    value_ptr,
    table,
    slopes_ptr,
    scale_log2,
    key_stride,
    value_stride,
    begin,
    end,
    length,
    query_head,
    is_row,
    D: tl.constexpr,
    D_TILE: tl.constexpr,
    PAGE: tl.constexpr,
    X: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    KEY_DIMS: tl.constexpr,
    ALIBI: tl.constexpr,
):
    """Return the maximum, the sum and the product `[BLOCK_M, D_TILE]` of one part, each token found by its own page."""
    step = tl.arange(0, KEY_DIMS)
    dim = tl.arange(0, D_TILE)
    rows = query_ptr + query_head[:, None] * D + step[None, :]
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
    value_base = value_ptr + dim * PAGE
    token = tl.arange(0, BLOCK_N)

    if ALIBI:
        slope = tl.load(slopes_ptr + query_head, mask=is_row, other=0.0).to(tl.float32) * 1.4426950408889634

    top = tl.full([BLOCK_M], -1e30, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D_TILE], tl.float32)

    full_end = begin + (end - begin) // BLOCK_N * BLOCK_N
    # The table is read one tile ahead, so that a tile's loads wait for no other. Without a full tile, entry 0 is read.
    last_full = tl.maximum(full_end - BLOCK_N, begin)
    any_full = tl.minimum(full_end - begin, 1)
    page = tl.load(table + (begin + token) // PAGE * any_full)
    for first in range(begin, full_end, BLOCK_N):
        n = tl.multiple_of(first, BLOCK_N) + token
        here = page.to(tl.int64)
        following = tl.multiple_of(tl.minimum(first + BLOCK_N, last_full), BLOCK_N)
        page = tl.load(table + (following + token) // PAGE)
        slot = n % PAGE
        values = value_base[None, :] + (here * value_stride + slot)[:, None]
        v = _value_load(values, dim, D, D_TILE)
        keys = key_ptr + (here * key_stride + slot * X)[None, :] + key_dim[:, None]
        s = _scores(keys, q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15, step, D, PAGE, KEY_DIMS)
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
        keys = key_ptr + (here * key_stride + slot * X)[None, :] + key_dim[:, None]
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
    return top, total, acc


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
    query = query_ptr + seq.to(tl.int64) * query_stride
    keys = key_ptr + head * (D * PAGE)
    values = value_ptr + head * (D * PAGE)
    table = tables_ptr + seq.to(tl.int64) * table_stride
    scale_log2 = scale * 1.4426950408889634
    heads = tl.num_programs(0) // HEAD_BLOCKS * GROUP
    if WHOLE_PAGES:
        top, total, acc = _attend_pages(
            query,
            keys,
            values,
            table,
            slopes_ptr,
            scale_log2,
            key_stride,
            value_stride,
            begin,
            end,
            length,
            query_head,
            is_row,
            D,
            D_TILE,
            PAGE,
            X,
            BLOCK_M,
            BLOCK_N,
            ALIBI,
        )
    else:
        top, total, acc = _attend_tokens(
            query,
            keys,
            values,
            table,
            slopes_ptr,
            scale_log2,
            key_stride,
            value_stride,
            begin,
            end,
            length,
            query_head,
            is_row,
            D,
            D_TILE,
            PAGE,
            X,
            BLOCK_M,
            BLOCK_N,
            KEY_DIMS,
            ALIBI,
        )
    _store_part(
        parts_ptr,
        out_ptr,
        out_stride,
        seq,
        split,
        splits,
        query_head,
        is_row,
        top,
        total,
        acc,
        heads,
        D,
        D_TILE,
        DIRECT,
        WHOLE_PAGES,
    )


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
    """Return into how many parts each sequence is split: the count with the least estimated time.

    The estimate is the row's (`DecodeConfig`), in tiles: `k` blocks on a multiprocessor, on average, take as long for a
    tile of each as the slower of two limits, the memory's rate (`k`) and one block's own (`latency`). An average, since
    blocks that share no multiprocessor still share the memory. Of two equals the smaller count wins.

    Args:
        programs: Blocks without a split: sequences times KV heads.
        tiles: Tiles of the longest sequence.
        config: Row of the table.
        sms: Multiprocessors of the device.
    """
    least = -(-tiles * config.block_n // config.max_tokens)
    filled = {blocks * sms // programs for blocks in range(1, _MOST_BLOCKS + 1)}
    few = {count for count in range(1, _FEW_SPLITS + 1) if programs * count <= _MOST_BLOCKS * sms}
    # The fewest parts of the same length stand for all that have it.
    counts = {-(-tiles // -(-tiles // min(tiles, max(least, count)))) for count in filled | few if count} or {least}
    return min(counts, key=lambda splits: (_estimate(programs, tiles, splits, config, sms), splits))


def _estimate(programs: int, tiles: int, splits: int, config: DecodeConfig, sms: int) -> float:
    """Return the estimated time of both launches, in tiles of one multiprocessor."""
    blocks = programs * splits / sms
    longest = -(-tiles // splits)
    waves, rest = divmod(blocks, config.resident)
    cost = 0.0
    for count, resident in ((waves, config.resident), (1, rest)):
        if count and resident:
            # Between the two limits both are felt: the cubes fit what was measured, 3 % off on average.
            cost += count * (longest * (resident**3 + config.latency**3) ** (1 / 3) + config.start_tiles)
    if splits > 1:
        cost += config.merge_tiles * splits + config.merge_load * blocks
    return cost


@functools.lru_cache(maxsize=None)
def _device(index: int | None) -> tuple[str, int]:
    """Return whose rows a device uses, and its multiprocessors; in the interpreter, few of them."""
    if index is None:
        return device_of("the interpreter", DEVICES["h200"].shared_bytes), DEVICES["bi100"].sms
    found = torch.cuda.get_device_properties(index)
    shared = getattr(found, "shared_memory_per_block_optin", 0) or DEVICES["bi100"].shared_bytes
    return device_of(found.name, shared), found.multi_processor_count


class _Layout(NamedTuple):
    """What a plan depends on: everything about a call but addresses, lengths, the scale and the exact bound."""

    device: int | None
    dtype: torch.dtype
    cache_dtype: torch.dtype
    out_dtype: torch.dtype
    query: tuple[int, ...]
    query_stride: tuple[int, ...]
    out_stride: tuple[int, ...]
    cache: tuple[int, ...]
    key_stride: tuple[int, ...]
    value_stride: tuple[int, ...]
    table_stride: int
    others: tuple[torch.dtype, ...]
    slopes: torch.dtype | None
    kind: str
    max_tokens: int


class _Plan:
    """How calls of one layout run; after the first call, also the two compiled kernels on their grids."""

    def __init__(self, layout: _Layout) -> None:
        _refuse_unsupported(layout)
        seqs, heads, head_size = layout.query
        _, kv_heads, _, page, x = layout.cache
        group = heads // kv_heads
        name, sms = _device(layout.device)
        try:
            config = decode_config(name, _NAMES[layout.dtype], head_size, group)
        except LookupError as error:
            raise NotImplementedError(f"the Triton PagedAttention V2 cannot serve this: {error}") from error
        whole = config.whole_pages and _HAS_PERMUTE and config.block_n % page == 0 and page & (page - 1) == 0
        block_m = max(config.block_m, _LEAST_COLUMNS if whole else LEAST_TILE)
        head_blocks = -(-group // block_m)
        tiles = -(-layout.max_tokens // config.block_n)
        d_tile = padded(head_size)
        self.splits = split_count(seqs * kv_heads * head_blocks, tiles, config, sms)
        self.direct = self.splits == 1
        self.elements = seqs * heads * self.splits * (head_size + 1)
        self.grid = (kv_heads * head_blocks, self.splits, seqs)
        self.strides = (
            layout.query_stride[0],
            layout.out_stride[0],
            layout.table_stride,
            layout.key_stride[0],
            layout.value_stride[0],
        )
        self.constants = (
            head_size,
            d_tile,
            page,
            x,
            group,
            head_blocks,
            block_m,
            config.block_n,
            d_tile if whole else min(config.key_dims, d_tile),
            whole,
            layout.slopes is not None,
            self.direct,
        )
        self.join_grid = (heads, seqs, -(-head_size // config.merge_dims))
        merge_splits, self.join_warps = config.merge_splits, config.merge_warps
        while self.join_warps > 1 and self.splits < merge_splits:
            merge_splits, self.join_warps = merge_splits // 2, self.join_warps // 2
        self.join_constants = (head_size, config.block_n, merge_splits, config.merge_dims)
        self.config = config
        self.attend: Callable[..., object] | None = None
        self.join: Callable[..., object] | None = None


@functools.lru_cache(maxsize=4096)
def _plan(layout: _Layout) -> _Plan:
    """Return the plan of a layout.

    Raises:
        NotImplementedError: The table has no row for this type on this device, or `_refuse_unsupported` says so.
        ValueError: The query heads cannot be divided among the KV heads.
    """
    return _Plan(layout)


def _again(compiled: Any, grid: tuple[int, int, int]) -> Callable[..., object] | None:  # noqa: ANN401 - untyped
    """Return what launches a compiled kernel on its grid once more, or None where that is not known to work.

    `kernel[grid](...)` binds, classifies and hashes every argument to find the compiled kernel, which it returns. Where
    all that the choice depends on is the same, the compiled one takes the same arguments, and addresses as numbers.
    """
    launchable = _RECENT and compiled is not None and hasattr(type(compiled), "__getitem__")
    return compiled[grid] if launchable else None


_workspaces: dict[tuple[int | None, int], list[torch.Tensor]] = {}


def _stream(like: torch.Tensor) -> int:
    """Return the stream in use on the tensor's device."""
    return int(torch.cuda.current_stream(like.device).cuda_stream) if like.is_cuda else 0


# Without making an object of the stream; Triton launches on what the same function returns.
_raw_stream: Callable[[int | None], int] | None = getattr(
    torch._C,  # noqa: SLF001 - the public way costs some microseconds; it is taken where this one is missing
    "_cuda_getCurrentRawStream",
    None,
)


def _workspace(elements: int, like: torch.Tensor, stream: int | None = None) -> torch.Tensor:
    """Return float32 scratch memory of the stream in use, at least `elements` long.

    It grows by doubling, and what was handed out once is never freed: a captured graph may still write to it. Calls on
    one stream follow each other, so they share it; graphs captured on one stream must not be replayed at the same time.
    """
    index = like.device.index
    kept = _workspaces.setdefault((index, _stream(like) if stream is None else stream), [])
    if not kept or kept[-1].numel() < elements:
        size = max(elements, 2 * kept[-1].numel() if kept else _LEAST_WORKSPACE)
        kept.append(torch.empty(size, dtype=torch.float32, device=like.device))
    return kept[-1]


def _refuse_unsupported(layout: _Layout) -> None:
    """Raise, before anything is launched, where the answer would be wrong.

    Raises:
        NotImplementedError: The cache is quantised, of another type than the query, or not dense within a page.
        ValueError: The query heads cannot be divided among the KV heads.
    """
    if layout.kind not in _CACHE_NAMES.get(layout.cache_dtype, ()):
        raise NotImplementedError(
            f"kv_cache_dtype {layout.kind!r} with a cache of {layout.cache_dtype} is not supported by the Triton "
            f"PagedAttention V2: start the engine with --kv-cache-dtype auto"
        )
    if layout.dtype is not layout.cache_dtype:
        raise NotImplementedError(f"queries of {layout.dtype} with a cache of {layout.cache_dtype} are not supported")
    _, kv_heads, chunks, page, x = layout.cache
    if layout.query[1] % kv_heads:
        raise ValueError(f"{layout.query[1]} query heads cannot be divided among {kv_heads} KV heads")
    row = chunks * x * page
    if layout.key_stride[1:] != (row, page * x, x, 1) or layout.value_stride[1:] != (row, page, 1):
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
    key_shape = key_cache.shape
    limit = min(int(max_seq_len), block_tables.shape[1] * key_shape[3]) if key_shape[0] else 0
    # A bound rounded up changes nothing and lets a growing sequence keep its plan.
    layout = _Layout(
        query.device.index,
        query.dtype,
        key_cache.dtype,
        out.dtype,
        query.shape,
        query.stride(),
        out.stride(),
        key_shape,
        key_cache.stride(),
        value_cache.stride(),
        block_tables.stride(0),
        (value_cache.dtype, block_tables.dtype, seq_lens.dtype),
        None if alibi_slopes is None else alibi_slopes.dtype,
        kv_cache_dtype,
        (limit + 63) & -64,
    )
    if limit <= 0 or not layout.query[0]:
        _refuse_unsupported(layout)
        out.zero_()
        return
    dense = (layout.query[2], 1)
    if layout.query_stride[1:] == dense and layout.out_stride[1:] == dense:
        _launch(_plan(layout), out, query, key_cache, value_cache, scale, block_tables, seq_lens, limit, alibi_slopes)
        return
    query = query.contiguous()
    target = torch.empty_like(query, dtype=out.dtype)
    layout = layout._replace(query_stride=query.stride(), out_stride=target.stride())
    _launch(_plan(layout), target, query, key_cache, value_cache, scale, block_tables, seq_lens, limit, alibi_slopes)
    out.copy_(target)


def _launch(
    plan: _Plan,
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
    stream = _raw_stream(query.device.index) if _raw_stream and query.is_cuda else _stream(query)
    parts = out if plan.direct else _workspace(plan.elements, query, stream)
    tensors = (
        parts,
        out,
        query,
        key_cache,
        value_cache,
        block_tables,
        seq_lens,
        seq_lens if slopes is None else slopes,
    )
    attend, join = plan.attend, plan.join
    if attend is not None:
        parts_at, out_at, query_at, key_at, value_at, tables_at, lengths_at, slopes_at = [t.data_ptr() for t in tensors]
        # The kernels were compiled for addresses that are multiples of 16, as nearly all are.
        if not (out_at | query_at | key_at | value_at | tables_at | lengths_at | slopes_at) & 15:
            attend(
                parts_at,
                out_at,
                query_at,
                key_at,
                value_at,
                tables_at,
                lengths_at,
                slopes_at,
                scale,
                *plan.strides,
                limit,
                plan.splits,
                *plan.constants,
                stream=stream,
            )
            if join is not None:
                join(
                    out_at,
                    parts_at,
                    lengths_at,
                    plan.strides[1],
                    limit,
                    plan.splits,
                    *plan.join_constants,
                    stream=stream,
                )
            return
    _compile_and_launch(plan, tensors, scale, limit)


def _compile_and_launch(plan: _Plan, tensors: tuple[torch.Tensor, ...], scale: float, limit: int) -> None:
    """Launch as Triton's users do, and keep what was compiled for addresses that are multiples of 16."""
    parts, out, lengths = tensors[0], tensors[1], tensors[6]
    config = plan.config
    attend = _attend_split[plan.grid](
        *tensors,
        scale,
        *plan.strides,
        limit,
        plan.splits,
        *plan.constants,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )
    join = None
    if not plan.direct:
        join = _join_splits[plan.join_grid](
            out,
            parts,
            lengths,
            plan.strides[1],
            limit,
            plan.splits,
            *plan.join_constants,
            num_warps=plan.join_warps,
            num_stages=config.merge_stages,
        )
    if not any(tensor.data_ptr() & 15 for tensor in tensors):
        plan.attend = _again(attend, plan.grid)
        plan.join = None if plan.attend is None else _again(join, plan.join_grid)
