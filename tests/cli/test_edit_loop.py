"""The loop that a user is in: change the pipeline, render, and see just that in build/, in diff and in the audit."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.workspaces import HEAD, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

STAGES = """\
  - id: limit
    kind: codemod
    summary: Raise the limit.
    edits:
      - {op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
    post:
      - {check: assignment_equals, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
  - id: first
    kind: codemod
    summary: Turn it round.
    edits:
      - {op: replace, file: pkg/a.py, within: first, match: return y, with: return -y}
    post:
      - {check: match_count, file: pkg/a.py, within: first, pattern: return -y, equals: 1}
  - id: bring
    kind: codemod
    summary: Bring a module.
    deploy:
      - {source: k.py, to: pkg/k.py}
    post:
      - {check: file_exists, file: pkg/k.py}
    waive:
      - {rule: E513, because: nothing here imports it}
"""
ALWAYS = {"audit.jsonl", "patchset/audit.jsonl", "patchset/manifest.json", "Dockerfile", "report.html", "report.md"}
"""Log, manifest and reports name every digest, and the Dockerfile carries the patch set's as a label."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, STAGES)
    made.write("k.py", "K = 1\n")
    assert made.run("render").code == 0
    return made


def rerendered(workspace: Workspace, stages: str = STAGES, head: str = HEAD) -> tuple[set[str], set[str]]:
    """Render the changed pipeline; return the files of build/ that differ, and the stages whose records do."""
    before = workspace.built()
    workspace.pipeline(stages, head)
    assert workspace.run("render").code == 0
    assert workspace.run("audit").code == 0
    after = workspace.built()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    old, new = records(before), records(after)
    return changed - ALWAYS, {id_ for id_ in old.keys() | new.keys() if old.get(id_) != new.get(id_)}


def records(built: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    """Return what the audit says of each stage, without its place in the chain."""
    found = [json.loads(line) for line in built["audit.jsonl"].splitlines()]
    chain = {"number", "previous", "digest"}
    return {r["stage"]: {k: v for k, v in r.items() if k not in chain} for r in found if r["event"] == "stage"}


def test_rendering_the_same_again_changes_nothing_but_the_log(workspace: Workspace) -> None:
    before = workspace.built()
    changed, stages = rerendered(workspace)
    assert (changed, stages) == (set(), set())
    after = workspace.built()
    assert {name for name in ALWAYS if before[name] != after[name]} <= {"audit.jsonl"}


def test_a_changed_parameter_shows_in_its_stage_and_nowhere_else(workspace: Workspace) -> None:
    before = workspace.built()["patches/01-limit.patch"]
    changed, stages = rerendered(workspace, head=replaced(HEAD, "limit: 8", "limit: 16"))
    # The file is one, so the patch of the stage after it has other lines around its own.
    assert changed == {"patches/01-limit.patch", "patchset/overlay/pkg/a.py"}
    assert stages == {"limit", "first"}
    built = workspace.built()
    assert built["patches/01-limit.patch"] == before.replace(b"+LIMIT = 8\n", b"+LIMIT = 16\n")
    assert b"LIMIT = 16\n" in built["patchset/overlay/pkg/a.py"]
    assert b"+LIMIT = 16\n" in workspace.run("diff", "limit").out.encode()
    moved = records(built)["first"]
    assert [file["path"] for file in moved["files"]] == ["pkg/a.py"]
    assert [d["definition"] for d in moved["definitions"]] == ["pkg/a.py:first"]


def test_a_new_edit_shows_in_its_stage_and_nowhere_else(workspace: Workspace) -> None:
    edit = "\n      - {op: import, file: pkg/k.py, code: import os}"
    more = (
        "  - id: more\n    kind: codemod\n    summary: Import more.\n    needs: [bring]\n    edits:" + edit + "\n"
        "    post:\n      - {check: symbol_exists, file: pkg/k.py, name: os}\n"
    )
    changed, stages = rerendered(workspace, STAGES + more)
    assert changed == {"patches/04-more.patch", "patchset/overlay/pkg/k.py"}
    # What brought the file is judged again at the end, and sees the larger one.
    assert stages == {"bring", "more"}
    assert workspace.run("diff", "--stat").out == (
        "limit\n  pkg/a.py | +1 -1\nfirst\n  pkg/a.py | +1 -1\nbring\n  pkg/k.py | +1 -0\nmore\n  pkg/k.py | +1 -0\n"
    )


def test_a_stage_that_is_switched_off_goes_and_nothing_else_does(workspace: Workspace) -> None:
    off = replaced(STAGES, "    deploy:", "    enabled: false\n    deploy:")
    changed, stages = rerendered(workspace, off)
    assert changed == {"patches/03-bring.patch", "patchset/overlay/pkg/k.py"}
    assert stages == {"bring"}
    built = workspace.built()
    assert "patches/03-bring.patch" not in built
    assert "patchset/overlay/pkg/k.py" not in built
    assert (records(built)["bring"]["outcome"], records(built)["bring"]["reason"]) == ("skipped", "enabled: false")
    assert workspace.run("diff", "bring").out == ""
    again, _ = rerendered(workspace, STAGES)
    assert again == changed


def test_a_changed_source_shows_in_the_stage_that_deploys_it(workspace: Workspace) -> None:
    workspace.write("k.py", "K = 2\n")
    changed, stages = rerendered(workspace)
    assert changed == {"patches/03-bring.patch", "patchset/overlay/pkg/k.py"}
    assert stages == {"bring"}


def test_a_changed_summary_changes_the_record_and_not_the_image(workspace: Workspace) -> None:
    before = workspace.built()
    changed, stages = rerendered(workspace, replaced(STAGES, "Raise the limit.", "Lift it."))
    assert (changed, stages) == (set(), {"limit"})
    assert workspace.built()["Dockerfile"] == before["Dockerfile"]


def test_all_patches_in_order_make_the_overlay(workspace: Workspace) -> None:
    top = workspace.package.parent
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    for patch in sorted((workspace.folder / "build" / "patches").iterdir()):
        subprocess.run(["git", "apply", str(patch)], cwd=top, check=True)
    built = workspace.built()
    overlay = {name.removeprefix("patchset/overlay/"): content for name, content in built.items() if "overlay" in name}
    assert {path: content for path, content in workspace.tree().items() if path in overlay} == overlay
    assert set(overlay) == {"pkg/a.py", "pkg/k.py"}
