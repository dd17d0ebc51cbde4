"""What the model of the device says of a row before anything is compiled, and how rows rank that nobody can time.

Each bound is a necessary one: what is rejected here cannot work, what passes may still fail. A figure that is unknown
rejects nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.device.occupancy import Kernel, occupancy
from orchestrator.device.quantity import Known, figure
from orchestrator.tune.space import Refused, Row

if TYPE_CHECKING:
    from orchestrator.device.quantity import Figures
    from orchestrator.tune.space import Space

LIMIT, PREFERRED = "device.shared_memory_per_block_bytes", "device.shared_memory_preferred_bytes"
PER_THREAD, PER_BLOCK = "device.registers_per_thread", "device.threads_per_block"
PER_SM = "device.shared_memory_per_sm_bytes"
USED = (LIMIT, PREFERRED, PER_THREAD, PER_BLOCK, PER_SM, "device.threads_per_sm", "device.registers_per_sm")
"""The figures that are judged by."""


@dataclass(frozen=True)
class Misfit:
    """Why a row is rejected: the bound in two words, by which rejections are counted, and the numbers."""

    bound: str
    reason: str


def misfit(row: Row | Refused, figures: Figures, *, preferred: bool = False) -> Misfit | None:
    """Return why a row cannot work on the device, None where nothing speaks against it.

    With `preferred`, what needs more shared memory than the preferred share is rejected too.
    """
    if isinstance(row, Refused):
        return Misfit("shared memory" if "shared memory" in row.reason else "tile", row.reason)
    share = figure(figures, PREFERRED if preferred else LIMIT)
    if isinstance(share, Known) and row.shared > share.value:
        return Misfit("preferred share" if preferred else "shared memory", f"{row.shared} B, at most {share.value}")
    threads = figure(figures, PER_BLOCK)
    if isinstance(threads, Known) and row.threads > threads.value:
        return Misfit("threads", f"{row.threads} threads a block, at most {threads.value}")
    each, most = -(-row.registers // row.threads), figure(figures, PER_THREAD)
    if isinstance(most, Known) and each > most.value:
        return Misfit("registers", f"both products alone take {each} registers a thread, at most {most.value}")
    if blocks(row, figures) == 0:
        return Misfit("occupancy", f"no block of {row.threads} threads with {each} registers fits a multiprocessor")
    return None


def blocks(row: Row, figures: Figures, registers: int = 0) -> int | None:
    """Return how many blocks one multiprocessor holds at most, None where nothing that is known bounds them.

    `registers` are those a thread that a compiler said; 0 stands for those that the row cannot do without.
    """
    each = max(1, registers or -(-row.registers // row.threads))
    bound = occupancy(figures, Kernel(row.threads, each, row.shared)).at_most
    return int(bound.value) if isinstance(bound, Known) else None


def held_too_many(space: Space, row: Row, resident: int, figures: Figures) -> Misfit | None:
    """Return why a row's `resident` blocks are too many, where they count blocks that are there at a time."""
    held = blocks(row, figures)
    if held is None or not space.resident_is_held or resident <= held:
        return None
    return Misfit("occupancy", f"resident {resident}, a multiprocessor holds {held} at most")


def derived(space: Space, row: Row, figures: Figures, registers: int = 0) -> float:
    """Return by what rows are ranked that nobody timed: the less the better, and no time.

    Where memory is the limit (one query a sequence), one over the bytes under way on a multiprocessor. Otherwise one
    over the query rows that a multiprocessor works on: each key that is read serves all rows of its block. Where the
    multiprocessor's shared memory is not known, it is taken to have what one block may have.
    """
    held = blocks(row, figures, registers)
    limit = figure(figures, LIMIT)
    if not isinstance(figure(figures, PER_SM), Known) and isinstance(limit, Known):
        shared = max(1, int(limit.value) // max(1, row.shared))
        held = shared if held is None else min(held, shared)
    return 1 / (max(1, held or 1) * (row.fields["block_m"] if "block_m" in space.tiles else row.in_flight))


def counted(space: Space, figures: Figures, *, preferred: bool = False) -> tuple[list[int], dict[str, int]]:
    """Return the numbers of the entries that pass, and how many others each bound rejects."""
    passing: list[int] = []
    found: dict[str, int] = {}
    for number, entry in enumerate(space.rows):
        if isinstance(entry, int):
            continue
        wrong = misfit(entry, figures, preferred=preferred)
        if wrong is None:
            passing.append(number)
        else:
            found[wrong.bound] = found.get(wrong.bound, 0) + 1
    return passing, found


def missing(figures: Figures) -> list[str]:
    """Return the figures that the device's target does not know, by which nothing could be rejected."""
    return [name for name in USED if not isinstance(figure(figures, name), Known)]
