# Kernels are no Python: their arguments are traced, not typed.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, import-not-found, import-untyped"
"""What the device can do at most: reading cold memory, copying, multiplying, launching nothing. Needs CUDA, Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from benchmarks.paged.clock import measure
from benchmarks.paged.data import sets_for

if TYPE_CHECKING:
    from collections.abc import Iterable

READS = ((2048, 4, 1), (8192, 16, 1), (16384, 16, 1), (8192, 4, 4), (16384, 16, 4))
"""Words a step, warps and steps of a program that reads; the best of them counts."""

COPIES = ((1024, 8), (4096, 8), (8192, 16))
LARGE_BYTES = 4 << 30
MATRIX = 8192


@triton.jit
def _read(source, target, length, WORDS: tl.constexpr, STEPS: tl.constexpr):  # noqa: N803 - constants, as in Triton
    """Fold every word that a program reads into one, so that no load can be left out."""
    first = tl.program_id(0).to(tl.int64) * STEPS * WORDS + tl.arange(0, WORDS)
    fold = tl.zeros([WORDS], tl.int32)
    for step in tl.static_range(STEPS):
        at = first + step * WORDS
        fold ^= tl.load(source + at, mask=at < length, other=0)
    tl.store(target + tl.program_id(0), tl.sum(fold))


@triton.jit
def _copy(source, target, length, WORDS: tl.constexpr):  # noqa: N803 - the same
    at = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    tl.store(target + at, tl.load(source + at, mask=at < length), mask=at < length)


@triton.jit
def _nothing(target):
    pass


def read_us(size: int, l2_bytes: int, budget_ms: float = 8.0) -> float:
    """Return the microseconds that reading `size` cold bytes takes at best."""
    sets = sets_for(size, l2_bytes)
    words = size // 4
    source = torch.randint(-(2**31), 2**31 - 1, (sets, words), dtype=torch.int32, device="cuda")
    target = torch.empty(-(-words // READS[0][0]), dtype=torch.int32, device="cuda")
    times = []
    for count, warps, steps in READS:
        grid = (-(-words // (count * steps)),)

        def call(
            index: int, grid: tuple[int] = grid, count: int = count, warps: int = warps, steps: int = steps
        ) -> None:
            _read[grid](source[index], target, words, WORDS=count, STEPS=steps, num_warps=warps)

        times.append(measure(call, sets, device="cuda", budget_ms=budget_ms).us)
    return min(times)


def reads_everything() -> bool:
    """Return whether the reading kernel's fold of distinct words is that of all of them."""
    source = torch.arange(1 << 14, dtype=torch.int32, device="cuda")
    target = torch.empty(8, dtype=torch.int32, device="cuda")
    _read[(8,)](source, target, source.numel(), WORDS=2048, STEPS=1, num_warps=4)
    return int(target.sum()) == int(source.sum())


def measured(sizes: Iterable[int], l2_bytes: int) -> dict[str, Any]:
    """Return the ceilings: GB/s, TFLOP/s, the microseconds of a launch, and those of reading each of `sizes`."""
    return {
        "reads everything": reads_everything(),
        "read GB/s": LARGE_BYTES / read_us(LARGE_BYTES, l2_bytes, 20.0) / 1e3,
        "copy GB/s": _copied(),
        "fp16 TFLOP/s": _multiplied(),
        "launch us": measure(lambda _: _empty(), 1, device="cuda").record(),
        "read us": {str(size): read_us(size, l2_bytes) for size in sorted(set(sizes))},
    }


def _copied() -> float:
    """Return bytes read and written, in GB/s."""
    source, target = (torch.empty(LARGE_BYTES // 8, dtype=torch.int32, device="cuda").random_() for _ in range(2))
    words = source.numel()

    def us(count: int, warps: int) -> float:
        def call(_: int) -> None:
            _copy[(-(-words // count),)](source, target, words, WORDS=count, num_warps=warps)

        return measure(call, 1, device="cuda", budget_ms=15).us

    return LARGE_BYTES / min(us(*shape) for shape in COPIES) / 1e3


def _multiplied() -> float:
    left, right = (torch.randn(MATRIX, MATRIX, dtype=torch.float16, device="cuda") for _ in range(2))
    time = measure(lambda _: torch.matmul(left, right), 1, device="cuda")
    return 2 * MATRIX**3 / time.us / 1e6


def _empty() -> None:
    _nothing[(1,)](_target())


_targets: list[torch.Tensor] = []


def _target() -> torch.Tensor:
    if not _targets:
        _targets.append(torch.empty(1, device="cuda"))
    return _targets[0]
