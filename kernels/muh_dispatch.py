"""Every kernel configuration, in one table: what is launched on which device, and why.

A row names its device, operation, type and head size, says what led to it and how well that is known. Nothing else in
the Triton kernels holds a tile size. A row that does not fit its device's shared memory cannot be built, so that
importing this file is the proof that all of them fit; a name that is not in the table is an error, never a default.

`VLLM_MUH_DEVICE` names the device whose rows are used, whatever the device is: to measure rows for 48 KB on a device
that has more. The file imports only the standard library and runs unchanged on Python 3.8 and newer.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from typing import Iterable, Iterator, Mapping, Tuple, TypeVar, Union

Entry = TypeVar("Entry")

VARIABLE = "VLLM_MUH_DEVICE"
"""Environment variable with a name in `DEVICES`."""

ELEMENT_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes of one element of the types that kernels are configured for."""

LEAST_TILE = 16
"""The least that `tl.dot` takes, on every axis."""

WARPGROUP_ROWS = 64
"""Rows of a product from which four warps share it, where the device can."""

WARPGROUP_THREADS = 128
"""Threads of these four warps."""

HEAD_GROUPS = (LEAST_TILE, 32)
"""Rows of the query tile: a KV head's query heads padded to what `tl.dot` takes, and to twice that above 16."""

MOST_VECTOR = 4
"""Elements of one load of a reduction: CUB's vectors have no more."""

FEW_HEADS = 8
"""Columns of the query tile where keys come by whole pages: from Triton 3.6 on a product takes as few."""


@dataclass(frozen=True)
class Device:
    """What a configuration has to fit.

    `shared_bytes` is the shared memory one block may have, `warp` the threads of a warp, `sms` the multiprocessors
    that are assumed where the device cannot be asked. With `warpgroups`, products of at least 64 rows are those of four
    warps (compute capability 9.0 and Triton 3.x), whose weights stay in registers.
    """

    name: str
    shared_bytes: int
    warp: int
    sms: int
    evidence: str
    warpgroups: bool = False


DEVICES = {
    "bi100": Device(
        name="bi100",
        shared_bytes=49_152,
        warp=64,
        sms=16,
        evidence="reported by the vendor's query tool: 48 KB a block, 16 multiprocessors, 64 threads a warp",
    ),
    "h200": Device(
        name="h200",
        shared_bytes=232_448,
        warp=32,
        sms=132,
        evidence="compute capability 9.0: 227 KB a block; 132 multiprocessors as PyTorch reports them",
        warpgroups=True,
    ),
    "h200_48k": Device(
        name="h200_48k",
        shared_bytes=49_152,
        warp=32,
        sms=132,
        evidence="an H200 held to 48 KB a block, for measuring what that limit costs; no device gets these by itself",
        warpgroups=True,
    ),
    "cuda_48k": Device(
        name="cuda_48k",
        shared_bytes=49_152,
        warp=32,
        sms=16,
        evidence="what every CUDA device allows a block without being asked for more; the fewest multiprocessors known",
    ),
}


def lookup(known: Mapping[str, Entry], name: str, what: str) -> Entry:
    """Return the entry of that name.

    Raises:
        LookupError: There is none; the message names what is nearest to it.
    """
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    raise LookupError(f"no {what} is called {name!r}; {hint}")


def decode_shared_bytes(*, block_m: int, block_n: int, head_size: int, element_bytes: int, num_stages: int) -> int:
    """Return the bytes of shared memory of one block of paged decode.

    The query tile, the weights on their way to the second product, and a tile of keys and one of values for each stage
    but the last; without a pipeline there is still one of each, since both are loaded before the first product. Read
    off compiled kernels in half precision: exact where there are stages and several warps, for Triton 2.3.1 on sm_80
    and 3.6 and 3.9 on sm_80 and sm_90; otherwise an upper bound.

    Args:
        block_m: Rows of the query tile.
        block_n: Tokens of a tile.
        head_size: Head size, padded to a power of two.
        element_bytes: Bytes of one element of the cache.
        num_stages: Stages of the pipeline.
    """
    tiles = 2 * max(1, num_stages - 1) * block_n * head_size
    return (block_m * (head_size + block_n) + tiles) * element_bytes


