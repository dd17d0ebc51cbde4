"""Rates, percentiles, scores, prompts and causes: the arithmetic of one value."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sweep.cause import cause
from orchestrator.sweep.model import (
    Answer,
    Failed,
    Kind,
    Load,
    Measured,
    Weights,
    measured_from,
    percentiles,
    rates,
)
from orchestrator.sweep.prompts import prompts

TIMES = st.floats(0, 1e4)
CACHED = st.none() | st.integers(0, 500)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    sent, first, last, ended = sorted(draw(st.tuples(TIMES, TIMES, TIMES, TIMES)))
    prompt, output, events = (draw(st.integers(1, most)) for most in (9999, 999, 999))
    return Answer(sent, first, last, ended, prompt, output, draw(CACHED), events)


@given(st.lists(answers(), min_size=1, max_size=8))
def test_rates_are_all_tokens_over_the_whole_time_and_cached_is_known_only_if_every_answer_says_it(
    some: list[Answer],
) -> None:
    found = rates(some)
    assert found.output * found.seconds == pytest.approx(sum(a.output for a in some))
    assert found.input * found.seconds == pytest.approx(sum(a.prompt for a in some))
    assert (found.cached is None) == any(a.cached is None for a in some)
    assert found.requests == len(some)


@given(st.lists(answers(), min_size=1, max_size=8), st.integers(1, 64))
def test_a_measurement_can_be_read_from_its_record(some: list[Answer], concurrency: int) -> None:
    times = percentiles([a.first_token_s for a in some])
    measured = Measured((rates(some), rates(some[:1])), times, None, concurrency, (1, 2), 3.5, (3, 4), 0.5)
    assert measured_from(json.loads(json.dumps(measured.plain()))) == measured


@pytest.mark.parametrize(
    "damage",
    [{"first_token_s": 5}, {"per_token_s": {"p50": 1.0}}, {"start_s": math.nan}, {"client_share": "much"},
     {"output_tokens": [1]}, {"repeats": [{"output": math.inf, "input": 1, "cached": 1, "seconds": 1, "requests": 1}]}],
)  # fmt: skip
def test_a_record_that_is_damaged_is_none(damage: dict[str, object]) -> None:
    rate = rates([Answer(0.0, 1.0, 2.0, 3.0, 1, 1, 1, 1)])
    whole = Measured((rate,), None, None, 1, (1, 1), 1.0).plain()
    with pytest.raises((KeyError, TypeError, ValueError)):
        measured_from({**whole, **damage})


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_samples_in_ascending_order(samples: list[float]) -> None:
    found = percentiles(samples)
    assert found is not None
    assert set(found.values()) <= set(samples)
    assert found["p50"] <= found["p90"] <= found["p99"] <= max(samples)
    assert sum(x <= found["p90"] for x in samples) >= 0.9 * len(samples)


def test_percentiles_of_known_samples_are_the_nearest_ranks() -> None:
    assert percentiles(range(1, 101)) == {"p50": 50, "p90": 90, "p99": 99}
    assert percentiles([]) is None


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=6))
def test_a_score_is_the_weighted_sum_and_never_below_what_is_known_of_it(numbers: list[float]) -> None:
    output, input_, cached, *tps = numbers
    weights = Weights(output, input_, cached)
    score = weights.score(*tps)
    assert score == pytest.approx(output * tps[0] + input_ * tps[1] + cached * tps[2])
    assert score is not None
    assert score >= weights.at_least(tps[0], tps[1])


def test_an_unknown_rate_makes_the_score_unknown_unless_its_weight_is_nothing() -> None:
    assert Weights(1, 1, 0.5).score(10, 10, None) is None
    assert Weights(1, 1, 0).score(10, 10, None) == 20


@given(
    st.lists(st.integers(1, 64), min_size=1, max_size=4),
    st.integers(0, 80),
    st.integers(0, 1000).flatmap(lambda low: st.tuples(st.just(low), st.integers(low, low + 50))),
)
def test_prompts_have_the_stated_lengths_and_start_and_are_the_same_every_time(
    lengths: list[int], shared: int, ids: tuple[int, int]
) -> None:
    load = Load(prompt_tokens=tuple(lengths), shared_tokens=shared, token_ids=ids)
    some, again = (list(itertools.islice(prompts(load), 12)) for _ in range(2))
    assert some == again
    assert [len(prompt) for prompt in some] == list(itertools.islice(itertools.cycle(lengths), 12))
    longest = max(some, key=len)
    for prompt in some:
        assert prompt[:shared] == longest[: min(shared, len(prompt))]
        assert all(ids[0] <= token <= ids[1] for token in prompt)


def test_prompts_differ_behind_their_common_start() -> None:
    load = Load(prompt_tokens=(40,), shared_tokens=8)
    some = [tuple(prompt[8:]) for prompt in itertools.islice(prompts(load), 200)]
    assert len(set(some)) == 200


SEEN = Failed(Kind.CUT_SHORT, "the connection ended")


@pytest.mark.parametrize(
    ("seen", "code", "log", "kind"),
    [
        (SEEN, None, "all is well", Kind.CUT_SHORT),
        (SEEN, None, "RuntimeError: HIP out of memory", Kind.OUT_OF_MEMORY),
        (SEEN, 1, "std::bad_alloc", Kind.OUT_OF_MEMORY),
        (SEEN, -9, "", Kind.OUT_OF_MEMORY),
        (SEEN, 137, "", Kind.OUT_OF_MEMORY),
        (SEEN, -11, "", Kind.DIED),
        (SEEN, 0, "", Kind.DIED),
        (SEEN, 1, "[Errno 98] Address already in use", Kind.PORT_TAKEN),
        (SEEN, None, "If you are running out of memory, consider decreasing it. It went well.", Kind.CUT_SHORT),
        (SEEN, None, "This may cause OOM errors during the initial memory profiling phase", Kind.CUT_SHORT),
        (SEEN, 1, "set it to avoid OOM", Kind.DIED),
        (SEEN, 1, "--oom-score-adj 500", Kind.DIED),
        (SEEN, 1, "If it is so: torch.OutOfMemoryError: CUDA out of memory. If it is large try", Kind.OUT_OF_MEMORY),
        (SEEN, 1, "a room, a bloom, a zoom", Kind.DIED),
    ],
)
def test_a_cause_is_told_from_the_exit_code_and_the_log(seen: Failed, code: int | None, log: str, kind: Kind) -> None:
    assert cause(seen, code, log).kind is kind
