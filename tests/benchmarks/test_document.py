"""docs/kernels.md shows what the records say, and the verdicts on them are arithmetic."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from benchmarks.paged import cells, goals, ours, peers, report
from docs.kernels import derivation, generate

TEXT = generate.DOCUMENT.read_text(encoding="utf-8")


def test_the_tables_of_the_document_are_those_of_the_records() -> None:
    assert generate.filled(TEXT) == TEXT, "run `python docs/kernels/generate.py`"


def points(svg: str) -> list[str]:
    """Return where the dots of a plot are: what does not change with the version of the library that draws it."""
    return re.findall(r'<use xlink:href="#[^"]*" x="([\d.]+)" y="[\d.]+"', svg)


def test_the_plot_is_that_of_the_record() -> None:
    if generate.read("h200"):
        shown, drawn = generate.PLOT.read_text(encoding="utf-8"), generate.drawn()
        assert len(points(shown)) == len(points(drawn)) > 0, "run `python docs/kernels/generate.py`"
        assert re.findall(r"<text[^>]*>([^<]+)", shown) == re.findall(r"<text[^>]*>([^<]+)", drawn)
    else:
        assert not generate.PLOT.exists()


def test_every_table_that_is_made_is_shown_once() -> None:
    shown = re.findall(r"<!-- table: ([a-z0-9 -]+) -->", TEXT)
    assert sorted(shown) == sorted(generate.tables())


def test_filling_again_changes_nothing_and_an_unknown_table_is_an_error() -> None:
    once = generate.filled("<!-- table: little -->\n<!-- end -->\n")
    assert "900 GB/s" in once
    assert generate.filled(once) == once
    with pytest.raises(KeyError, match="nonsense"):
        generate.filled("<!-- table: nonsense -->\n<!-- end -->\n")


def row(cell: cells.Cell, **us: float) -> dict[str, Any]:
    times = {name: {"family": name, "us": value, "eager_us": value + 20} for name, value in us.items()}
    kind = type(cell).__name__.lower()
    return {
        "cell": str(cell),
        "kind": kind,
        "kv_bytes": cell.kv_bytes,
        "flop": getattr(cell, "flop", 0),
        "times": times,
    }


def judged(*rows: dict[str, Any], **more: dict[str, dict[str, float]]) -> dict[str, goals.Goal]:
    record = {"cells": list(rows), "ceilings": {"read GB/s": 4000.0, "fp16 TFLOP/s": 700.0}, **more}
    baseline = json.loads((generate.HERE / "baseline.json").read_text())
    return {f"{goal.work}: {goal.wanted}": goal for goal in goals.Judge(record, baseline, {}).goals()}


def only(found: dict[str, goals.Goal], words: str) -> goals.Goal:
    (goal,) = [goal for name, goal in found.items() if words in name]
    return goal


TARGET = cells.Decode(cells.QWEN_RANK, 8, 8 * cells.K)


@pytest.mark.parametrize(("mine", "met"), [(10.9, True), (11.1, False)])
def test_near_flashinfer_means_within_a_tenth_in_the_same_run(mine: float, met: bool) -> None:  # noqa: FBT001 - a table
    found = judged(row(TARGET, **{ours.MINE: mine, peers.FLASHINFER: 10.0}))
    assert [point.met for point in only(found, "within 1.1 of FlashInfer").points] == [met]


def test_a_figure_of_the_earlier_run_is_scaled_by_the_ceilings() -> None:
    found = judged(row(TARGET, **{ours.MINE: 30.0}))
    baseline = json.loads((generate.HERE / "baseline.json").read_text())
    earlier = baseline["cells"][str(TARGET)]["vLLM 0.6.3 CUDA"] * baseline["ceilings"]["read GB/s"] / 4000.0
    (point,) = only(found, "compiled kernels").points
    assert point.reached == pytest.approx(earlier / 30.0)


def test_the_best_public_setting_counts_whichever_run_it_is_from() -> None:
    fast = {f"{peers.XFORMERS}": 5.0, peers.CONCH: 9.0}
    (point,) = only(judged(row(TARGET, **{ours.MINE: 6.0}, **fast)), "best public Triton").points
    assert point.reached == pytest.approx(5 / 6)


def test_shares_of_the_read_ceiling_are_asked_of_three_cells() -> None:
    rows = [row(cell, **{ours.MINE: 1e6}) for cell in cells.decode_cells()]
    goal = only(judged(*rows), "of the read ceiling")
    assert [point.wanted for point in goal.points] == ["0.68", "0.85", "0.92"]
    assert not any(point.met for point in goal.points)


def test_prefill_goals_ask_each_head_size_for_its_own_rate() -> None:
    rows = [row(cell, **{goals.SMALL_ROWS: cell.flop / 100e6}) for cell in cells.prefill_cells()]  # 100 TFLOP/s each
    goal = only(judged(*rows), "144 and 88")
    assert [point.met for point in goal.points] == ["d256" in point.cell for point in goal.points]
    assert len(goal.points) == 6


def test_the_largest_step_is_the_largest_ratio_of_neighbours() -> None:
    steps = {"4q": {"1": 10.0, "2": 12.0, "3": 30.0, "4": 31.0}}
    assert report.largest_step(steps["4q"]) == (2.5, 3)
    assert [point.met for point in only(judged(steps=steps), "no step above").points] == [False]


def test_the_loop_is_compared_on_both_devices() -> None:
    record: dict[str, Any] = {"cells": [row(TARGET, **{ours.V2: 1.0, ours.LOOP: 2.0})]}
    found = goals.Judge({**record, "ceilings": {}}, {"cells": {}, "ceilings": {}}, record).goals()[-1]
    assert [(point.cell[:3], point.met) for point in found.points] == [("GPU", True), ("CPU", True)]


def test_what_falls_short_is_listed_and_what_was_not_measured_is_said() -> None:
    short = goals.Goal("a", "b", (goals.Point("c", "2 µs", "1 µs", 0.5), goals.Point("d", "1 µs", "1 µs", 1.0)))
    assert "| a | b | 1 of 2 | c: 2 µs for 1 µs (0.50) |" in goals.summary([short])
    assert "| a | b | c | 2 µs | 1 µs | 0.50 |" in goals.details([short])
    assert "not measured" in goals.summary([goals.Goal("a", "b", ())])


def test_little_s_law_asks_each_multiprocessor_for_44_kib_at_the_assumed_latency() -> None:
    figures = derivation.target_figures()
    assert derivation.in_flight(0.8e-6, figures) == pytest.approx(900e9 / 16 * 0.8e-6)
    assert "| on paper: 900 GB/s | 56.2 GB/s | 27 KiB | 44 KiB | 66 KiB |" in derivation.littles_law()


def test_every_row_of_the_target_is_in_the_derivation() -> None:
    for table in (derivation.decode_rows(), derivation.prefill_rows()):
        assert [line.split(",")[0] for line in table.splitlines()[2:]] == ["| d64", "| d128", "| d256"]