def prefill_shared_bytes(*, block_m: int, block_n: int, head_size: int, element_bytes: int, num_stages: int) -> int:
    """Return the bytes of shared memory of one block of prefill.

    The query tile, the weights on their way to the second product, and tiles of keys and of values: without a pipeline
    one that both share in turn, else one of each for every stage but the last; in float32, two numbers for each row.
    Read off compiled kernels: exact for Triton 2.3.1 on sm_75 and sm_80 and 3.x on sm_80 where each warp has few rows;
    an upper bound elsewhere.

    Args:
        block_m: Rows of the query tile.
        block_n: Tokens of a tile.
        head_size: Head size, padded to a power of two.
        element_bytes: Bytes of one element of the cache.
        num_stages: Stages of the pipeline.
    """
    tiles = 1 if num_stages == 1 else 2 * (num_stages - 1)
    rows = 2 * block_m if element_bytes == ELEMENT_BYTES["float32"] else 0
    return (block_m * (head_size + block_n) + tiles * block_n * head_size + rows) * element_bytes


def warpgroup_shared_bytes(*, block_m: int, block_n: int, head_size: int, element_bytes: int, num_stages: int) -> int:
    """Return the same for products of four warps, which leave the weights in registers and the pipeline one tile more.

    From `WARPGROUP_THREADS` keys a tile on, the addresses of their pages, eight bytes each, may be exchanged by way of
    shared memory. Read off kernels compiled by Triton 3.x for sm_90; with these addresses an upper bound.
    """
    tiles = 1 if num_stages == 1 else 2 * num_stages
    addresses = 8 * block_n if block_n >= WARPGROUP_THREADS else 0
    return (block_m + tiles * block_n) * head_size * element_bytes + addresses


def refuse_misfit(row: Config, powers: Iterable[str]) -> None:
    """Raise unless a row names things that exist, fits its device and says why it is as it is.

    Args:
        row: The row.
        powers: Fields that have to be powers of two.

    Raises:
        LookupError: Its device or its type is unknown.
        ValueError: Anything else.
    """
    limit = lookup(DEVICES, row.device, "device").shared_bytes
    lookup(ELEMENT_BYTES, row.dtype, "type")
    for field in powers:
        number = getattr(row, field)
        if number < 1 or number & (number - 1):
            raise ValueError(f"{row.label}: {field} is {number}, it has to be a power of two")
    if min(row.num_stages, row.resident) < 1:
        raise ValueError(f"{row.label}: num_stages and resident are at least 1")
    if row.shared_bytes > limit:
        raise ValueError(
            f"{row.label}: block_n {row.block_n} with num_stages {row.num_stages} needs {row.shared_bytes} B "
            f"of shared memory, {row.device} has {limit} B a block; take a smaller block_n or fewer stages"
        )
    if not (row.reason and row.evidence):
        raise ValueError(f"{row.label}: a row says why it is as it is, and how that is known")


