"""Stages with wheels through the whole program: found, pinned, laid over the tree, edited, rendered, recognised."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.core.digest import digest
from orchestrator.core.tree import Tree
from tests.origin.test_sdist import sdist
from tests.wheels import wheel, wheel_file
from tests.workspaces import LIMIT_STAGE, TARGET, Workspace, faults, replaced

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NEW = {
    "demo/__init__.py": b"VALUE = 'new'\n",
    "demo/auto.py": b"NAMES = ['new']\nprint(NAMES)\n",
    "demo/data.txt": b"1\n",
    "demo/big.py": b"\n",
}
OLD = {
    "demo/__init__.py": b"VALUE = 'old'\n",
    "demo/auto.py": b"NAMES = ['old']\nprint(NAMES)\n",
    "demo/gone.py": b"\n",
}
WHEEL = wheel("demo", "2.0", NEW)
FILE = wheel_file("demo", "2.0")
WITH_ROOT = replaced(TARGET, "roots: {pkg: [/opt/lib/pkg]}", "roots: {pkg: [/opt/lib/pkg], demo: [/opt/lib/demo]}")
PIN = """\
  - id: pin
    kind: codemod
    summary: The release that is needed.
    wheels:
      - {requirement: demo==2.0, replaces: "1.0"}
    post:
      - {check: assignment_equals, file: demo/__init__.py, name: VALUE, value: "'new'"}
"""
NAMES = """\
  - id: names
    kind: codemod
    needs: [pin]
    summary: Name one more.
    edits:
      - {op: assign, file: demo/auto.py, name: NAMES, from: "['new']", value: "['new', 'ours']"}
    post:
      - {check: assignment_equals, file: demo/auto.py, name: NAMES, value: "['new', 'ours']"}
