"""The sweep: values in ascending order, what is known of them already, the rule that stops it, the recommendation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from orchestrator.sweep import records
from orchestrator.sweep.model import Fault, Kind, Load, Measured, Weights
from orchestrator.sweep.plateau import Point, Rule, best_of, margin, plateau_at, recommended
from orchestrator.sweep.records import Outcome, inputs_of
from orchestrator.sweep.trial import Rendered, Serving, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from orchestrator.sweep.model import Rates

_FAILURES_RUNNING = 2


AfterFailure = Literal["auto", "stop", "next"]
"""What follows a value that failed."""


@dataclass(frozen=True)
class Settings:
    """All that a sweep is told, but for the values."""

    parameter: str
    serving: Serving
    load: Load = field(default_factory=Load)
    rule: Rule = field(default_factory=Rule)
    weights: Weights | None = None
    by: Literal["output", "score"] = "output"
    """What decides: `output` tokens a second, or the `score`."""
    after_failure: AfterFailure = "auto"
    stops: bool = True
    """Whether the plateau ends it."""
    again: bool = False
    """Whether values are measured that are known already."""
    retry: bool = False
    """Whether values are tried again that are known to have failed."""


@dataclass(frozen=True)
class Result:
    """What a sweep came to: an outcome for each value that was looked at, and why there are no more."""

    outcomes: tuple[Outcome, ...]
    ended: str


def points(outcomes: Sequence[Outcome], settings: Settings) -> list[Point]:
    """Return the measured values with what decides about them; those where it is unknown are left out."""
    found = []
    for outcome in outcomes:
        if isinstance(outcome.found, Measured):
            samples = [_sample(rates, settings) for rates in outcome.found.repeats]
            known = tuple(sample for sample in samples if sample is not None)
            if len(known) == len(samples):
                found.append(Point(outcome.number, known))
    return found


def _sample(rates: Rates, settings: Settings) -> float | None:
    if settings.by == "output":
        return rates.output
    weights = settings.weights
    return None if weights is None else weights.score(rates.output, rates.input, rates.cached)


async def sweep(rendered: Sequence[Rendered], settings: Settings, folder: Path, tell: Callable[[str], None]) -> Result:
    """Measure the values in ascending order until the rule, a failure or their end stops it.

    Each is recorded in `folder` as soon as it is known, and taken from there where its inputs are the same.
    """
    known = records.read(folder)
    outcomes: list[Outcome] = []
    running = 0
    for one in sorted(rendered, key=lambda r: r.number):
        outcome = await _outcome(one, settings, folder, known, tell)
        outcomes.append(outcome)
        if isinstance(outcome.found, Fault):
            running += 1
            if _stops_after(outcome.found, running, settings.after_failure):
                again = "; two values failed running" if running > 1 and outcome.found.kind not in _FOR_GOOD else ""
                return Result(tuple(outcomes), f"stopped at {one.value}: {outcome.found.kind}{again}")
            continue
        running = 0
        if settings.stops and plateau_at(points(outcomes, settings), settings.rule) is not None:
            return Result(tuple(outcomes), f"stopped at {one.value}: the plateau is reached")
    return Result(tuple(outcomes), "all values were looked at")


_FOR_GOOD = {Kind.OUT_OF_MEMORY}


def _stops_after(fault: Fault, running: int, policy: AfterFailure) -> bool:
    """Tell whether a failure ends the sweep: a larger value needs more memory, and two running have another cause."""
    match policy:
        case "stop":
            return True
        case "next":
            return False
        case "auto":
            return fault.kind in _FOR_GOOD or running >= _FAILURES_RUNNING


async def _outcome(
    one: Rendered, settings: Settings, folder: Path, known: dict[str, Outcome], tell: Callable[[str], None]
) -> Outcome:
    def told(line: str) -> None:
        tell(f"{settings.parameter}={one.value}: {line}")

    inputs = inputs_of(one, settings.serving, settings.load, settings.parameter)
    before = None if one.refused else known.get(inputs)  # what was not rendered has nothing to be known by
    failed = before is not None and isinstance(before.found, Fault)
    if before is not None and not settings.again and not (failed and settings.retry):
        hint = "; --retry tries it again" if failed else ""
        told(f"taken from the records of {before.at}{hint}")
        return before
    found: Measured | Fault
    if one.refused:
        found = Fault(Kind.NOT_RENDERED, "start", one.refused)
    else:
        target = folder / f"{settings.parameter}-{one.value}"
        found = await measure(one, settings.serving, settings.load, target, told)
    outcome = Outcome(settings.parameter, one.value, one.number, inputs, records.now(), found)
    records.append(folder, outcome)
    if isinstance(found, Fault):
        told(f"failed: {found.kind}: {found.message}")
    return outcome


@dataclass(frozen=True)
class Advice:
    """The recommendation: the value, the best one, and what the choice rests on. All figures as `by` measures them."""

    value: Outcome
    best: Outcome
    mean: float
    best_mean: float
    margin: float


def advice(outcomes: Sequence[Outcome], settings: Settings) -> Advice | None:
    """Return the recommendation; None where no value has a figure to compare."""
    found = points(outcomes, settings)
    chosen = recommended(found, settings.rule)
    if chosen is None:
        return None
    best = best_of(found)
    of = {outcome.number: outcome for outcome in outcomes}
    apart = margin(best, chosen, settings.rule)
    return Advice(of[chosen.value], of[best.value], chosen.mean, best.mean, apart)