@dataclass(frozen=True)
class DecodeConfig:
    """How paged decode runs for one device, type, (padded) head size and tile of query heads.

    `block_m` rows hold the query heads of a KV head; `block_n` tokens make a tile. Keys come `key_dims` dimensions at a
    time, or, with `whole_pages`, keys and values come in the order in which they lie in memory (Triton 3.x only, and
    only where tiles are made of whole pages). `key_bytes` is how wide the copies of keys are then. `spilled` bytes of
    registers a thread may go to memory.

    The split rule counts in tiles, as one multiprocessor gets them when memory is the limit. `k` blocks on each, at
    most `resident`, take about `max(k, latency)` for a tile of each, and `start_tiles` to start; what does not fit
    follows in waves. Splitting costs `merge_tiles` a part and `merge_load` for each `k`. A part never has more than
    `max_tokens`, so that one long sequence in a full batch is spread too. `merge_splits` by `merge_dims` is the largest
    tile of the second launch; it is halved, and its warps with it, where there are fewer parts.

    Raises:
        ValueError: It does not fit the device's shared memory, or `tl.dot` cannot take it.
    """

    device: str
    dtype: str
    head_size: int
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    resident: int
    reason: str
    evidence: str
    latency: float
    start_tiles: float
    merge_tiles: float
    key_dims: int
    merge_load: float = 0.7
    key_bytes: int = 16
    spilled: int = 0
    whole_pages: bool = False
    max_tokens: int = 8192
    merge_splits: int = 64
    merge_dims: int = 32
    merge_warps: int = 4
    merge_stages: int = 1
    operation: str = "paged_decode_v2"

    def __post_init__(self) -> None:
        refuse_misfit(self, ("head_size", "block_m", "block_n", "key_dims", "num_warps", "merge_splits", "merge_dims"))
        heads = LEAST_TILE if self.block_m == FEW_HEADS else self.block_m  # without whole pages it is padded
        smallest = min(heads, self.block_n, self.key_dims, self.head_size)
        if smallest < LEAST_TILE:
            raise ValueError(f"{self.label}: tl.dot takes tiles of at least {LEAST_TILE}, one is {smallest}")
        if self.head_size > 16 * self.key_dims:
            raise ValueError(f"{self.label}: the kernel takes at most 16 loads for a tile of keys, not more")
        if self.max_tokens < 1:
            raise ValueError(f"{self.label}: max_tokens is at least 1")

    @property
    def label(self) -> str:
        """Name of the row in messages."""
        return f"{self.operation} on {self.device}, {self.dtype}, head size {self.head_size}, block_m {self.block_m}"

    @property
    def key(self) -> Key:
        """What a row is looked up by."""
        return self.device, self.operation, self.dtype, self.head_size, self.block_m

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one block."""
        return decode_shared_bytes(
            block_m=self.block_m,
            block_n=self.block_n,
            head_size=self.head_size,
            element_bytes=ELEMENT_BYTES[self.dtype],
            num_stages=self.num_stages,
        )


@dataclass(frozen=True)
class PrefillConfig:
    """How prefill against a cached context runs for one device, type and (padded) head size.

    A tile has `block_m` rows, query heads of new tokens, and `block_n` keys; the head axis of keys comes in
    `key_parts` loads. Each multiprocessor is taken to hold `resident` blocks; where tiles are fewer, the keys of each
    are split among at most `most_splits` blocks of at least `split_keys` keys, and a second launch merges them,
    `merge_rows` rows a block. `spilled` bytes of registers a thread may go to memory, where that was measured and is
    faster than what would not.

    Raises:
        ValueError: It does not fit the device's shared memory, or `tl.dot` cannot take it.
    """

    device: str
    dtype: str
    head_size: int
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    resident: int
    reason: str
    evidence: str
    spilled: int = 0
    key_parts: int = 1
    split_keys: int = 512
    most_splits: int = 16
    merge_rows: int = 8
    merge_warps: int = 4
    merge_stages: int = 1
    operation: str = "prefix_prefill"

    def __post_init__(self) -> None:
        refuse_misfit(self, ("head_size", "block_m", "block_n", "num_warps", "merge_rows", "merge_warps"))
        smallest = min(self.block_m, self.block_n, self.head_size // self.key_parts)
        if smallest < LEAST_TILE:
            raise ValueError(f"{self.label}: tl.dot takes tiles of at least {LEAST_TILE}, one is {smallest}")
        if self.key_parts not in {1, 2}:
            raise ValueError(f"{self.label}: key_parts is {self.key_parts}, keys come in one load or two")
        if min(self.split_keys, self.most_splits) < 1:
            raise ValueError(f"{self.label}: split_keys and most_splits are at least 1")

    @property
    def label(self) -> str:
        """Name of the row in messages."""
        return f"{self.operation} on {self.device}, {self.dtype}, head size {self.head_size}"

    @property
    def key(self) -> Key:
        """What a row is looked up by."""
        return self.device, self.operation, self.dtype, self.head_size, 0

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one block."""
        grouped = DEVICES[self.device].warpgroups and self.dtype != "float32"
        grouped = grouped and self.block_m >= WARPGROUP_ROWS and self.num_warps % 4 == 0
        return (warpgroup_shared_bytes if grouped else prefill_shared_bytes)(
            block_m=self.block_m,
            block_n=self.block_n,
            head_size=self.head_size,
            element_bytes=ELEMENT_BYTES[self.dtype],
            num_stages=self.num_stages,
        )


Config = Union[DecodeConfig, PrefillConfig]
Key = Tuple[str, str, str, int, int]
"""Device, operation, type, padded head size, and rows of decode's query tile."""
Row = TypeVar("Row", DecodeConfig, PrefillConfig)


