"""Peak memory of a start-up profile, fitted to runs that were measured.

A run tells how many blocks the engine made: `blocks = (memory · utilisation - peak) // block_bytes`, so
`peak = memory · utilisation - blocks · block_bytes`, up to one block. The profile runs as many tokens as a batch may
have, and activations are tensors with one row a token: `peak = constant + slope · tokens`, by ordinary least squares.
The constant holds the weights and all else that does not grow with the batch; the runs do not tell these apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Point:
    """One measured run: tokens of a batch, peak bytes backed out of its blocks."""

    batched_tokens: int
    peak_bytes: float


@dataclass(frozen=True)
class PeakFit:
    """`peak = constant_bytes + bytes_per_token · tokens`, with what each run differs from it."""

    constant_bytes: float
    bytes_per_token: float
    points: tuple[Point, ...]

    def peak_bytes(self, batched_tokens: float) -> float:
        """Return the fitted peak of weights and activations for this many tokens a batch."""
        return self.constant_bytes + self.bytes_per_token * batched_tokens

    @property
    def residuals_bytes(self) -> tuple[float, ...]:
        """Measured less fitted, for each point."""
        return tuple(point.peak_bytes - self.peak_bytes(point.batched_tokens) for point in self.points)

    @property
    def uncertainty_bytes(self) -> float:
        """The largest residual: no run was further off, which is no promise about the next one."""
        return max((abs(residual) for residual in self.residuals_bytes), default=0.0)


def peak_of_run(memory_bytes: float, utilisation: float, blocks: int, block_bytes: int) -> float:
    """Return the peak that a measured number of blocks implies, bytes; the true one is less than a block below."""
    return memory_bytes * utilisation - blocks * block_bytes


def fit_peak(points: Sequence[Point]) -> PeakFit | None:
    """Return the least-squares line through the points, None where they do not have two batch sizes."""
    if len({point.batched_tokens for point in points}) <= 1:
        return None
    count = len(points)
    mean_tokens = sum(point.batched_tokens for point in points) / count
    mean_peak = sum(point.peak_bytes for point in points) / count
    spread = sum((point.batched_tokens - mean_tokens) ** 2 for point in points)
    together = sum((point.batched_tokens - mean_tokens) * (point.peak_bytes - mean_peak) for point in points)
    slope = together / spread
    return PeakFit(mean_peak - slope * mean_tokens, slope, tuple(points))
