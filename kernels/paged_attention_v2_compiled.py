"""PagedAttention V2 by a compiled kernel: `paged_attention_v2.cu`, which the image's own compiler makes a library of.

The library stands beside this file; it has no Python in it and is called through ctypes. Where it is missing, or a call
is not one that it can do, that is a `NotImplementedError` before anything is launched. vLLM calls
`paged_attention_v2_or_pytorch`, which does not even load a library that has not passed its trial (`trust.py`).
"""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

import torch

from .paged_attention_v2_pytorch import paged_attention_v2 as pytorch_paged_attention_v2
from .trust import attempt, library_path

OPERATION = "compiled_decode_v2"

VERSION = 1
"""Of the library's interface."""

MOST_PART = 512
LEAST_PART = 64
"""Tokens of a part: as many as the library takes at most, and as few as are worth a block."""

_HEAD_SIZE = 256
_VECTOR = 8  # elements in 16 bytes
_BLOCKS_EACH = 4  # a multiprocessor, before parts get longer
_HEADS = (1, 2, 4, 8)  # query heads that a block of the library takes
_NAMES = {torch.float16: ("auto", "half", "float16", "fp16"), torch.bfloat16: ("auto", "bfloat16", "bf16")}
_SIGNATURE = (
    *(ctypes.c_void_p,) * 8,
    *(ctypes.c_longlong,) * 5,
    ctypes.c_float,
    *(ctypes.c_int,) * 9,
    ctypes.c_void_p,
)


