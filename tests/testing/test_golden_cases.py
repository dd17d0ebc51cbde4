"""The golden test helper: what it accepts, what it refuses and how that reads, alone and in pytest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.testing import GoldenMismatch, golden_cases
from orchestrator.testing.shapes import SHAPES, by_tabs, by_two, crlf, marked
from tests.workspaces import CODE, LIMIT_STAGE, ROOT, Workspace

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["as written", "again", *(shape.name for shape in SHAPES)]
AFTER = CODE.replace("LIMIT = 4", "LIMIT = 8")
INSERT = """\
  - id: insert
    kind: codemod
    summary: Insert a block.
    edits:
      - op: insert
        file: pkg/a.py
        within: first
        before: return y
        code: |
          if y:
              y = max(
                  y, 1)
    post:
      - {check: match_count, file: pkg/a.py, pattern: "max(y, 1)", equals: 1}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    golden(made, "limit", CODE, AFTER)
    return made


def golden(workspace: Workspace, stage: str, before: str, after: str) -> None:
    workspace.write(f"tests/golden/{stage}/before/pkg/a.py", before)
    workspace.write(f"tests/golden/{stage}/after/pkg/a.py", after)


def failures(workspace: Workspace) -> dict[str, str]:
    """Return what each case that fails says."""
    found = {}
    for case in golden_cases(workspace.folder):
        try:
            case.check()
        except GoldenMismatch as error:
            found[str(case)] = str(error)
    return found


def test_a_stage_has_a_case_for_each_shape_and_all_hold(workspace: Workspace) -> None:
    assert list(map(str, golden_cases(workspace.folder))) == [f"limit-{name}" for name in NAMES]
    assert failures(workspace) == {}


def test_code_that_an_edit_brings_is_indented_as_the_file_is(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, INSERT)
    after = CODE.replace("    return y", "    if y:\n        y = max(\n            y, 1)\n    return y")
    golden(workspace, "insert", CODE, after)
    assert failures(workspace) == {}


def test_a_wrong_line_is_shown_as_a_difference_in_every_shape(workspace: Workspace) -> None:
    golden(workspace, "limit", CODE, AFTER.replace("8", "9"))
    found = failures(workspace)
    assert set(found) == {f"limit-{name}" for name in NAMES}
    assert found["limit-as written"] == (
        "limit-as written: not what after/ says\n"
        "--- after/pkg/a.py\n+++ made/pkg/a.py\n@@ -1,6 +1,6 @@\n"
        ' """A module."""\n \n-LIMIT = 9\n+LIMIT = 8\n \n \n def first(x):'
    )
    assert "-LIMIT = 9\\r\n+LIMIT = 8\\r\n" in found["limit-CRLF"]


def test_a_missing_line_end_and_a_byte_order_mark_can_be_seen(workspace: Workspace) -> None:
    golden(workspace, "limit", CODE, AFTER.removesuffix("\n"))
    assert "raise NotImplementedError()\\ no line end" in failures(workspace)["limit-as written"]
    golden(workspace, "limit", CODE, f"\ufeff{AFTER}")
    assert '-\\ufeff"""A module."""' in failures(workspace)["limit-as written"]


def test_a_file_too_many_or_too_few_is_named(workspace: Workspace) -> None:
    workspace.write("tests/golden/limit/after/pkg/b.py", "")
    assert "pkg/b.py is in after/, and was not made" in failures(workspace)["limit-as written"]
    (workspace.folder / "tests/golden/limit/after/pkg/b.py").unlink()
    (workspace.folder / "tests/golden/limit/after/pkg/a.py").unlink()
    assert "pkg/a.py was made, and after/ does not have it" in failures(workspace)["limit-as written"]


def test_a_stage_that_does_not_apply_shows_the_diagnostic_with_its_frame(workspace: Workspace) -> None:
    golden(workspace, "limit", CODE.replace("LIMIT", "OTHER"), AFTER)
    said = failures(workspace)["limit-as written"]
    assert said.startswith("limit-as written: the stage is failed\nerror[E403]: nothing is assigned to `LIMIT` here")
    assert "| " in said


def test_a_folder_that_names_no_stage_is_told_with_what_may_be_meant(workspace: Workspace) -> None:
    golden(workspace, "limits", CODE, AFTER)
    assert "did you mean 'limit'?" in failures(workspace)["limits-as written"]