"""
EDITED = b"NAMES = ['new', 'ours']\nprint(NAMES)\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace with a wheel in its folder, a stage that brings it, and one that edits what it brings."""
    monkeypatch.setenv("ORCHESTRATOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    made = Workspace.at(tmp_path, LIMIT_STAGE + PIN + NAMES)
    made.write("target.yaml", WITH_ROOT)
    made.write(f"wheels/{FILE}", WHEEL)
    return made


def outcomes(workspace: Workspace, *arguments: str) -> dict[str, str]:
    ended = workspace.run("plan", "--json", *arguments)
    assert ended.code == 0, ended.err
    return {r["stage"]: r["outcome"] for r in ended.records() if r["event"] == "stage"}


def refused(workspace: Workspace, name: str, code: int, *arguments: str) -> str:
    ended = workspace.run(name, "--json", *arguments)
    assert ended.code == code, ended.err
    return "\n".join(faults(ended))


def lay(folder: Path, files: Mapping[str, bytes]) -> str:
    """Write the package `demo` below a folder and return the option that hands it over."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return f"demo={folder / 'demo'}"


def manifest_of(workspace: Workspace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(workspace.built()["patchset/manifest.json"])
    return found


# --- a run ---


def test_what_a_wheel_brings_is_what_later_stages_edit(workspace: Workspace) -> None:
    assert workspace.run("render").code == 0
    built = workspace.built()
    assert built[f"patchset/wheels/{FILE}"] == WHEEL
    assert {path for path in built if path.startswith("patchset/overlay/demo")} == {"patchset/overlay/demo/auto.py"}
    assert built["patchset/overlay/demo/auto.py"] == EDITED
    manifest = manifest_of(workspace)
    assert manifest["wheels"] == [
        {
            "stage": "pin",
            "name": "demo",
            "version": "2.0",
            "file": FILE,
            "sha256": digest(WHEEL),
            "before": "1.0",
            "roots": ["demo"],
        }
    ]
    (entry,) = [e for e in manifest["files"] if e["root"] == "demo"]
    assert (entry["path"], entry["before"]) == ("auto.py", digest(NEW["demo/auto.py"])), "the original is the wheel's"


def test_the_audit_names_the_wheel_and_notices_another(workspace: Workspace) -> None:
    assert workspace.run("render").code == 0
    records = [json.loads(line) for line in workspace.built()["audit.jsonl"].splitlines()]
    (pin,) = [r for r in records if r.get("stage") == "pin"]
    assert pin["wheels"] == [
        {"name": "demo", "version": "2.0", "file": FILE, "sha256": digest(WHEEL), "replaces": "1.0"}
    ]
    assert records[-2]["files"] == 2, "files of the package are not counted as changed because a wheel has them"
    workspace.write(f"build/patchset/wheels/{FILE}", b"other")
    assert f"patchset/wheels/{FILE}" in workspace.run("audit").err


def test_an_older_package_in_the_tree_is_replaced_as_a_whole(workspace: Workspace, tmp_path: Path) -> None:
    old = lay(tmp_path / "old", OLD)
    arguments = ("--tree", f"pkg={workspace.package}", "--tree", old)
    assert outcomes(workspace, *arguments)["pin"] == "applied (unlocked)"
    assert workspace.run("render", *arguments).code == 0
    assert [e["path"] for e in manifest_of(workspace)["files"] if e["root"] == "demo"] == ["auto.py"]


@pytest.mark.parametrize(
    ("files", "pin", "names"),
    [
        (NEW, "already applied", "applied (unlocked)"),
        ({**NEW, "demo/auto.py": EDITED}, "already applied", "already applied"),
        ({**NEW, "demo/data.txt": b"2\n"}, "applied (unlocked)", "applied (unlocked)"),
        ({**NEW, "demo/more.py": b"\n"}, "applied (unlocked)", "applied (unlocked)"),
    ],
    ids=["the wheel's own", "patched", "another build", "with a stranger"],
)
def test_the_state_is_read_off_the_tree(
    workspace: Workspace, tmp_path: Path, files: Mapping[str, bytes], pin: str, names: str
) -> None:
    found = outcomes(workspace, "--tree", f"pkg={workspace.package}", "--tree", lay(tmp_path / "other", files))
    assert (found["pin"], found["names"]) == (pin, names)


def test_verify_says_no_before_and_yes_after(workspace: Workspace, tmp_path: Path) -> None:
    assert workspace.run("verify").code == 4
    assert workspace.run("render").code == 0
    done = lay(tmp_path / "done", {**NEW, "demo/auto.py": EDITED})
    workspace.base({"a.py": workspace.built()["patchset/overlay/pkg/a.py"]})
    arguments = ("--tree", f"pkg={workspace.package}", "--tree", done)
    assert workspace.run("verify", *arguments).code == 0
    assert workspace.run("diff", *arguments).out.strip() == ""


def test_a_stage_that_is_off_brings_nothing_and_still_claims_its_wheel(workspace: Workspace) -> None:
    workspace.pipeline(LIMIT_STAGE + PIN.replace("kind:", "enabled: false\n    kind:", 1) + NAMES)
    assert workspace.run("render").code == 0
    assert not any("wheels" in path for path in workspace.built())
    assert manifest_of(workspace)["wheels"] == []
    assert outcomes(workspace) == {"limit": "applied (unlocked)", "pin": "skipped", "names": "skipped"}


def test_a_wheel_may_be_named_by_its_file(workspace: Workspace) -> None:
    workspace.write(f"mine/{FILE}", WHEEL)
    workspace.pipeline(PIN.replace('requirement: demo==2.0, replaces: "1.0"', f"source: mine/{FILE}"))
    (workspace.folder / "wheels" / FILE).unlink()
    assert workspace.run("render").code == 0
    assert manifest_of(workspace)["wheels"][0]["before"] is None


# --- where it comes from ---


def test_what_is_in_the_workspace_goes_before_the_index(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / FILE).write_bytes(wheel("demo", "2.0", {**NEW, "demo/data.txt": b"of the index\n"}))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    assert workspace.run("render").code == 0
    assert workspace.built()[f"patchset/wheels/{FILE}"] == WHEEL


def test_from_an_index_it_is_cached_and_then_had_offline(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.folder / "wheels" / FILE).rename(tmp_path / FILE)
    assert "E301" in refused(workspace, "plan", 3, "--offline")
    assert "E303" in refused(workspace, "plan", 3)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert workspace.run("plan").code == 0
    (tmp_path / FILE).unlink()
    assert workspace.run("plan", "--offline").code == 0


def test_one_that_no_stage_names_is_refused_by_name(workspace: Workspace) -> None:
    workspace.write(f"wheels/{wheel_file('other', '1.0')}", wheel("other", "1.0", {}))
    assert "E311 wheels/other-1.0-py3-none-any.whl" in refused(workspace, "render", 3)


# --- the lock ---


def test_the_lock_pins_it_and_a_changed_one_is_refused_until_it_is_blessed(workspace: Workspace) -> None:
    assert workspace.run("lock").code == 0
    lock = json.loads((workspace.folder / "pipeline.lock").read_bytes())
    assert lock["inputs"] == {"wheel demo==2.0": digest(WHEEL)}
    assert workspace.run("render", "--locked").code == 0
    before = workspace.built()
    workspace.write(f"wheels/{FILE}", wheel("demo", "2.0", {**NEW, "demo/data.txt": b"2\n"}))
    assert f"E302 wheels/{FILE}" in refused(workspace, "render", 6)
    assert workspace.built() == before
    blessed = workspace.run("lock")
    assert blessed.code == 0
    assert "input wheel demo==2.0" in blessed.out
    assert workspace.run("render", "--locked").code == 0


def test_one_that_the_lock_does_not_hold_is_said_and_under_locked_refused(workspace: Workspace) -> None:
    workspace.pipeline(LIMIT_STAGE)
    (workspace.folder / "wheels" / FILE).unlink()
    assert workspace.run("lock").code == 0
    workspace.pipeline(LIMIT_STAGE + PIN)
    workspace.write(f"wheels/{FILE}", WHEEL)
    assert "input wheel demo==2.0 is not the one in the lock" in workspace.run("render").err
    assert "E602" in refused(workspace, "render", 6, "--locked")


# --- what cannot be ---

TWICE = PIN.replace("id: pin", "id: again")
EARLY = NAMES.replace("needs: [pin]", "needs: [limit]").replace("['new']\"", "['old']\"")
WRONG = {
    "the same twice in one stage": (
        PIN.replace("    post:", "      - {requirement: Demo==3.0}\n    post:"), 3, "E240 pipeline.yaml", "two wheels"
    ),
    "the same in two stages": (PIN + TWICE, 3, "E240", "stage 'pin' has one as well"),
    "neither name nor file": (PIN.replace("requirement: demo==2.0, ", ""), 3, "E114", "`requirement` or by `source`"),
    "both": (PIN.replace("requirement:", f"source: wheels/{FILE}, requirement:"), 3, "E114", "one of them"),
    "no version": (PIN.replace("demo==2.0", "demo"), 3, "E1", "requirement"),
    "a version that is none": (PIN.replace("demo==2.0", "demo==new"), 3, "E240", "'new' is not a version"),
    "a file of another kind": (
        PIN.replace("requirement: demo==2.0", "source: wheels/demo.zip"), 3, "E240", "is not the name of a wheel"
    ),
    "a file that is not there": (
        PIN.replace("requirement: demo==2.0", "source: wheels/demo-2.1-py3-none-any.whl"), 3, "E311", FILE
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_meant_is_refused_with_its_place(workspace: Workspace, case: str) -> None:
    stages, code, *said = WRONG[case]
    workspace.pipeline(LIMIT_STAGE + stages)
    found = refused(workspace, "plan", code)
    assert all(part in found for part in said), found


def test_a_package_that_no_root_declares_is_refused(workspace: Workspace) -> None:
    workspace.write("target.yaml", TARGET)
    workspace.pipeline(LIMIT_STAGE + PIN.partition("    post:")[0])
    assert "E310" in refused(workspace, "plan", 3)


def test_an_edit_before_the_wheel_of_its_package_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    workspace.pipeline(LIMIT_STAGE + EARLY + PIN.replace("kind:", "needs: [names]\n    kind:", 1))
    old = lay(tmp_path / "old", OLD)
    found = refused(workspace, "plan", 4, "--tree", f"pkg={workspace.package}", "--tree", old)
    assert "E419" in found
    assert "add this stage to the needs of 'names'" in found


def test_a_wheel_that_is_in_and_an_edit_of_its_stage_that_is_not_are_a_mix(
    workspace: Workspace, tmp_path: Path
) -> None:
    both = PIN.replace(
        "    post:", NAMES.partition("    edits:")[2].join(["    edits:", ""]).partition("    post:")[0] + "    post:"
    )
    workspace.pipeline(LIMIT_STAGE + both)
    assert outcomes(workspace)["pin"] == "applied (unlocked)"
    there = lay(tmp_path / "there", NEW)
    assert "E413" in refused(workspace, "plan", 4, "--tree", f"pkg={workspace.package}", "--tree", there)


# --- a base of several packages ---

DEMO = """\
  - id: demo
    kind: codemod
    summary: Change one value.
    edits:
      - {op: assign, file: demo/__init__.py, name: VALUE, value: "2"}
    post:
      - {check: assignment_equals, file: demo/__init__.py, name: VALUE, value: "2"}
    waive: [{rule: E506, because: a package of one file}]
"""
SEVERAL = """\
base:
  - {sdist: demo==1.0, package: demo}
  - {supplied: Copy it out of the image.}
"""


def test_each_root_has_its_own_origin_and_a_tree_replaces_only_its_own(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo-1.0.tar.gz").write_bytes(sdist(b"VALUE = 1\nprint(VALUE)\n"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    workspace.write("target.yaml", replaced(WITH_ROOT, "base: {supplied: Copy it out of the image.}\n", SEVERAL))
    workspace.pipeline(LIMIT_STAGE + DEMO)
    (workspace.folder / "wheels" / FILE).unlink()
    assert set(outcomes(workspace).values()) == {"applied (unlocked)"}
    found = refused(workspace, "plan", 4, "--tree", lay(tmp_path / "old", OLD))
    assert "E401" in found
    assert "pkg/a.py is not in the tree" in found, "a root that nobody supplies is absent"


def test_an_origin_that_cannot_be_had_beside_a_tree_is_a_warning_and_its_root_is_absent(workspace: Workspace) -> None:
    workspace.write("target.yaml", replaced(WITH_ROOT, "base: {supplied: Copy it out of the image.}\n", SEVERAL))
    workspace.pipeline(LIMIT_STAGE)
    (workspace.folder / "wheels" / FILE).unlink()
    ended = workspace.run("plan", "--json")
    assert ended.code == 0
    warnings = [r for r in ended.records() if r["event"] == "diagnostic" and r["severity"] == "warning"]
    assert [w["code"] for w in warnings] == ["E303"]
    assert warnings[0]["message"].startswith("not every package root has a tree")


def test_two_sources_for_one_root_are_refused(workspace: Workspace) -> None:
    twice = replaced(SEVERAL, "{supplied: Copy it out of the image.}", "{sdist: other==1.0, package: demo}")
    workspace.write("target.yaml", replaced(WITH_ROOT, "base: {supplied: Copy it out of the image.}\n", twice))
    assert "two source distributions fill the package root 'demo'" in refused(workspace, "validate", 3)


def test_filling_a_root_leaves_every_other_file_as_it_is() -> None:
    tree = Tree({"pkg/a.py": b"1", "demo/old.py": b"2", "demonstration/x.py": b"3"})
    filled = tree.with_roots({"demo": {"demo/new.py": b"4"}})
    assert dict(filled) == {"pkg/a.py": b"1", "demonstration/x.py": b"3", "demo/new.py": b"4"}
    assert tree.with_roots({}) is tree


def test_what_a_wheel_puts_under_a_runtime_mount_is_refused(workspace: Workspace) -> None:
    for mount, hidden in (("/opt/lib/demo", "and 3 more"), ("/opt/lib/demo/data.txt", "/opt/lib/demo/data.txt of")):
        workspace.write("target.yaml", replaced(WITH_ROOT, "mounts: [/model]", f"mounts: [{mount}]"))
        ended = workspace.run("plan", "--json", "--tree", f"pkg={workspace.package}")
        (fault,) = [f for f in faults(ended) if f.startswith("E505") and "of a wheel" in f]
        assert hidden in fault
    workspace.write("target.yaml", replaced(WITH_ROOT, "mounts: [/model]", "mounts: [/opt/lib/other]"))
    ended = workspace.run("plan", "--json", "--tree", f"pkg={workspace.package}")
    assert [f for f in faults(ended) if f.startswith("E505")] == []


def test_a_wheel_under_a_mount_can_be_declared_by_its_stage(workspace: Workspace) -> None:
    workspace.write("target.yaml", replaced(WITH_ROOT, "mounts: [/model]", "mounts: [/opt/lib/demo/data.txt]"))
    workspace.pipeline(PIN + "    waive: [{rule: E505, because: the mount has the same file}]\n" + NAMES)
    assert workspace.run("plan", "--json", "--tree", f"pkg={workspace.package}").code == 0