@dataclass(frozen=True)
class ReduceConfig:
    """A sum over memory, as the seeds name them: type of the accumulator, offsets of four bytes (`o4`).

    `items` elements a thread in loads of `vector` elements.

    Raises:
        ValueError: The block's elements do not fit the device's shared memory, or are not those of whole warps.
    """

    device: str
    accumulator_bytes: int
    threads: int
    items: int
    vector: int
    reason: str
    evidence: str

    def __post_init__(self) -> None:
        device = lookup(DEVICES, self.device, "device")
        needed = self.threads * self.items * self.accumulator_bytes
        if needed > device.shared_bytes:
            raise ValueError(
                f"reduction on {self.device}: {self.threads} threads of {self.items} items of "
                f"{self.accumulator_bytes} B need {needed} B of shared memory, there are {device.shared_bytes} B"
            )
        if self.threads < device.warp:
            raise ValueError(
                f"reduction on {self.device}: not one warp's items of {self.accumulator_bytes} B fit "
                f"{device.shared_bytes} B of shared memory"
            )
        if self.threads % device.warp:
            raise ValueError(f"reduction on {self.device}: {self.threads} threads are not whole warps of {device.warp}")


def bytes_bound_reduction(device: str, accumulator_bytes: int) -> ReduceConfig:
    """Return the reduction that keeps the same number of bytes in flight whatever its type.

    256 threads of 16 four-byte items are 16 KB a block. Narrower types get more items, up to twice as many; wider
    ones fewer. The threads shrink, in whole warps, until the block's elements fit shared memory. Loads are 16 bytes, or
    four elements.
    """
    chip = lookup(DEVICES, device, "device")
    items = max(1, min(16 * 4 // accumulator_bytes, 32))
    fitting = chip.shared_bytes // (accumulator_bytes * items) // chip.warp * chip.warp
    return ReduceConfig(
        device=device,
        accumulator_bytes=accumulator_bytes,
        threads=min(256, fitting),
        items=items,
        vector=max(1, min(items, 16 // accumulator_bytes, MOST_VECTOR)),
        reason="16 KB in flight a block; three blocks fit 48 KB, which covers 56 GB/s times a latency of 0.8 us",
        evidence="derived, never run on the device",
    )


REDUCTIONS: Mapping[str, ReduceConfig] = {
    "bi100_plus_float32_o4": bytes_bound_reduction("bi100", 4),
    "bi100_plus_float64_o4": bytes_bound_reduction("bi100", 8),
    "bi100_plus_accum2_o4": bytes_bound_reduction("bi100", 2),
}
"""The seeds' names. `accum2` accumulates in two bytes."""

_FLOAT32 = "float32 products run on the ordinary units: small tiles, for correctness rather than speed"
_HALVES = ("float16", "bfloat16")
_HEAD_SIZES = (16, 32, 64, 128, 256)
_PREFILL_HEAD_SIZES = (64, 128, 256)  # tiles for less would leave threads without 16 bytes to copy
_MOST_QUERIES = 32 * 128  # each warp holds the whole query tile; a larger one spills, so its heads go to two blocks
_THREADS = 128  # of a block of decode, on any device

_SMALL_REASON = (
    "at most 32 KB with the 16 rows of a group (the vendor's vLLM reports 32 KB, its tool 48); 128 threads, which did "
    "best elsewhere, are two warps of 64 or four of 32; no pipeline, since nothing shows that the device copies "
    "asynchronously"
)
_SMALL_EVIDENCE = (
    "compiled: 2.3.1 for sm_75 and sm_80, 3.x for sm_80 and sm_90; one stage is what the vendor's public flash "
    "attention uses; warps measured only where they have 32 threads; speed never measured on the device"
)
_H200_REASON = (
    "pages read flat, 512 bytes a warp and request: 4.0 sectors in each request to the L2, where Triton had laid 16 "
    "threads across 256-byte strides; transposed products, which multiply 8 columns for up to 8 query heads"
)
_H200_EVIDENCE = (
    "measured on one H200, Triton 3.6, float16 (bfloat16 in four cells), against 9 or 10 other tiles at 19 shapes of "
    "head sizes 128 and 256 with up to 8 query heads a KV head, and 2 shapes each with 16 and 32; the rule fitted to "
    "the measured splits, with more heads to two shapes; smaller head sizes by analogy, right on that H200"
)


def _decode_rows() -> Iterator[DecodeConfig]:
    """Yield the decode rows: one for each device, type, padded head size and tile of query heads."""
    for head_size in _HEAD_SIZES:
        for dtype in _HALVES:
            yield _h200_decode_row("h200", dtype, head_size, FEW_HEADS)
            yield _h200_decode_row("h200_48k", dtype, head_size, FEW_HEADS)
        for block_m in HEAD_GROUPS:
            for dtype in _HALVES if block_m * head_size <= _MOST_QUERIES else ():
                yield _small_decode_row("bi100", dtype, head_size, block_m)
                yield _small_decode_row("cuda_48k", dtype, head_size, block_m)
                yield _h200_decode_row("h200", dtype, head_size, block_m)
                yield _h200_decode_row("h200_48k", dtype, head_size, block_m)
            yield _float32_decode_row("h200", head_size, block_m)
            if head_size <= 128:  # noqa: PLR2004 - no tile of float32 fits 48 KB above
                yield _float32_decode_row("h200_48k", head_size, block_m)
                yield _float32_decode_row("cuda_48k", head_size, block_m)


def _small_decode_row(device: str, dtype: str, head_size: int, block_m: int) -> DecodeConfig:
    """Return a row that fits 48 KB whatever the device copies, and launches on any."""
    block_n = min(64, 4096 // head_size)
    return DecodeConfig(
        device=device,
        dtype=dtype,
        head_size=head_size,
        block_m=block_m,
        block_n=block_n,
        num_warps=_THREADS // DEVICES[device].warp,
        num_stages=1,
        resident=2,
        latency=1.0,
        start_tiles=2.0,
        merge_tiles=0.05,
        key_dims=max(LEAST_TILE, min(head_size, 8 * _THREADS // block_n)),  # 16 bytes a thread
        reason=_SMALL_REASON,
        evidence=_SMALL_EVIDENCE,
    )


def _h200_decode_row(device: str, dtype: str, head_size: int, block_m: int) -> DecodeConfig:
    """Return a row for the H200, or one for an H200 held to 48 KB: their tiles differ only above head size 128."""
    small = device == "h200_48k" and head_size > 128  # noqa: PLR2004 - where two stages more do not fit
    # Tokens of a tile, warps, stages; then the split rule's resident, latency, start_tiles, merge_tiles, merge_load.
    tile, rule = {
        (128, 8): ((32, 1, 3), (6, 1.34, 1.4, 0.0015, 0.85)),
        (128, 16): ((32, 4, 3), (6, 1.75, 0.0, 0.0014, 2.58)),
        (128, 32): ((32, 4, 3), (3, 1.49, 2.2, 0.012, 3.0)),
        (256, 8): ((16, 2, 3), (5, 1.13, 1.9, 0.018, 1.2)) if small else ((16, 2, 4), (4, 0.95, 3.2, 0.017, 1.0)),
        (256, 16): ((16, 2, 3), (4, 1.45, 4.2, 0.011, 3.7)) if small else ((32, 4, 3), (3, 1.4, 0.0, 0.027, 0.83)),
    }[max(head_size, 128), block_m]
    resident, latency, start_tiles, merge_tiles, merge_load = rule
    return DecodeConfig(
        device=device,
        dtype=dtype,
        head_size=head_size,
        block_m=block_m,
        block_n=tile[0],
        num_warps=min(tile[1], tile[0] * head_size // 256),  # a thread copies 16 bytes at least
        num_stages=tile[2],
        resident=resident,
        latency=latency,
        start_tiles=start_tiles,
        merge_tiles=merge_tiles,
        merge_load=merge_load,
        merge_splits=128,
        key_dims=max(LEAST_TILE, head_size // 8),
        whole_pages=True,
        reason=_H200_REASON,
        evidence=_H200_EVIDENCE,
    )


def _float32_decode_row(device: str, head_size: int, block_m: int) -> DecodeConfig:
    """Return a row for float32."""
    return DecodeConfig(
        device=device,
        dtype="float32",
        head_size=head_size,
        block_m=block_m,
        block_n=min(32, 4096 // head_size) if device == "h200" else min(32, 2048 // head_size),
        num_warps=4,
        num_stages=1,
        resident=2,
        latency=1.0,
        start_tiles=2.0,
        merge_tiles=0.1,
        key_dims=max(LEAST_TILE, head_size // 4),
        spilled=2048,
        reason=_FLOAT32,
        evidence="compiled by 2.3.1 and 3.x, which spills for sm_90; run in the interpreter; speed not measured",
    )


_DEVICE_TILE = "the tile and the one stage of the vendor's public flash attention"
_DEVICE_TILE_256 = "64 rows would take 53,248 B"
_FITS = "the largest tile that fits 48 KB on every device"
_COMPILED = "compiled by 2.3.1 for sm_75 and sm_80 and by 3.x for sm_80 and sm_90; speed not measured on the device"
_UNTIMED = "compiled by 3.x; right on one H200; not timed"
_H200_PREFILL = "measured on one H200 (half precision, 2,048 new tokens)"
_H200_48K_PREFILL = "measured on one H200 (half precision, 2,048 new tokens) among tiles that fit 48 KB"
_SPILLED = {("h200", 128): 128, ("h200_48k", 128): 512, ("h200_48k", 256): 192}  # the tiles that were fastest


def _prefill_rows() -> Iterator[PrefillConfig]:
    """Yield the prefill rows: one for each device, type and padded head size."""
    for head_size in _PREFILL_HEAD_SIZES:
        for device in DEVICES:
            for dtype in _HALVES:
                yield _prefill_row(device, dtype, head_size)
            yield PrefillConfig(
                device=device,
                dtype="float32",
                head_size=head_size,
                block_m=32 if head_size <= 128 else 16,  # noqa: PLR2004 - the head sizes that the two tiles are for
                block_n=16,
                num_warps=4,
                num_stages=1,
                resident=2,
                spilled=32,
                reason=_FLOAT32,
                evidence=_UNTIMED,
            )


def _prefill_row(device: str, dtype: str, head_size: int) -> PrefillConfig:
    """Return a row in half precision: its tile, and how that is known."""
    tile, warps, stages, reason, evidence = {
        ("bi100", 64): ((64, 64), 4, 1, _DEVICE_TILE, _COMPILED),
        ("bi100", 128): ((64, 64), 4, 1, _DEVICE_TILE, _COMPILED),
        ("bi100", 256): ((32, 32), 4, 1, _DEVICE_TILE_256, _COMPILED),
        ("cuda_48k", 64): ((64, 64), 4, 1, _FITS, _COMPILED),
        ("cuda_48k", 128): ((64, 64), 8, 1, "the largest tile that fits; four warps of 32 spill", _COMPILED),
        ("cuda_48k", 256): ((32, 32), 8, 1, "the largest tile that fits; four warps of 32 spill", _COMPILED),
        ("h200_48k", 64): ((64, 64), 4, 1, "fits 48 KB", _UNTIMED),
        ("h200_48k", 128): ((128, 64), 4, 1, "all of 48 KB: 294 TFLOP/s with context", _H200_48K_PREFILL),
        ("h200_48k", 256): ((64, 32), 4, 1, "all of 48 KB: 192 TFLOP/s with context", _H200_48K_PREFILL),
        ("h200", 64): ((128, 64), 4, 3, "as for 128, with longer tiles of keys", _UNTIMED),
        ("h200", 128): ((256, 32), 8, 3, "the fewest reads of a key that registers allow", _H200_PREFILL),
        ("h200", 256): ((128, 32), 8, 3, "163,840 B; split for two blocks a multiprocessor", _H200_PREFILL),
    }[device, head_size]
    return PrefillConfig(
        device=device,
        dtype=dtype,
        head_size=head_size,
        block_m=tile[0],
        block_n=tile[1],
        num_warps=warps,
        num_stages=stages,
        resident=2 if (device, head_size) == ("h200", 256) else max(1, 8 // warps),
        spilled=_SPILLED.get((device, head_size), 0),
        # Asynchronous copies bypass the first cache: the fewer threads lie along the head axis, the more of a sector is
        # used (measured: head size 128, 375 against 333 TFLOP/s); without a pipeline one load is faster (288 to 256).
        key_parts=2 if stages > 1 and head_size >= 128 else 1,  # noqa: PLR2004 - from where that was measured
        reason=reason,
        evidence=evidence,
    )


TUNED: tuple[Config, ...] = ()
"""Rows that `orchestrator tune` measured; each takes the place of the one above that has its key."""


def table(rows: Iterable[Row]) -> Mapping[Key, Row]:
    """Return the rows by what they are looked up by.

    Raises:
        ValueError: Two rows have one key.
    """
    found: dict[Key, Row] = {}
    for row in rows:
        if row.key in found:
            raise ValueError(f"{row.label}: there are two rows")
        found[row.key] = row
    return found


DECODE = {**table(_decode_rows()), **table(row for row in TUNED if isinstance(row, DecodeConfig))}
PREFILL = {**table(_prefill_rows()), **table(row for row in TUNED if isinstance(row, PrefillConfig))}


def padded(head_size: int) -> int:
    """Return the head size that a kernel's tile has: the next power of two, at least 16."""
    return max(16, 1 << (head_size - 1).bit_length())


def decode_config(device: str, dtype: str, head_size: int, group: int) -> DecodeConfig:
    """Return the configuration of paged decode; head sizes between two powers of two use the larger one's.

    Args:
        device: Name of the device in `DEVICES`.
        dtype: Name of the cache's type in `ELEMENT_BYTES`.
        head_size: Head size.
        group: Query heads that share a KV head; those that one query tile cannot hold go to further blocks.

    Raises:
        LookupError: The device, or the type, is unknown, or there is no row for this combination.
    """
    lookup(DEVICES, device, "device")
    lookup(ELEMENT_BYTES, dtype, "type")
    size = padded(head_size)
    found = [DECODE.get((device, "paged_decode_v2", dtype, size, block_m)) for block_m in (FEW_HEADS, *HEAD_GROUPS)]
    rows = [row for row in found if row is not None]
    row = next((row for row in rows if group <= row.block_m), rows[-1] if rows else None)
    if row is None:
        sizes = sorted({row.head_size for row in DECODE.values() if (row.device, row.dtype) == (device, dtype)})
        raise LookupError(f"no paged_decode_v2 row on {device} for {dtype}, head size {head_size}; there are: {sizes}")
    return row


def prefill_config(device: str, dtype: str, head_size: int) -> PrefillConfig:
    """Return the configuration of prefill; head sizes between two powers of two use the larger one's.

    Args:
        device: Name of the device in `DEVICES`.
        dtype: Name of the cache's type in `ELEMENT_BYTES`.
        head_size: Head size.

    Raises:
        LookupError: The device, or the type, is unknown, or there is no row for this combination.
    """
    lookup(DEVICES, device, "device")
    lookup(ELEMENT_BYTES, dtype, "type")
    row = PREFILL.get((device, "prefix_prefill", dtype, padded(head_size), 0))
    if row is None:
        sizes = sorted({row.head_size for row in PREFILL.values() if (row.device, row.dtype) == (device, dtype)})
        raise LookupError(f"no prefix_prefill row on {device} for {dtype}, head size {head_size}; there are: {sizes}")
    return row


def described(device: str) -> list[tuple[str, str, int]]:
    """Return each row that a device has: its name, its tile in words, and its bytes of shared memory.

    Raises:
        LookupError: The device is unknown.
    """
    lookup(DEVICES, device, "device")
    rows: list[Config] = [*DECODE.values(), *PREFILL.values()]
    return [
        (row.label, f"{row.block_m} by {row.block_n}, {row.num_warps} warps, {row.num_stages} stages", row.shared_bytes)
        for row in rows
        if row.device == device
    ]


def reduce_config(name: str) -> ReduceConfig:
    """Return the reduction that the seeds know by `name`.

    Raises:
        LookupError: There is none.
    """
    return lookup(REDUCTIONS, name, "reduction")


def device_of(name: str, shared_bytes: int, environ: Mapping[str, str] = os.environ) -> str:
    """Return whose rows a device uses: those that `VLLM_MUH_DEVICE` names, else those made for it.

    Rows for the H200 run on whatever has as much shared memory; every other CUDA device uses those that fit 48 KB,
    which is not a guess about its speed but what launches anywhere.

    Args:
        name: The device's name as its driver reports it.
        shared_bytes: Shared memory that a block may have.
        environ: The environment's variables.

    Raises:
        LookupError: The variable names no device in `DEVICES`.
        ValueError: The rows need more shared memory than there is.
    """
    forced = environ.get(VARIABLE)
    if forced is not None:
        chosen = lookup(DEVICES, forced, f"device ({VARIABLE})")
    elif "bi-v" in name.lower() or "bi1" in name.lower():
        return "bi100"
    elif shared_bytes >= DEVICES["h200"].shared_bytes:
        chosen = DEVICES["h200"]
    else:
        chosen = DEVICES["cuda_48k"]
    if shared_bytes < chosen.shared_bytes:
        raise ValueError(
            f"{name} has {shared_bytes} B of shared memory a block, rows for {chosen.name} need up to "
            f"{chosen.shared_bytes} B"
        )
    return chosen.name
