"""Where more stops giving more: the rule by which a sweep stops, and the value that it recommends. Pure arithmetic.

Each value has the samples of its repeats, tokens a second or a score. The *margin* between two values is the larger of
`errors` pooled standard errors of the difference of their means, and `share` of the best mean:

    margin(a, b) = max(errors * sqrt(s² * (1/len(a) + 1/len(b))), share * best)
    s² = (Σ(aᵢ - mean a)² + Σ(bᵢ - mean b)²) / (len(a) + len(b) - 2)

A value is *flat* if its mean is not above the best mean of the smaller values by more than the margin. The plateau is
reached with `flat` flat values running. Recommended is the smallest value whose mean is within the margin of the best.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Rule:
    """The figures of the rule."""

    errors: float = 2.0
    share: float = 0.02
    flat: int = 2


@dataclass(frozen=True)
class Point:
    """A value of the parameter and what its repeats gave; there is at least one sample."""

    value: float
    samples: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the samples."""
        return statistics.fmean(self.samples)

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None with a single sample."""
        return statistics.stdev(self.samples) / math.sqrt(len(self.samples)) if len(self.samples) > 1 else None


def margin(best: Point, other: Point, rule: Rule) -> float:
    """Return by how much two means have to differ to count as different; without repeats the share alone decides."""
    floor = rule.share * abs(best.mean)
    freedom = len(best.samples) + len(other.samples) - 2
    if freedom < 1:
        return floor
    squares = sum((x - p.mean) ** 2 for p in (best, other) for x in p.samples)
    error = math.sqrt(squares / freedom * (1 / len(best.samples) + 1 / len(other.samples)))
    return max(rule.errors * error, floor)


def best_of(points: Sequence[Point]) -> Point:
    """Return the point with the largest mean, the smaller value of two equals."""
    return max(points, key=lambda p: (p.mean, -p.value))


def plateau_at(points: Sequence[Point], rule: Rule) -> int | None:
    """Return the index, in ascending order, of the value that completes the plateau; None where none does."""
    ordered = sorted(points, key=lambda p: p.value)
    flat = 0
    for index in range(1, len(ordered)):
        best, here = best_of(ordered[:index]), ordered[index]
        flat = flat + 1 if here.mean - best.mean <= margin(best, here, rule) else 0
        if flat >= rule.flat:
            return index
    return None


def recommended(points: Sequence[Point], rule: Rule) -> Point | None:
    """Return the point of the smallest value that is within the margin of the best; None without points."""
    if not points:
        return None
    best = best_of(points)
    near = [p for p in points if best.mean - p.mean <= margin(best, p, rule)]
    return min(near, key=lambda p: p.value)