def test_an_empty_folder_and_none_at_all_are_told(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.folder / "tests/golden/limit2").mkdir()
    workspace.pipeline(LIMIT_STAGE.replace("id: limit", "id: limit2"))
    assert "has neither files in before/ nor in after/" in failures(workspace)["limit2-as written"]
    with pytest.raises(GoldenMismatch, match="there is no folder"):
        golden_cases(tmp_path)


def test_a_pipeline_that_is_not_valid_shows_why(workspace: Workspace) -> None:
    workspace.pipeline("  - id: limit\n")
    assert "error[E111]: key 'kind' is missing" in failures(workspace)["limit-as written"]


def test_a_before_that_has_the_change_already_is_told(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path, LIMIT_STAGE.replace("${params.limit}", "8"))
    golden(workspace, "limit", AFTER, AFTER)
    said = failures(workspace)
    assert said["limit-as written"].startswith("limit-as written: the stage is already applied")


def test_shapes_change_code_and_never_what_it_means() -> None:
    text = 'def f(x):\n    """A\n    text."""\n    if x:\n        return (x,\n                1)\n'
    assert by_tabs(text.encode()) == b'def f(x):\n\t"""A\n    text."""\n\tif x:\n\t\treturn (x,\n\t\t        1)\n'
    assert by_two(text.encode()) == b'def f(x):\n  """A\n    text."""\n  if x:\n    return (x,\n            1)\n'
    assert crlf(b"a\r\n") is None
    assert marked(b"\xef\xbb\xbfa\n") is None
    assert marked(b"# coding: latin-1\n") is None
    assert by_tabs(b"\xff") is None
    assert by_tabs(b"def f(:\n") is None


# --- in pytest ---


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "orchestrator.testing.plugin",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "150"}
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, env=environment, check=False)


TEST = "def test_a_golden_stage(golden_case):\n    golden_case.check()\n"


def test_a_test_that_asks_gets_every_case_and_another_gets_none(workspace: Workspace) -> None:
    workspace.write("pytest.ini", "[pytest]\n")
    workspace.write("tests/test_stages.py", TEST + "\n\ndef test_other():\n    pass\n")
    done = run_pytest(workspace.folder, "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"test_a_golden_stage[limit-{name}] PASSED" in done.stdout for name in NAMES)
    assert f"{len(NAMES) + 1} passed" in done.stdout


def test_a_failure_shows_the_difference_and_not_our_own_code(workspace: Workspace) -> None:
    golden(workspace, "limit", CODE, AFTER.replace("8", "9"))
    workspace.write("pytest.ini", "[pytest]\n")
    workspace.write("tests/test_stages.py", TEST)
    done = run_pytest(workspace.folder, "-k", "again")
    assert done.returncode == 1
    assert re.search(r"^E +-LIMIT = 9$", done.stdout, re.MULTILINE)
    assert re.search(r"^E +\+LIMIT = 8$", done.stdout, re.MULTILINE)
    assert "def _check" not in done.stdout


def test_the_workspace_and_its_golden_folders_can_be_elsewhere(workspace: Workspace) -> None:
    (workspace.folder / "tests").rename(workspace.folder / "t")
    top = workspace.folder.parent
    (top / "pytest.ini").write_text("[pytest]\norchestrator_workspace = workspace\norchestrator_golden = t/golden\n")
    (top / "test_stages.py").write_text(TEST)
    assert run_pytest(top, "test_stages.py").returncode == 0
    (top / "pytest.ini").write_text("[pytest]\norchestrator_workspace = nowhere\n")
    done = run_pytest(top, "test_stages.py")
    assert done.returncode != 0
    assert "there is no folder" in done.stdout + done.stderr


def test_a_golden_folder_without_a_stage_does_not_pass(workspace: Workspace) -> None:
    golden_folder = workspace.folder / "tests/golden"
    known = golden_cases(workspace.folder)
    (golden_folder / "__pycache__").mkdir()
    assert golden_cases(workspace.folder) == known
    shutil.rmtree(golden_folder)
    (golden_folder / "__pycache__").mkdir(parents=True)
    with pytest.raises(GoldenMismatch, match=r"there is no golden stage in .*: make tests/golden/STAGE/before/"):
        golden_cases(workspace.folder)


def test_the_helper_is_imported_without_pytest() -> None:
    program = "import sys, orchestrator.testing, orchestrator.testing.plugin; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
