"""How long a call takes: a CUDA graph of many calls replayed, and one call as Python launches it."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

Call = Callable[[int], object]
"""Runs on the set of that index."""

GRAPH_US = 2000.0
"""Least time of one replay: far above what starting one costs."""

MOST_CALLS = 192
MOST_REPLAYS = 40
FEWEST_REPLAYS = 5
MOST_EAGER = 40
FEWEST_EAGER = 3


@dataclass(frozen=True)
class Time:
    """Microseconds of one call: median, 10th and 90th percentile over replays, and launched eagerly, host included."""

    us: float
    low: float
    high: float
    eager_us: float
    calls: int
    replays: int
    mode: str

    def record(self) -> dict[str, Any]:
        """Return plain data, four significant digits."""
        return {key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in asdict(self).items()}


def measure(call: Call, sets: int, *, device: str, graph: bool = True, budget_ms: float = 40.0) -> Time:
    """Return the time of `call`, rotating over `sets`; on a CPU, and without `graph`, calls are timed one by one."""
    for index in range(min(sets, 2)):
        call(index)
    if device == "cpu":
        return _one_by_one(call, sets, _host_spans, budget_ms)
    torch.cuda.synchronize()
    eager = _one_by_one(call, sets, _event_spans, budget_ms / 2)
    if not graph:
        return eager
    recorded, calls = _recorded(call, sets, eager.us)
    once = _event_spans(lambda _: recorded.replay(), 1, 2)
    replays = max(FEWEST_REPLAYS, min(MOST_REPLAYS, int(1e3 * budget_ms / max(1.0, once[-1]))))
    spans = [span / calls for span in _event_spans(lambda _: recorded.replay(), 1, replays)]
    return _time(spans, eager.eager_us, calls, "graph")


def interleaved(calls: Sequence[Call], sets: int, rounds: int, *, device: str) -> list[float]:
    """Return the median microseconds of each of several calls, whose graphs are replayed in turn, round after round.

    What changes in the machine meanwhile changes for all of them. Every graph has as many calls as the first one needs
    to last `GRAPH_US`, so that they can be compared. On a CPU calls are timed one by one.
    """
    for call in calls:
        for index in range(min(sets, 2)):
            call(index)
    if device == "cpu":
        turns = [[_host_spans(call, sets, 1)[0] for call in calls] for _ in range(rounds)]
        return [statistics.median(found) for found in zip(*turns, strict=True)]
    torch.cuda.synchronize()
    once_us = statistics.median(_event_spans(calls[0], sets, FEWEST_EAGER))
    graphs = [_recorded(call, sets, once_us) for call in calls]
    spans: list[list[float]] = [[] for _ in graphs]
    for _ in range(rounds):
        for (graph, count), found in zip(graphs, spans, strict=True):
            found += [span / count for span in _event_spans(_replay(graph), 1, 1)]
    return [statistics.median(found) for found in spans]


def _replay(graph: Any) -> Call:  # noqa: ANN401 - torch does not type it
    return lambda _: graph.replay()


def _recorded(call: Call, sets: int, once_us: float) -> tuple[Any, int]:
    """Return a graph of calls over whole rounds of the sets, replayed once, and how many calls it has."""
    calls = -(-min(MOST_CALLS, max(sets, int(GRAPH_US / once_us) + 1)) // sets) * sets
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        for index in range(calls):
            call(index % sets)
    recorded.replay()
    return recorded, calls


def _one_by_one(call: Call, sets: int, spans_of: Callable[[Call, int, int], list[float]], budget_ms: float) -> Time:
    """Time calls one by one: their number follows from the first, synchronised one."""
    start = time.perf_counter()
    call(0)
    _wait()
    once_ms = 1e3 * (time.perf_counter() - start)
    count = max(FEWEST_EAGER, min(MOST_EAGER, int(budget_ms / max(once_ms, 1e-3))))
    start = time.perf_counter()
    spans = spans_of(call, sets, count)
    eager_us = 1e6 * (time.perf_counter() - start) / count
    return _time(spans, eager_us, 1, "eager")


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _host_spans(call: Call, sets: int, count: int) -> list[float]:
    marks = [time.perf_counter()]
    for index in range(count):
        call(index % sets)
        marks.append(time.perf_counter())
    return [1e6 * (after - before) for before, after in itertools.pairwise(marks)]


def _event() -> Any:  # noqa: ANN401 - torch does not type it
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _event_spans(call: Call, sets: int, count: int) -> list[float]:
    marks: list[Any] = [_event() for _ in range(count + 1)]
    marks[0].record()
    for index, mark in enumerate(marks[1:]):
        call(index % sets)
        mark.record()
    torch.cuda.synchronize()
    return [1e3 * before.elapsed_time(after) for before, after in itertools.pairwise(marks)]


def _time(spans: list[float], eager_us: float, calls: int, mode: str) -> Time:
    ordered = sorted(spans)
    last = len(ordered) - 1
    low, high = ordered[round(0.1 * last)], ordered[round(0.9 * last)]
    return Time(statistics.median(ordered), low, high, eager_us, calls, len(ordered), mode)
