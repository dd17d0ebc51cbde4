"""What people and other programs read: tables, graphs and code frames, made from records."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from orchestrator.core.diagnostics import Diagnostic, Place, Severity
from orchestrator.emit.frames import frame
from orchestrator.emit.graphs import dot, mermaid
from orchestrator.emit.tables import checks_cell, claim_cell, stages_table, states_table
from tests.workspaces import LIMIT_STAGE, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table


def shown(table: Table) -> list[list[str]]:
    """Return the cells of a table as it is printed, blanks stripped."""
    out = io.StringIO()
    Console(file=out, width=200, markup=False, highlight=False).print(table)
    rows = [re.split("[│┃]", line) for line in out.getvalue().splitlines() if "━" not in line]
    return [[cell.strip() for cell in row] for row in rows]


def record(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - plain data
    plain: dict[str, Any] = {
        "event": "stage",
        "stage": "limit",
        "outcome": "applied (exact)",
        "needs": [],
        "sites": [],
        "files": [],
        "artefacts": [],
        "checks": [],
        "claim": None,
        "evidence": None,
    }
    return {**plain, **fields}


# --- tables ---


def test_the_table_has_a_row_for_each_stage_and_none_for_other_records() -> None:
    rows = shown(
        stages_table(
            [
                record(sites=[{}, {}], files=[{}], artefacts=["a"], claim="Fast.", evidence="us, here"),
                record(stage="off", outcome="skipped", reason="enabled: false", claim="Faster."),
                {"event": "patchset"},
            ]
        )
    )
    assert rows == [
        ["stage", "outcome", "sites", "files", "checks", "claim"],
        ["limit", "applied (exact)", "2", "2", "-", "Fast. [evidence: us, here]"],
        ["off", "skipped", "0", "0", "-", "enabled: false"],
    ]


def test_a_claim_without_evidence_is_shown_as_such() -> None:
    assert claim_cell(record(claim="Fast.")) == "Fast. (claimed, not measured)"
    assert claim_cell(record(claim="Fast.", evidence="us")) == "Fast. [evidence: us]"
    assert claim_cell(record()) == "-"


@pytest.mark.parametrize(
    ("rows", "cell"),
    [
        ([], "-"),
        ([("effect", "holds"), ("invariant", "holds")], "2/2"),
        ([("effect", "holds"), ("pre", "fails")], "1/2"),
        ([("effect", "warns")], "1/1, 1 warns"),
        ([("effect", "holds"), ("final", "holds")], "1/1"),
        ([("effect", "holds"), ("final", "fails")], "1/2"),
    ],
)
def test_checks_are_counted_once_unless_they_come_out_otherwise_at_the_end(
    rows: list[tuple[str, str]], cell: str
) -> None:
    assert checks_cell([{"role": role, "status": status} for role, status in rows]) == cell


def test_markup_in_a_text_is_text() -> None:
    assert shown(states_table([("a", "applied", "[bold]x[/bold]")]))[1] == ["a", "applied", "[bold]x[/bold]"]


# --- graphs ---

RECORDS = [
    record(stage="one"),
    record(stage="two", outcome="skipped", needs=["one"]),
    record(stage="three", needs=["one", "two"]),
]


def test_the_graph_in_mermaid() -> None:
    assert mermaid(RECORDS) == (
        "flowchart LR\n"
        '  s0["one<br/>applied (exact)"]\n'
        '  s1["two<br/>skipped"]\n'
        '  s2["three<br/>applied (exact)"]\n'
        "  s0 --> s1\n"
        "  s0 --> s2\n"
        "  s1 --> s2\n"
    )


def test_the_graph_in_dot() -> None:
    assert dot(RECORDS) == (
        "digraph pipeline {\n"
        "  rankdir=LR;\n"
        "  node [shape=box];\n"
        '  s0 [label="one\\napplied (exact)"];\n'
        '  s1 [label="two\\nskipped"];\n'
        '  s2 [label="three\\napplied (exact)"];\n'
        "  s0 -> s1;\n"
        "  s0 -> s2;\n"
        "  s1 -> s2;\n"
        "}\n"
    )


def test_plan_draws_the_stages_in_the_order_they_ran(tmp_path: Path) -> None:
    second = replaced(
        replaced(LIMIT_STAGE, "id: limit", "id: second"),
        "    edits",
        "    enabled: false\n    needs: [limit]\n    edits",
    )
    workspace = Workspace.at(tmp_path, second + LIMIT_STAGE)
    assert workspace.run("plan", "--format", "mermaid").out == (
        'flowchart LR\n  s0["limit<br/>applied (unlocked)"]\n  s1["second<br/>skipped"]\n  s0 --> s1\n'
    )
    assert workspace.run("plan", "--format", "dot").out.startswith("digraph pipeline {\n")
    as_json = workspace.run("plan", "--format", "json")
    assert [found["stage"] for found in as_json.records()] == ["limit", "second"]
    assert as_json == workspace.run("plan", "--json")


# --- frames ---

LINES = {1: "a: 1", 2: "  bad: x", 3: "\tkey: größe", 4: ""}


def plain(found: Diagnostic) -> list[str]:
    return frame(found, lambda file, number: LINES.get(number) if file == "p.yaml" else None).plain.splitlines()


def test_a_frame_shows_the_line_and_marks_what_is_meant() -> None:
    found = Diagnostic("E110", "unknown key 'bad'", Place("p.yaml", 2, 3, 3), "did you mean 'b'?", ("a note",), "s1")
    assert plain(found) == [
        "error[E110]: unknown key 'bad'",
        "  --> p.yaml:2:3   stage s1",
        "   2 |   bad: x",
        "     |   ^^^",
        "  a note",
        "  help: did you mean 'b'?",
    ]


def test_a_frame_without_a_line_has_no_mark() -> None:
    assert plain(Diagnostic("E401", "gone", Place("elsewhere.py", 3, 1))) == [
        "error[E401]: gone",
        "  --> elsewhere.py:3:1",
    ]
    assert plain(Diagnostic("W602", "no lock", stage="s1", severity=Severity.WARNING)) == [
        "warning[W602]: no lock",
        "  --> stage s1",
    ]
    assert plain(Diagnostic("E102", "empty", Place("p.yaml"))) == ["error[E102]: empty", "  --> p.yaml"]


def test_the_mark_stands_below_a_tab_and_never_runs_over_the_end_of_the_line() -> None:
    assert plain(Diagnostic("E105", "tab", Place("p.yaml", 3, 2, 90)))[2:] == [
        "   3 |  key: größe",
        "     |  ^^^^^^^^^^",
    ]
    assert plain(Diagnostic("E105", "end", Place("p.yaml", 4, 1, 5)))[2:] == ["   4 | ", "     | ^"]


@given(st.integers(0, 9), st.integers(0, 40), st.integers(1, 40), st.text(max_size=30))
def test_any_place_makes_a_frame(line: int, column: int, length: int, message: str) -> None:
    found = Diagnostic("E110", message, Place("p.yaml", line, column, length), help="help")
    shown_lines = frame(found, lambda _file, number: LINES.get(number)).plain
    assert shown_lines.startswith("error[E110]: ")
    assert shown_lines.endswith("help: help\n")
