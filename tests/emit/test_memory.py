"""The memory of a rank: records from a run, the table that people read, and the document about all targets."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from orchestrator.device.budget import Setting
from orchestrator.emit.budgets import budgets
from orchestrator.emit.capacities import Case
from orchestrator.emit.memory_table import (
    gigabytes,
    graphs_in_words,
    memory_notes,
    memory_tables,
    quantity,
    tokens_cell,
)
from tests.cli.test_against import CONFIG, ENGINE, STAGE
from tests.device.targets import target
from tests.workspaces import TARGET, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = """\
  block_size: 16
  cache_element_bytes: 2
  default_gpu_memory_utilisation: 0.9
  default_max_seq_len_to_capture: 8192
  graph_capture_bytes: {status: unknown, source: nobody}
memory_runs:
  - {utilisation: 0.9, batched_tokens: 1024, context: 4096, layers: 4, blocks: 1000, source: a test}
  - {utilisation: 0.9, batched_tokens: 4096, context: 4096, layers: 4, blocks: 400, source: a test}
"""
MODEL = """\
model: {head_dim: 64, kv_heads: 2, layers: 4, attention_layers: 1, tensor_parallel: 1, max_positions: 4096}
"""
ARGUMENTS = "--seqs, '{{ params.limit }}', --plain"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, STAGE)
    made.write("templates/run.yaml.j2", replaced(CONFIG, ARGUMENTS, "--max-num-batched-tokens, '4096'"))
    known = replaced(TARGET, "device: {", "device: {memory_bytes: 1000000000, ")
    made.write("target.yaml", replaced(known, "model: {head_dim: 256}\n", MODEL) + ENGINE + KNOWN)
    return made


def memory(workspace: Workspace, command: str = "plan") -> list[dict[str, Any]]:
    return [record for record in workspace.run(command, "--json").records() if record["event"] == "memory"]


def shown(records: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    console = Console(file=out, width=200, markup=False, highlight=False)
    for table in memory_tables(records):
        console.print(table)
    return out.getvalue()


def test_plan_and_render_say_the_same_of_the_chosen_setting_and_its_neighbours(workspace: Workspace) -> None:
    [planned] = memory(workspace)
    [rendered] = memory(workspace, "render")
    assert {key: rendered[key] for key in planned} == planned
    assert [(row["utilisation"], row["batched_tokens"], row["chosen"]) for row in planned["rows"]] == [
        (0.9, 4096, True),
        (0.9, 2048, False),
        (0.9, 8192, False),
        (0.85, 4096, False),
        (0.95, 4096, False),
    ]


def test_a_measured_setting_is_marked_as_measured_and_the_others_as_fitted(workspace: Workspace) -> None:
    [record] = memory(workspace)
    assert [[cache["basis"] for cache in row["caches"]] for row in record["rows"][:2]] == [
        ["measured", "derived"],
        ["fitted", "fitted"],
    ]
    chosen = record["rows"][0]["caches"][0]
    assert (chosen["blocks"], chosen["tokens"]) == ({"value": 400}, {"value": 6400})


def test_uses_add_up_to_the_memory(workspace: Workspace) -> None:
    [record] = memory(workspace)
    for row in record["rows"]:
        peak, cache, reserve = (row[use]["value"] for use in ("peak", "kv_cache", "reserve"))
        if cache:
            assert peak + cache + reserve == pytest.approx(10**9, abs=3)
        else:  # the peak alone is more than the engine is given
            assert peak + reserve >= 10**9
            assert any(said.startswith("capacity: ") for said in row["refused"])
    assert {bool(row["kv_cache"]["value"]) for row in record["rows"]} == {True, False}


def test_neighbours_that_the_engine_would_refuse_say_why(workspace: Workspace) -> None:
    [record] = memory(workspace)
    refused = {row["batched_tokens"]: row["refused"] for row in record["rows"] if row["utilisation"] == 0.9}
    assert refused[4096] == []
    assert refused[2048][0].startswith("rule 1: ")


def test_a_missing_figure_is_named_in_the_record_and_below_the_table(workspace: Workspace) -> None:
    [record] = memory(workspace)
    assert record["rows"][0]["weights"] == {"unknown": ["model.weight_bytes_per_rank"]}
    assert list(memory_notes([record]))[-1] == (
        "unknown, for want of engine.graph_capture_bytes, model.weight_bytes_per_rank"
    )
    assert shown([record]).count("unknown") == 3 * len(record["rows"])  # weights, activation, graphs


def test_people_read_the_same_numbers(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # a narrow terminal breaks lines within a cell
    out = workspace.run("plan").out
    assert "memory of a rank, GB; context 4,096, 1 ranks" in out
    assert "6,400 measured" in out
    assert "KV cache is counted for every layer (every layer: 4, attention layers: 1)" in out
    assert "CUDA graphs of 35 batch sizes up to 256, for lengths up to 4,096" in out


def test_the_audit_has_the_record_and_is_whole(workspace: Workspace) -> None:
    assert workspace.run("render").code == 0
    assert b'"event":"memory"' in workspace.built()["audit.jsonl"]
    assert workspace.run("audit").code == 0


def test_without_what_decides_about_memory_the_record_says_what_is_missing(workspace: Workspace) -> None:
    text = (workspace.folder / "target.yaml").read_text()
    workspace.write("target.yaml", replaced(text, "  default_gpu_memory_utilisation: 0.9\n", ""))
    [record] = memory(workspace)
    assert record["unknown"] == ["--gpu-memory-utilization, or engine.default_gpu_memory_utilisation"]
    [note] = memory_notes([record])
    assert note.startswith("memory of a rank: unknown, for want of --gpu-memory-utilization")
    assert list(memory_tables([record])) == []


def test_a_pipeline_without_a_run_configuration_has_no_memory_to_show(tmp_path: Path) -> None:
    made = Workspace.at(tmp_path)
    assert memory(made) == []
    assert "memory of a rank" not in made.run("plan").out


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({"value": 1_500_000_000}, "1.5"),
        ({"value": 2_000_000_000, "values": [1_000_000_000, 2_000_000_000]}, "1.0-2.0"),
        ({"unknown": ["x"]}, "unknown"),
    ],
)
def test_bytes_are_shown_in_gigabytes(known: dict[str, Any], text: str) -> None:
    assert gigabytes(known) == text


@pytest.mark.parametrize(
    ("known", "text"),
    [({"value": 1500}, "1,500"), ({"value": 2, "values": [1, 2]}, "1-2"), ({"unknown": []}, "unknown")],
)
def test_counts_are_shown_whole(known: dict[str, Any], text: str) -> None:
    assert quantity(known) == text


@pytest.mark.parametrize(
    ("basis", "spread", "text"),
    [
        ("measured", {"value": 0}, "1,600 measured"),
        ("derived", {"value": 0}, "1,600 derived"),
        ("fitted", {"value": 32}, "1,600 ±32"),
    ],
)
def test_tokens_say_how_they_are_known(basis: str, spread: dict[str, Any], text: str) -> None:
    assert tokens_cell({"basis": basis, "tokens": {"value": 1600}, "tokens_spread": spread}) == text
    assert tokens_cell({"basis": "unknown", "tokens": {"unknown": []}, "tokens_spread": {"unknown": []}}) == "unknown"


@pytest.mark.parametrize(
    ("graphs", "text"),
    [
        ({"eager": True, "by": "vllm/a.py:1:1"}, "no CUDA graphs: eager mode (vllm/a.py:1:1)"),
        ({"eager": True, "by": ""}, "no CUDA graphs: eager mode"),
        ({"eager": False, "unknown": ["x"]}, "CUDA graphs: lengths unknown, for want of x"),
    ],
)
def test_graphs_are_put_into_words(graphs: dict[str, Any], text: str) -> None:
    assert graphs_in_words(graphs) == text


# ------------------------------------------------------------------------------------------------ the document
def document(own: str) -> str:
    cases = [Case("one", Setting(0.95, 32_768, 100_000, 256, 4)), Case("two", Setting(0.9, 8192, 300_000, 8, 4))]
    return budgets({name: target(name) for name in ("bi100", "h200")}, cases, own, (2048,))


def test_the_document_judges_every_case_by_both_accountings() -> None:
    rows = [line for line in document("bi100").splitlines() if line.startswith(("| one | 0.95", "| two | 0.9"))]
    assert [row.split(" | ")[5] for row in rows] == ["every layer", "attention layers"] * 2
    assert [row.split(" | ")[9] for row in rows] == ["yes", "yes", "no", "yes"]


def test_the_document_shows_fit_residuals_and_every_disputed_value() -> None:
    text = document("bi100")
    assert "| 0.9 | 8,192 | 40 | 16,878 | 19.86 | 20.03 | -0.17 |" in text
    assert "49,152, 32,768 (disputed)" in text
    assert "| one | 20.0 | -4.8 or -3.6 |" in text


def test_a_target_without_measured_runs_has_an_unknown_capacity_in_the_document() -> None:
    text = document("h200")
    assert "*unknown*, for want of memory_runs" in text
    rows = [line for line in text.splitlines() if line.startswith("| one | 0.95")]
    assert {row.split(" | ")[9] for row in rows} == {"*unknown*"}
