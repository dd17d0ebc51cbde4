"""Every kernel configuration, in one table: what is launched on which device, and why.

A row names its device, operation, type and head size, says what led to it and how well that is known. Nothing else in
the kernels holds a tile size. A row that does not fit its device's shared memory cannot be built, so that importing
this file is the proof that all of them fit; a name that is not in the table is an error, never a default.

The file imports only the standard library and runs unchanged on Python 3.8 and newer.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Iterable, Iterator, Mapping, TypeVar

Row = TypeVar("Row")

ELEMENT_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes of one element of the types that kernels are configured for."""

HEAD_GROUPS = (16, 32)
"""Rows of the query tile: a KV head's query heads padded to what `tl.dot` takes, and to twice that above 16."""


@dataclass(frozen=True)
class Device:
    """What a configuration has to fit.

    `shared_bytes` is the shared memory one block may have, `warp` the threads of a warp, `sms` the multiprocessors
    that are assumed where the device cannot be asked.
    """

    name: str
    shared_bytes: int
    warp: int
    sms: int
    evidence: str


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
    ),
}


def lookup(known: Mapping[str, Row], name: str, what: str) -> Row:
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


@dataclass(frozen=True)
class DecodeConfig:
    """How paged decode runs for one device, type, (padded) head size and tile of query heads.

    `block_m` rows hold the query heads of a KV head; `block_n` tokens make a tile. Keys come `key_dims` dimensions at a
    time, or, with `whole_pages`, keys and values come in the order in which they lie in memory (Triton 3.x only, and
    only where tiles are made of whole pages). `key_bytes` is how wide the copies of keys are then.

    The split rule counts on `resident` blocks a multiprocessor; `k` of them reach `k / (k + latency)` of its bandwidth,
    and starting them costs `start_tiles`. One more part costs `merge_tiles` in the second launch, and a part never has
    more than `max_tokens`, so that one long sequence in a full batch is spread too. `merge_splits` by `merge_dims` is
    the tile of the second launch.

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
    key_bytes: int = 16
    whole_pages: bool = False
    max_tokens: int = 8192
    merge_splits: int = 64
    merge_dims: int = 32
    merge_warps: int = 4
    merge_stages: int = 1
    operation: str = "paged_decode_v2"

    def __post_init__(self) -> None:
        limit = lookup(DEVICES, self.device, "device").shared_bytes
        lookup(ELEMENT_BYTES, self.dtype, "type")
        for field in ("head_size", "block_m", "block_n", "key_dims", "num_warps", "merge_splits", "merge_dims"):
            number = getattr(self, field)
            if number < 1 or number & (number - 1):
                raise ValueError(f"{self.label}: {field} is {number}, it has to be a power of two")
        smallest = min(self.block_m, self.block_n, self.key_dims, self.head_size)
        if smallest < HEAD_GROUPS[0]:
            raise ValueError(f"{self.label}: tl.dot takes tiles of at least 16, one is {smallest}")
        if self.head_size > 16 * self.key_dims:
            raise ValueError(f"{self.label}: the kernel takes at most 16 loads for a tile of keys, not more")
        if min(self.num_stages, self.resident, self.max_tokens) < 1:
            raise ValueError(f"{self.label}: num_stages, resident and max_tokens are at least 1")
        if self.shared_bytes > limit:
            raise ValueError(
                f"{self.label}: block_n {self.block_n} with num_stages {self.num_stages} needs {self.shared_bytes} B "
                f"of shared memory, {self.device} has {limit} B a block; take a smaller block_n or fewer stages"
            )
        if not (self.reason and self.evidence):
            raise ValueError(f"{self.label}: a row says why it is as it is, and how that is known")

    @property
    def label(self) -> str:
        """Name of the row in messages."""
        return f"{self.operation} on {self.device}, {self.dtype}, head size {self.head_size}, block_m {self.block_m}"

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
    ones fewer. The threads shrink, in whole warps, until the block's elements fit shared memory. Loads are 16 bytes.
    """
    chip = lookup(DEVICES, device, "device")
    items = max(1, min(16 * 4 // accumulator_bytes, 32))
    fitting = chip.shared_bytes // (accumulator_bytes * items) // chip.warp * chip.warp
    return ReduceConfig(
        device=device,
        accumulator_bytes=accumulator_bytes,
        threads=min(256, fitting),
        items=items,
        vector=max(1, min(items, 16 // accumulator_bytes)),
        reason="16 KB in flight a block; three blocks fit 48 KB, which covers 56 GB/s times a latency of 0.8 us",
        evidence="derived, never run on the device",
    )


REDUCTIONS: Mapping[str, ReduceConfig] = {
    "bi100_plus_float32_o4": bytes_bound_reduction("bi100", 4),
    "bi100_plus_float64_o4": bytes_bound_reduction("bi100", 8),
    "bi100_plus_accum2_o4": bytes_bound_reduction("bi100", 2),
}
"""The seeds' names. `accum2` accumulates in two bytes."""

_HALVES = ("float16", "bfloat16")
_HEAD_SIZES = (16, 32, 64, 128, 256)
_MOST_QUERIES = 32 * 128  # each warp holds the whole query tile; a larger one spills, so its heads go to two blocks

_BI100_REASON = (
    "at most 32 KB with the 16 rows of a group (the vendor's vLLM reports 32 KB, its tool 48); two warps of 64 are the "
    "128 threads that did best elsewhere; no pipeline, since nothing shows that the device copies asynchronously"
)
_BI100_EVIDENCE = (
    "compiled: 2.3.1 for sm_75 and sm_80, 3.x for sm_80 and sm_90; one stage is what the vendor's public flash "
    "attention uses; warps measured only where they have 32 threads; speed never measured on the device"
)
_H200_128 = (
    "one page a tile, read as it lies: other orders were profiled with one sector in almost every request to the L2"
)
_H200_256 = (
    "keys in copies of 8 bytes: 146 us against 216 in copies of 16 at this tile (batch 8, 32K); why is not known"
)
_H200_EVIDENCE = (
    "measured on one H200 (Triton 3.6, head sizes 128 and 256, 16 rows); other sizes and 32 rows by analogy"
)


def _decode_rows() -> Iterator[DecodeConfig]:
    """Yield the decode rows: one for each device, type, padded head size and tile of query heads."""
    for head_size in _HEAD_SIZES:
        for block_m in HEAD_GROUPS:
            for dtype in _HALVES if block_m * head_size <= _MOST_QUERIES else ():
                yield _bi100_row(dtype, head_size, block_m)
                yield _h200_row(dtype, head_size, block_m)
            yield DecodeConfig(
                device="h200",
                dtype="float32",
                head_size=head_size,
                block_m=block_m,
                block_n=min(32, 4096 // head_size),
                num_warps=4,
                num_stages=1,
                resident=2,
                latency=1.0,
                start_tiles=2.0,
                merge_tiles=0.1,
                key_dims=max(16, head_size // 4),
                reason="float32 products run on the ordinary units: small tiles, for correctness rather than speed",
                evidence="run in the interpreter; speed not measured",
            )


def _bi100_row(dtype: str, head_size: int, block_m: int) -> DecodeConfig:
    """Return a row that fits 48 KB."""
    block_n = min(64, 4096 // head_size)
    return DecodeConfig(
        device="bi100",
        dtype=dtype,
        head_size=head_size,
        block_m=block_m,
        block_n=block_n,
        num_warps=2,
        num_stages=1,
        resident=2,
        latency=1.0,
        start_tiles=2.0,
        merge_tiles=0.05,
        key_dims=max(16, min(head_size, 1024 // block_n)),  # 128 threads of 16 bytes
        reason=_BI100_REASON,
        evidence=_BI100_EVIDENCE,
    )


def _h200_row(dtype: str, head_size: int, block_m: int) -> DecodeConfig:
    """Return a row for the H200."""
    if head_size > 128:  # noqa: PLR2004 - the head sizes that the two rules are for
        return DecodeConfig(
            device="h200",
            dtype=dtype,
            head_size=head_size,
            block_m=block_m,
            block_n=32,
            num_warps=4,
            num_stages=3,
            resident=3,
            latency=0.25,
            start_tiles=3.0,
            merge_tiles=0.03,
            key_dims=16,
            key_bytes=8,
            reason=_H200_256,
            evidence=_H200_EVIDENCE,
        )
    return DecodeConfig(
        device="h200",
        dtype=dtype,
        head_size=head_size,
        block_m=block_m,
        block_n=16,
        num_warps=block_m // 16,
        num_stages=3,
        resident=4,
        latency=2.5,
        start_tiles=5.0,
        merge_tiles=0.12,
        key_dims=min(32, head_size),
        whole_pages=True,
        reason=_H200_128,
        evidence=_H200_EVIDENCE,
    )


def table(rows: Iterable[DecodeConfig]) -> Mapping[tuple[str, str, str, int, int], DecodeConfig]:
    """Return the rows by device, operation, type, head size and rows of the query tile.

    Raises:
        ValueError: Two rows have one key.
    """
    found = {}
    for row in rows:
        key = (row.device, row.operation, row.dtype, row.head_size, row.block_m)
        if key in found:
            raise ValueError(f"{row.label}: there are two rows")
        found[key] = row
    return found


DECODE = table(_decode_rows())


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
    found = [DECODE.get((device, "paged_decode_v2", dtype, size, block_m)) for block_m in HEAD_GROUPS]
    rows = [row for row in found if row is not None]
    row = next((row for row in rows if group <= row.block_m), rows[-1] if rows else None)
    if row is None:
        sizes = sorted({row.head_size for row in DECODE.values() if (row.device, row.dtype) == (device, dtype)})
        raise LookupError(f"no paged_decode_v2 row on {device} for {dtype}, head size {head_size}; there are: {sizes}")
    return row


def reduce_config(name: str) -> ReduceConfig:
    """Return the reduction that the seeds know by `name`.

    Raises:
        LookupError: There is none.
    """
    return lookup(REDUCTIONS, name, "reduction")


def device_of(name: str, shared_bytes: int) -> str:
    """Return whose rows a device uses, from the name its driver reports and the shared memory a block may have.

    Rows for the H200 run on whatever has as much shared memory; every other device uses those that fit 48 KB, which
    is not a guess about its speed but what launches anywhere.

    Raises:
        LookupError: Not even 48 KB are there.
    """
    if "bi-v" in name.lower() or "bi1" in name.lower():
        return "bi100"
    if shared_bytes >= DEVICES["h200"].shared_bytes:
        return "h200"
    if shared_bytes >= DEVICES["bi100"].shared_bytes:
        return "bi100"
    raise LookupError(f"{name} has {shared_bytes} B of shared memory a block, the smallest rows need up to 49152 B")
