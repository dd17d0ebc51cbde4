"""The words of a sweep: the load, what one request brought, what a value came to. Nothing here reads or writes."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Load:
    """What is sent. Lengths are in tokens; `prompt_tokens` are taken in turn."""

    prompt_tokens: tuple[int, ...] = (512,)
    shared_tokens: int = 256
    """How many tokens at their start all prompts have in common, so that a prefix cache has something to find."""
    output_tokens: int = 128
    rounds: int = 2
    """Requests of a repeat, as a multiple of the concurrency."""
    warm_up: int = 1
    """Rounds before the first repeat, which are not measured."""
    repeats: int = 3
    concurrency: int | None = None
    """Requests under way at a time; that of the run configuration if None."""
    token_ids: tuple[int, int] = (300, 1299)
    """The first and the last token id that prompts are made of."""
    body: Mapping[str, Any] = field(default_factory=lambda: {"ignore_eos": True, "temperature": 0})
    """Further fields of every request."""


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds."""

    health_s: float = 900.0
    stall_s: float = 120.0
    """The longest time without a further token of a stream, the first one included."""
    load_s: float = 3600.0
    """The longest time for the whole load of one value."""
    grace_s: float = 20.0
    """Between the request to end and the kill."""


class Kind(StrEnum):
    """What went wrong with a value."""

    NOT_RENDERED = "not rendered"
    NOT_STARTED = "not started"
    PORT_TAKEN = "port taken"
    DIED = "died"
    OUT_OF_MEMORY = "out of memory"
    NO_HEALTH = "no health"
    STALLED = "stalled"
    TOO_SLOW = "too slow"
    REFUSED = "error answered"
    NOT_A_STREAM = "not a stream"
    CUT_SHORT = "cut short"
    NO_USAGE = "no usage"


@dataclass(frozen=True)
class Fault:
    """A failure: its kind, when it came (`start`, `warm-up`, `load`), what was seen, the end of the server's log."""

    kind: Kind
    phase: str
    message: str
    log: tuple[str, ...] = ()


class Failed(Exception):  # noqa: N818 - a verdict about the server, not an error of ours
    """A value cannot be measured."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Answer:
    """What one request brought. Times are seconds of one clock; `cached` is None where the server does not say."""

    sent: float
    first: float
    last: float
    ended: float
    prompt: int
    output: int
    cached: int | None
    events: int
    """How many events of the stream brought tokens."""

    @property
    def first_token_s(self) -> float:
        """Time from sending to the first token."""
        return self.first - self.sent

    @property
    def per_token_s(self) -> float | None:
        """Mean time of each token after the first; None where there is none, or where all came at once."""
        return (self.last - self.first) / (self.output - 1) if self.output > 1 and self.events > 1 else None


@dataclass(frozen=True)
class Rates:
    """Tokens a second of one repeat, from its first request to its last token. `cached` is None where unknown."""

    output: float
    input: float
    cached: float | None
    seconds: float
    requests: int


def rates(answers: Sequence[Answer]) -> Rates:
    """Return the rates over `answers`, of which there is at least one.

    `input` counts all tokens of the prompts, cached or not, as `usage.prompt_tokens` does. `cached` is known only if
    every answer says it.
    """
    seconds = max(max(a.ended for a in answers) - min(a.sent for a in answers), 1e-9)
    cached = [a.cached for a in answers if a.cached is not None]
    return Rates(
        output=sum(a.output for a in answers) / seconds,
        input=sum(a.prompt for a in answers) / seconds,
        cached=sum(cached) / seconds if len(cached) == len(answers) else None,
        seconds=seconds,
        requests=len(answers),
    )


def percentiles(samples: Sequence[float]) -> dict[str, float] | None:
    """Return `p50`, `p90`, `p99` (nearest rank: each is a sample), None without samples."""
    if not samples:
        return None
    ordered = sorted(samples)
    return {f"p{p}": ordered[max(math.ceil(p / 100 * len(ordered)) - 1, 0)] for p in PERCENTILES}


@dataclass(frozen=True)
class Measured:
    """What one value came to: the rates of its repeats, times in seconds, what the prompts were."""

    repeats: tuple[Rates, ...]
    first_token_s: Mapping[str, float] | None
    per_token_s: Mapping[str, float] | None
    concurrency: int
    prompt_tokens: tuple[int, int]
    """The shortest and the longest prompt, as the server counted them."""
    start_s: float
    """From the start of the server to its first healthy answer."""
    output_tokens: tuple[int, int] | None = None
    """The shortest and the longest answer, as the server counted them; None in records that do not have them."""
    client_share: float | None = None
    """Which share of its streams' time the client took for itself, between an answer and the next request."""

    def mean(self, rate: str) -> float | None:
        """Return the mean of a rate over the repeats; None where one of them does not know it."""
        found = [getattr(r, rate) for r in self.repeats]
        return None if None in found else statistics.fmean(found)

    def plain(self) -> dict[str, Any]:
        """Return plain data, as it stands in a record."""
        return {**asdict(self), "repeats": [asdict(r) for r in self.repeats]}


def measured_from(data: Mapping[str, Any]) -> Measured:
    """Return what `Measured.plain` wrote; raise KeyError, TypeError or ValueError for anything else."""
    return Measured(
        repeats=tuple(_rates_from(item) for item in data["repeats"]),
        first_token_s=_times(data["first_token_s"]),
        per_token_s=_times(data["per_token_s"]),
        concurrency=int(data["concurrency"]),
        prompt_tokens=_lengths(data["prompt_tokens"]),
        start_s=_number(data["start_s"]),
        output_tokens=None if data.get("output_tokens") is None else _lengths(data["output_tokens"]),
        client_share=None if data.get("client_share") is None else _number(data["client_share"]),
    )


def _rates_from(data: Mapping[str, Any]) -> Rates:
    cached = data["cached"]
    numbers = {name: _number(data[name]) for name in ("output", "input", "seconds")}
    return Rates(**numbers, cached=None if cached is None else _number(cached), requests=int(data["requests"]))


def _lengths(data: Sequence[Any]) -> tuple[int, int]:
    shortest, longest = data
    return int(shortest), int(longest)


def _times(data: Mapping[str, Any] | None) -> dict[str, float] | None:
    return None if data is None else {f"p{p}": _number(data[f"p{p}"]) for p in PERCENTILES}


def _number(data: object) -> float:
    """Return a figure of a record; what was damaged to NaN or infinity is none."""
    if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
        raise ValueError(data)
    return float(data)


@dataclass(frozen=True)
class Weights:
    """What a token a second is worth: score = output · output_tps + input · input_tps + cached · cached_tps."""

    output: float
    input: float
    cached: float
    source: str = ""

    def score(self, output: float, input_: float, cached: float | None) -> float | None:
        """Return the score of rates in tokens a second; None where a rate that counts is unknown."""
        if cached is None and self.cached:
            return None
        return self.at_least(output, input_) + self.cached * (cached or 0.0)

    def at_least(self, output: float, input_: float) -> float:
        """Return the part of the score that does not depend on cached tokens: a lower bound."""
        return self.output * output + self.input * input_
