"""What is said about outcomes: nothing that they do not say, whatever they are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.sweep.model import Fault, Kind, Measured, Rates, Weights
from orchestrator.sweep.plot import plots
from orchestrator.sweep.records import Outcome
from orchestrator.sweep.report import sentences, shown_records, table
from orchestrator.sweep.sweep import Result, Settings
from orchestrator.sweep.trial import Serving

SETTINGS = Settings("max_num_seqs", Serving(("serve",)), weights=Weights(10, 2, 0.5))
RATE = st.floats(0.1, 1e5)
rates = st.builds(Rates, output=RATE, input=RATE, cached=st.none() | RATE, seconds=RATE, requests=st.integers(1, 99))
times = st.none() | st.fixed_dictionaries({"p50": RATE, "p90": RATE, "p99": RATE})
measured = st.builds(
    Measured,
    repeats=st.lists(rates, min_size=1, max_size=4).map(tuple),
    first_token_s=times,
    per_token_s=times,
    concurrency=st.integers(1, 64),
    prompt_tokens=st.just((1, 2)),
    start_s=RATE,
)
faults = st.builds(Fault, kind=st.sampled_from(Kind), phase=st.just("load"), message=st.text(), log=st.just(()))


@st.composite
def results(draw: st.DrawFn) -> Result:
    values = sorted(draw(st.sets(st.integers(1, 999), min_size=1, max_size=5)))
    found = [draw(measured | faults) for _ in values]
    return Result(
        tuple(
            Outcome("max_num_seqs", str(value), float(value), "digest", "now", one)
            for value, one in zip(values, found, strict=True)
        ),
        "all values were looked at",
    )


def printed(result: Result, settings: Settings = SETTINGS) -> str:
    console = Console(width=400, color_system=None, markup=False)
    with console.capture() as capture:
        console.print(table(result, settings))
    return capture.get()


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(results())
def test_table_and_records_have_every_value_and_at_most_one_is_recommended(result: Result) -> None:
    shown = printed(result)
    *values, recommendation = (json.loads(json.dumps(record)) for record in shown_records(result, SETTINGS))
    assert [record["value"] for record in values] == [outcome.value for outcome in result.outcomes]
    worked = [outcome.value for outcome in result.outcomes if isinstance(outcome.found, Measured)]
    assert (recommendation["value"] is None) == (not worked)
    assert recommendation["value"] in {None, *worked}
    assert ("Recommended: " in " ".join(sentences(result, SETTINGS))) == bool(worked)
    for outcome in result.outcomes:
        assert outcome.value in shown


def outcome(value: int, *outputs: float, cached: float | None = 1.0) -> Outcome:
    repeats = tuple(Rates(output, 1.0, cached, 1.0, 1) for output in outputs)
    found = Measured(repeats, None, None, value, (1, 1), 1.0)
    return Outcome("max_num_seqs", str(value), float(value), "digest", "now", found)


def test_noise_that_hides_the_answer_is_told() -> None:
    loud = Result((outcome(1, 50, 150), outcome(2, 60, 160)), "end")
    quiet = Result((outcome(1, 99, 100), outcome(2, 199, 200)), "end")
    assert "cannot be told apart" in " ".join(sentences(loud, SETTINGS))
    assert "cannot be told apart" not in " ".join(sentences(quiet, SETTINGS))


def test_a_client_at_its_limit_and_answers_that_are_short_are_told() -> None:
    def said(**found: Any) -> str:  # noqa: ANN401 - any field
        one = outcome(1, 100, 100)
        assert isinstance(one.found, Measured)
        return " ".join(sentences(Result((replace(one, found=replace(one.found, **found)),), "end"), SETTINGS))

    asked = SETTINGS.load.output_tokens
    assert "The client was late with its requests for a share of the time, max_num_seqs=1 (20%)" in said(
        client_share=0.2
    )
    assert "The client" not in said(client_share=0.05) + said(client_share=None)
    assert f"shorter than the {asked} tokens asked for at max_num_seqs=1 (3)" in said(output_tokens=(3, asked))
    assert "shorter" not in said(output_tokens=(asked, asked))


def test_what_is_unknown_is_called_unknown() -> None:
    result = Result((outcome(1, 100, 100, cached=None),), "end")
    row = printed(result).splitlines()[-1]
    assert "unknown" in row
    assert "≥ 1,002.0" in row, "10 times 100 and 2 times 1"


def test_a_plot_is_drawn_of_whatever_came_out() -> None:
    failed = Outcome("max_num_seqs", "4", 4.0, "digest", "now", Fault(Kind.DIED, "start", "it died"))
    for outcomes in ((failed,), (outcome(1, 5),), (outcome(1, 5, 6), failed), (outcome(0, 1, 2), outcome(3, 4, 5))):
        drawn = plots(Result(outcomes, "end"), SETTINGS)
        assert drawn == plots(Result(outcomes, "end"), SETTINGS)
        assert drawn["sweep.png"].startswith(b"\x89PNG")
        assert b"<svg" in drawn["sweep.svg"]