class LaunchError(RuntimeError):
    """CUDA refused a launch, or tells of an earlier one that failed; `error_code` is its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error {code} when the compiled PagedAttention V2 was launched")
        self.error_code = code


class Library(NamedTuple):
    """The library, and whether its pointers are the host's rather than a device's."""

    function: ctypes._NamedFuncPointer
    on_host: bool


@functools.lru_cache(maxsize=8)
def library(path: str) -> Library:
    """Return the library at `path`.

    Raises:
        NotImplementedError: It is not there, cannot be loaded, or has another interface.
    """
    try:
        loaded = ctypes.CDLL(path)
        version = int(loaded.muh_paged_attention_v2_version())
        function = loaded.muh_paged_attention_v2
    except (OSError, AttributeError) as error:
        raise NotImplementedError(f"there is no compiled PagedAttention V2: {error}") from None
    if version != VERSION:
        raise NotImplementedError(f"{path} has version {version} of the interface, wanted is {VERSION}")
    function.argtypes = _SIGNATURE
    function.restype = ctypes.c_int
    return Library(function, bool(loaded.muh_paged_attention_v2_on_host()))


@functools.lru_cache(maxsize=64)
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1


def part_tokens(rows: int, limit: int, page: int, multiprocessors: int) -> int:
    """Return the tokens of a part, whole pages: as many as still give every multiprocessor some blocks.

    Args:
        rows: Blocks that each part of all sequences takes: sequences times blocks of query heads.
        limit: Bound of the lengths.
        page: Tokens of a page, at most `MOST_PART`.
        multiprocessors: Those of the device.
    """
    part = MOST_PART
    while part > LEAST_PART and rows * -(-limit // part) < _BLOCKS_EACH * multiprocessors:
        part //= 2
    return max(part // page, 1) * page


def _is_dense_within_rows(tensor: torch.Tensor) -> bool:
    """Return whether the elements of each page, or row, follow each other; a stride along an extent of 1 is nothing."""
    row = 1
    for size, stride in zip(reversed(tensor.shape[1:]), reversed(tensor.stride()[1:])):
        if size > 1 and stride != row:
            return False
        row *= size
    return True


def _refuse(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, kv_cache_dtype: str) -> None:
    """Raise, before anything is launched, where the library would be wrong.

    Raises:
        NotImplementedError: The type, a size or the layout is none that the library has.
        ValueError: The query heads cannot be divided among the KV heads.
    """
    if kv_cache_dtype not in _NAMES.get(key.dtype, ()):
        raise NotImplementedError(
            f"kv_cache_dtype {kv_cache_dtype!r} with a cache of {key.dtype} is not supported by the compiled "
            f"PagedAttention V2: start the engine with --kv-cache-dtype auto and half precision"
        )
    if query.dtype is not key.dtype or value.dtype is not key.dtype:
        kinds = f"queries of {query.dtype} and values of {value.dtype} with keys of {key.dtype}"
        raise NotImplementedError(f"{kinds} are not supported by the compiled PagedAttention V2")
    _, kv_heads, chunks, page, x = key.shape
    heads, head_size = query.shape[1:]
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot be divided among {kv_heads} KV heads")
    if x != _VECTOR or head_size != chunks * x or not 0 < head_size <= _HEAD_SIZE:
        raise NotImplementedError(
            f"head size {head_size}, keys {tuple(key.shape)}: not in the compiled PagedAttention V2"
        )
    if page % _VECTOR or not 0 < page <= MOST_PART:
        raise NotImplementedError(f"pages of {page} tokens are not in the compiled PagedAttention V2")
    if not (_is_dense_within_rows(key) and _is_dense_within_rows(value)) or value.shape[1:] != (
        kv_heads,
        head_size,
        page,
    ):
        raise NotImplementedError("a cache whose pages are not dense is not in the compiled PagedAttention V2")
    if (key.data_ptr() | value.data_ptr()) % 16 or (key.stride(0) | value.stride(0)) % _VECTOR:
        raise NotImplementedError("a cache that is not aligned to 16 bytes is not in the compiled PagedAttention V2")


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

    The device is never read, so the call can be captured; `max_seq_len` may be a mere bound of the lengths. The
    caller's work buffers are left alone; parts are kept in float32 in memory of our own.

    Args:
        out: `[seqs, heads, head_size]`.
        exp_sum: Not used.
        max_logits: Not used.
        tmp_out: Not used.
        query: `[seqs, heads, head_size]`, float16 or bfloat16; head `h` uses KV head `h // (heads / kv_heads)`.
        key_cache: `[num_blocks, kv_heads, head_size / 8, block_size, 8]`, pages of a multiple of 8 tokens.
        value_cache: `[num_blocks, kv_heads, head_size, block_size]`.
        num_kv_heads: Not read, since the vendor's backend passes its head mapping here: the cache's shape tells.
        scale: Factor of `q·k`.
        block_tables: `[seqs, width]`, int32; entries beyond a sequence may be anything.
        seq_lens: `[seqs]`, int32, with the new token, which is in the cache already; a length of 0 gives zeros.
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
        NotImplementedError: There is no library, or the inputs are none that it takes; nothing was launched.
        LaunchError: The launch failed.
        ValueError: The heads cannot be divided among the KV heads.
    """
    del exp_sum, max_logits, tmp_out, num_kv_heads, block_size, k_scale, v_scale
    del tp_rank, blocksparse_local_blocks, blocksparse_block_size, blocksparse_head_sliding_step
    if blocksparse_vert_stride is not None and blocksparse_vert_stride > 1:
        raise NotImplementedError("block-sparse attention is not supported by the compiled PagedAttention V2")
    _refuse(query, key_cache, value_cache, kv_cache_dtype)
    found = library(library_path(OPERATION))
    if query.is_cuda == found.on_host:
        raise NotImplementedError(f"tensors on {query.device} are not for a library compiled for another processor")
    if block_tables.dtype != torch.int32 or seq_lens.dtype != torch.int32:
        raise NotImplementedError(f"block tables of {block_tables.dtype}, lengths of {seq_lens.dtype}: not int32")
    pages, kv_heads, _, page, _ = key_cache.shape
    seqs, heads, head_size = query.shape
    limit = min(int(max_seq_len), block_tables.shape[1] * page) if pages else 0
    if limit <= 0 or not seqs:
        out.zero_()
        return
    group = heads // kv_heads
    taken = next((size for size in _HEADS if group <= size), _HEADS[-1])
    rows = seqs * kv_heads * -(-group // taken)
    part = part_tokens(rows, limit, page, _multiprocessors(query.device))
    splits = -(-limit // part)
    dense = query if _is_dense_within_rows(query) else query.contiguous()
    direct = out.dtype is query.dtype and _is_dense_within_rows(out)
    target = out if direct else torch.empty(query.shape, dtype=query.dtype, device=query.device)
    tables = block_tables if block_tables.stride(1) == 1 else block_tables.contiguous()
    lengths = seq_lens.contiguous()
    slopes = None if alibi_slopes is None else alibi_slopes.to(torch.float32).contiguous()
    size = seqs * heads * splits * (head_size + 1) if splits > 1 else 0
    parts = torch.empty(size, dtype=torch.float32, device=query.device)
    pointers = [t.data_ptr() for t in (target, parts, dense, key_cache, value_cache, tables, lengths)]
    strides = [t.stride(0) for t in (target, dense, tables, key_cache, value_cache)]
    bfloat16 = int(query.dtype is torch.bfloat16)
    sizes = (bfloat16, heads, kv_heads, head_size, page, limit, part, splits, seqs)
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]  # torch's own
        stream = torch.cuda.current_stream(query.device).cuda_stream if query.is_cuda else None
        at = slopes.data_ptr() if slopes is not None else None
        code = found.function(*pointers, at, *strides, scale, *sizes, stream)
    if code == -1:
        raise NotImplementedError(f"the compiled PagedAttention V2 does not take {sizes}")
    if code:
        raise LaunchError(code)
    if target is not out:
        out.copy_(target)


def paged_attention_v2_or_pytorch(*args: object, **kwargs: object) -> None:
    """Do the same by the compiled kernel once its trial has passed, else, or where it refuses, by PyTorch.

    Raises:
        Exception: What the PyTorch implementation raises, or an error of the kernel after which the device is lost.
    """
    if not attempt(OPERATION, paged_attention_v2, *args, **kwargs):
        pytorch_paged_attention_v2(*args, **kwargs)  # type: ignore[arg-type]  # one signature, passed through
