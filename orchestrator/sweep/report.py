"""What a sweep says: records with their scores, the table, the recommendation in words. Made from outcomes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from orchestrator.sweep.model import Fault, Measured
from orchestrator.sweep.sweep import advice, points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from orchestrator.sweep.model import Weights
    from orchestrator.sweep.records import Outcome
    from orchestrator.sweep.sweep import Advice, Result, Settings

UNKNOWN = "unknown"
_LATE = 0.1
"""A client that takes a larger share of its streams' time than this is measured too, not the server alone."""
_WIDE = 0.1
"""A margin that is a larger share of the best than this hides what one wants to know."""


def shown_records(result: Result, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield a record for each value, with its score, and the recommendation."""
    for outcome in result.outcomes:
        yield {**outcome.record(), **score_of(outcome, settings.weights), "resumed": outcome.resumed}
    found = advice(result.outcomes, settings)
    yield {
        "event": "recommendation",
        "parameter": settings.parameter,
        "value": found.value.value if found else None,
        "by": settings.by,
        "ended": result.ended,
        **({"mean": found.mean, "best": found.best.value, "best_mean": found.best_mean} if found else {}),
        **({"margin": found.margin, "rule": vars(settings.rule)} if found else {}),
    }


def score_of(outcome: Outcome, weights: Weights | None) -> dict[str, float | None]:
    """Return `score`, None where a rate in it is unknown, and then `score_at_least`; nothing without weights."""
    found = outcome.found
    if weights is None or isinstance(found, Fault):
        return {}
    output, input_, cached = (found.mean(rate) for rate in ("output", "input", "cached"))
    if output is None or input_ is None:
        return {"score": None}
    score = weights.score(output, input_, cached)
    return (
        {"score": score} if score is not None else {"score": None, "score_at_least": weights.at_least(output, input_)}
    )


def table(result: Result, settings: Settings) -> Table:
    """Return the table of values: rates in tokens a second with their standard errors, score, times in milliseconds."""
    found = advice(result.outcomes, settings)
    errors = {point.value: point.error for point in points(result.outcomes, settings)}
    made = Table(show_edge=False, pad_edge=False, header_style="bold")
    made.add_column(settings.parameter, justify="right", no_wrap=True)
    for name in ("output/s", "±", "input/s", "cached/s", "score", "first token ms", "per token ms"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("outcome")
    for outcome in result.outcomes:
        made.add_row(outcome.value, *_figures(outcome, settings, errors.get(outcome.number)), _word(outcome, found))
    return made


def _figures(outcome: Outcome, settings: Settings, error: float | None) -> list[str]:
    found = outcome.found
    if isinstance(found, Fault):
        return ["-"] * 7
    score = score_of(outcome, settings.weights)
    known = score.get("score")
    least = score.get("score_at_least")
    return [
        _number(found.mean("output")),
        _number(error) if error is not None and settings.by == "output" else "-",
        _number(found.mean("input")),
        _number(found.mean("cached")),
        ("-" if settings.weights is None else _number(known)) if least is None else f"≥ {_number(least)}",
        _milliseconds(found.first_token_s),
        _milliseconds(found.per_token_s),
    ]


def _word(outcome: Outcome, found: Advice | None) -> Text:
    resumed = " (earlier run)" if outcome.resumed else ""
    if isinstance(outcome.found, Fault):
        return Text(f"{outcome.found.kind}: {outcome.found.message}{resumed}", style="bold red")
    if found is not None and found.value.number == outcome.number:
        return Text(f"recommended{resumed}", style="green")
    return Text(f"best{resumed}" if found is not None and found.best is outcome else f"measured{resumed}")


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"


def _milliseconds(times: Mapping[str, float] | None) -> str:
    return UNKNOWN if times is None else " / ".join(f"{times[p] * 1000:.1f}" for p in ("p50", "p90", "p99"))


def sentences(result: Result, settings: Settings) -> list[str]:
    """Return what the table does not say: why the sweep ended, the recommendation and what it rests on."""
    said = ["Times are p50 / p90 / p99.", f"{result.ended[:1].upper()}{result.ended[1:]}."]
    late = _where(result, settings, _late)
    if late:
        said.append(f"The client was late with its requests for a share of the time, {late}: the server may do more.")
    asked = settings.load.output_tokens
    short = _where(result, settings, lambda found: _shorter(found, asked))
    if short:
        said.append(f"Answers were shorter than the {asked} tokens asked for at {short}: see --body.")
    found = advice(result.outcomes, settings)
    unit = "output tokens/s" if settings.by == "output" else "the score"
    if found is None:
        measured = any(isinstance(outcome.found, Measured) for outcome in result.outcomes)
        said.append(f"No recommendation: {unit} is {UNKNOWN}." if measured else "No value could be measured.")
        return said
    if found.value is found.best:
        least = f"the best of the measured values by {unit}"
    else:
        least = f"the smallest value whose {unit} lies within the margin of the best, {found.best.value}"
    said.append(
        f"Recommended: {settings.parameter}={found.value.value}, {least}: {found.mean:,.1f} against "
        f"{found.best_mean:,.1f}, margin {found.margin:,.1f}."
    )
    if found.best_mean and found.margin > max(_WIDE, settings.rule.share) * abs(found.best_mean):
        share = found.margin / abs(found.best_mean)
        said.append(
            f"The repeats differ so much that values within {share:.0%} of the best cannot be told apart: raise "
            "--rounds and --repeats, or leave the machine alone meanwhile."
        )
    if any(score_of(outcome, settings.weights).get("score_at_least") is not None for outcome in result.outcomes):
        said.append("The server does not report cached tokens, so the score is known from below only.")
    return said


def _where(result: Result, settings: Settings, fault: Callable[[Measured], str]) -> str:
    """Return the values with a fault in what was measured, each with what it is; empty where there is none."""
    measured = ((outcome.value, outcome.found) for outcome in result.outcomes)
    told = ((value, fault(found)) for value, found in measured if isinstance(found, Measured))
    shown = ", ".join(f"{value} ({said})" for value, said in told if said)
    return f"{settings.parameter}={shown}" if shown else ""


def _late(found: Measured) -> str:
    """Return the client's share of its streams' time where it is large."""
    share = found.client_share or 0.0
    return f"{share:.0%}" if share > _LATE else ""


def _shorter(found: Measured, asked: int) -> str:
    """Return the length of the shortest answer where it is less than was asked for."""
    shortest = asked if found.output_tokens is None else found.output_tokens[0]
    return str(shortest) if shortest < asked else ""
