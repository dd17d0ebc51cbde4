"""Items and threads of a kernel that is bound by memory, for a type's size: the seeds' `scale_mem_bound`.

A configuration is chosen once for elements of four bytes. For another size the items are scaled so that a thread keeps
as many bytes in flight, at most twice as many items; the threads then shrink in whole warps until the block's elements
fit shared memory, and never below one warp. Source: the seeds, which follow CUB's tuning policies of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.device.quantity import Known, Quantity, Unknown, figure

if TYPE_CHECKING:
    from orchestrator.device.quantity import Figures

NOMINAL_THREADS = 256
NOMINAL_ITEMS = 16
NOMINAL_BYTES = 4  # the size that the nominal items are for
MOST_ITEMS = 2 * NOMINAL_ITEMS


@dataclass(frozen=True)
class MemoryBound:
    """Threads and items a thread; `fits` says whether a block's elements fit the limit, which one warp may not."""

    threads: int
    items: int
    shared_bytes: int
    fits: bool


def scale_mem_bound(
    type_bytes: int,
    shared_limit_bytes: int,
    warp: int,
    nominal_threads: int = NOMINAL_THREADS,
    nominal_items: int = NOMINAL_ITEMS,
) -> MemoryBound:
    """Return threads and items for elements of `type_bytes` bytes.

    `items = clamp(nominal_items · 4 / type_bytes, 1, 2 · nominal_items)`, and
    `threads = max(warp, min(nominal_threads, limit // (type_bytes · items) // warp · warp))`.

    Raises:
        ValueError: if a size is below 1.
    """
    if min(type_bytes, shared_limit_bytes, warp, nominal_threads, nominal_items) < 1:
        raise ValueError("type, limit, warp, threads and items are at least 1")
    items = max(1, min(nominal_items * NOMINAL_BYTES // type_bytes, 2 * nominal_items))
    fitting = shared_limit_bytes // (type_bytes * items) // warp * warp
    threads = max(warp, min(nominal_threads, fitting))
    shared = threads * items * type_bytes
    return MemoryBound(threads, items, shared, fits=shared <= shared_limit_bytes)


def memory_bound_on(figures: Figures, type_bytes: int, shared_limit: Quantity | None = None) -> MemoryBound | Unknown:
    """Return `scale_mem_bound` on the target's device; the limit is the device's, where none is given."""
    limit = shared_limit or figure(figures, "device.shared_memory_per_block_bytes")
    warp = figure(figures, "device.warp_size")
    match limit, warp:
        case Known(value=int() as bytes_), Known(value=int() as lanes):
            return scale_mem_bound(type_bytes, bytes_, lanes)
    missing = [name for quantity in (limit, warp) if isinstance(quantity, Unknown) for name in quantity.missing]
    return Unknown(tuple(missing))
