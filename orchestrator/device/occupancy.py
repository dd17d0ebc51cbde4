"""How many blocks of a kernel one multiprocessor holds: bounds by threads, registers and shared memory.

Each resource gives an upper bound by itself (CUDA C++ Programming Guide, hardware multithreading); the smallest is the
number of blocks. How a device rounds what it allots is not known here, so a bound may be one too high, never too low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.device.quantity import Known, Quantity, derive, figure

if TYPE_CHECKING:
    from orchestrator.device.quantity import Figures


@dataclass(frozen=True)
class Kernel:
    """What one block of a kernel takes: threads, registers a thread, bytes of shared memory."""

    threads: int
    registers_per_thread: int
    shared_bytes: int

    def __post_init__(self) -> None:
        if min(self.threads, self.registers_per_thread) < 1 or self.shared_bytes < 0:
            raise ValueError("a block has at least one thread with one register, and no negative shared memory")


@dataclass(frozen=True)
class Occupancy:
    """Blocks a multiprocessor, by what bounds them."""

    by_threads: Quantity
    by_registers: Quantity
    by_shared_memory: Quantity

    @property
    def blocks(self) -> Quantity:
        """The number of blocks; unknown where one of the resources is."""
        return derive(min, self.by_threads, self.by_registers, self.by_shared_memory)

    @property
    def at_most(self) -> Quantity:
        """The smallest of the bounds that are known: more blocks are impossible, fewer are not."""
        bounds = (self.by_threads, self.by_registers, self.by_shared_memory)
        known = [bound for bound in bounds if isinstance(bound, Known)]
        return derive(min, *known, known[0]) if known else self.blocks


def occupancy(figures: Figures, kernel: Kernel) -> Occupancy:
    """Return how many blocks of `kernel` fit one multiprocessor, by each of its resources.

    `threads_per_sm // threads`, `registers_per_sm // (registers · threads)`, `shared_memory_per_sm // shared`; a block
    without shared memory is not bounded by it, which counts as the bound by threads.
    """
    threads = derive(lambda have: have // kernel.threads, figure(figures, "device.threads_per_sm"))
    registers = kernel.registers_per_thread * kernel.threads
    shared = threads
    if kernel.shared_bytes:
        have = figure(figures, "device.shared_memory_per_sm_bytes")
        shared = derive(lambda have: have // kernel.shared_bytes, have)
    by_registers = derive(lambda have: have // registers, figure(figures, "device.registers_per_sm"))
    return Occupancy(threads, by_registers, shared)
