"""`docs/faults.md` has every kind of fault, names codes that there are, and tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from orchestrator.core.codes import CODES, INSTALLER_CODES

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
KINDS = {
    "A": [
        "anchor missing",
        "status masked",
        "relative copy",
        "does not parse",
        "edited copy is not the deployed copy",
        "source absent",
        "wrong phase",
        "injected code unreachable",
        "dead branch",
    ],
    "B": [
        "overwrite",
        "drifted anchor between patches",
        'false "already applied"',
        "double application",
        "half applied",
        "text before docstring or `from __future__`",
        "two roots",
    ],
    "C": [
        "unresolved import",
        "name bound only under a flag",
        "registry without module",
        "unknown vendor symbol",
        "arity drift",
        "lost fix",
        "base drift",
        "pinned set drift",
    ],
    "D": [
        "capacity",
        "combination refused by the engine",
        "flag exists only after a patch",
        "key ignored",
        "key lost",
        "wrong constants",
        "flip-flop",
    ],
    "E": [
        "literal success",
        "silent fallback",
        "promised safety that does not exist",
        "wrong root cause",
        "second invisible layer",
    ],
}
EXAMPLES = 15


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under the heading that begins so."""
    section = re.search(rf"^## {re.escape(heading)}.*?\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert section is not None, heading
    lines = [line for line in section[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("letter", KINDS)
def test_every_kind_of_fault_has_its_row(letter: str) -> None:
    assert [cells[0] for cells in rows(f"{letter}. ")] == KINDS[letter]


def test_every_worked_example_has_its_row() -> None:
    assert [cells[0] for cells in rows("Worked examples")] == [str(n) for n in range(1, EXAMPLES + 1)]


@pytest.mark.parametrize("heading", [*(f"{letter}. " for letter in KINDS), "Worked examples"])
def test_a_row_names_a_test_and_a_code_or_says_that_nothing_is_refused(heading: str) -> None:
    for cells in rows(heading):
        assert "::test_" in cells[-1], cells
        if heading != "Worked examples":
            assert cells[2] != "-" or "*Not refused*" in cells[1], cells


def test_every_code_is_one() -> None:
    linked = re.findall(r"\[([EW]\d{3})\]\(errors\.md#(\w+)-", DOCUMENT)
    assert [code for code, anchor in linked if code.lower() != anchor or code not in CODES] == []
    assert len({code for code, _ in linked}) > len(KINDS)
    plain = set(re.findall(r"`([A-Z]{4,})`", DOCUMENT))
    assert plain <= set(INSTALLER_CODES)


def test_every_test_is_collected() -> None:
    """A function at the top of a module under `tests/` is, where both names begin as pytest wants them."""
    named = re.findall(r"`(tests/(?:\w+/)*test_\w+\.py)::(test_\w+)`", DOCUMENT)
    assert len(named) == DOCUMENT.count("::test_") > EXAMPLES
    for file in sorted({file for file, _ in named}):
        tree = ast.parse((ROOT / file).read_bytes())
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert {name for other, name in named if other == file} - there == set(), file
