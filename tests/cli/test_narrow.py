"""Tables on a terminal of any width: every word is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.test_matrix import CRATE, MATRIX
from tests.repositories import repository
from tests.workspaces import LIMIT_STAGE, TARGET, Workspace, replaced, run_cli

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "plan": ("plan",),
    "cells": ("plan", "--matrix"),
    "render": ("render",),
    "matrix": ("render", "--matrix"),
    "audit": ("audit",),
    "bump": ("bump", "-j1", "--brief"),
    "verify": ("verify",),
    "touched": ("plan", "--touched-by", "HEAD"),
}
BARS = set("━╇┃│")
STAGE = replaced(LIMIT_STAGE, "    summary:", "    claim: Twice as many sequences at once.\n    summary:")


def words(text: str) -> set[str]:
    """Return the words of tables; where there is little room one table may become two, which say the same."""
    return {word for word in text.split() if not set(word) <= BARS}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_word_of_a_table_is_cut_off_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    made = Workspace.at(tmp_path, STAGE, MATRIX)
    made.write("crate.yaml", CRATE)
    repository(made.folder)
    assert made.run("render").code == 0
    made.write("target.yaml", replaced(TARGET, 'numpy: ""', 'numpy: "", torch: ""'))
    arguments = COMMANDS[command]
    tree = ["--tree", f"pkg={made.package}"] if command in {"plan", "render", "bump", "verify"} else []
    shown = []
    for width in ("500", "80", "20"):
        monkeypatch.setenv("COLUMNS", width)
        ended = run_cli(*arguments, *tree, cwd=made.folder)
        assert ended.out, ended.err
        shown.append(words(ended.out))
    assert shown[1] == shown[0]
    assert shown[2] == shown[0]


@pytest.mark.parametrize("width", ["", "0", "-1", "wide", "1e3"])
def test_a_width_that_is_none_is_as_if_none_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    made = Workspace.at(tmp_path, STAGE)
    tree = ("--tree", f"pkg={made.package}")
    monkeypatch.delenv("COLUMNS", raising=False)
    expected = made.run("plan", *tree)
    monkeypatch.setenv("COLUMNS", width)
    assert (expected.code, made.run("plan", *tree)) == (0, expected)
