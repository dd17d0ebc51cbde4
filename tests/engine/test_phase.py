"""What a build may not write: what is mounted at run time, and a package's `__init__.py` that no stage declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workspaces import LIMIT_STAGE, TARGET, Workspace, faults, replaced

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY = (
    "  - id: more\n    kind: codemod\n    summary: Bring a file.\n    deploy:\n"
    "      - {source: k.py, to: TARGET}\n    waive:\n      - {rule: E513, because: a test}\n"
)
EDIT = replaced(replaced(LIMIT_STAGE, "pkg/a.py", "pkg/__init__.py"), "pkg/a.py", "pkg/__init__.py")
DECLARED = "    waive:\n      - {rule: E506, about: PACKAGE, because: there is no other place}\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path)
    made.write("k.py", "K = 1\n")
    return made


@pytest.mark.parametrize("name", ["validate", "plan", "render"])
@pytest.mark.parametrize("kind", ["edit", "deploy"])
def test_a_target_under_a_runtime_mount_is_refused_before_any_tree(workspace: Workspace, name: str, kind: str) -> None:
    path = "/model/tokenizer_config.json"
    edit = replaced(LIMIT_STAGE, "file: pkg/a.py", f"file: {path}")
    workspace.pipeline(edit if kind == "edit" else DEPLOY.replace("TARGET", path))
    ended = workspace.run(name, "--json")
    assert ended.code == 3
    assert [fault.partition(" ")[0] for fault in faults(ended)] == ["E505"]
    assert "runtime mount /model" in faults(ended)[0]


@pytest.mark.parametrize("mount", ["/opt/lib/pkg", "/opt", "/opt/lib/pkg/a.py"])
def test_a_package_below_a_mount_is_refused_in_the_run(workspace: Workspace, mount: str) -> None:
    workspace.write("target.yaml", replaced(TARGET, "mounts: [/model]", f"mounts: [{mount}]"))
    ended = workspace.run("plan", "--json")
    assert (ended.code, [fault.partition(" ")[0] for fault in faults(ended)]) == (5, ["E505"])


def test_a_write_to_a_package_file_is_refused_unless_the_stage_declares_it(workspace: Workspace) -> None:
    workspace.base({"__init__.py": "LIMIT = 4\n\n\ndef limit():\n    return LIMIT\n"})
    workspace.pipeline(EDIT)
    ended = workspace.run("render", "--json")
    assert (ended.code, [fault.partition(" ")[0] for fault in faults(ended)]) == (5, ["E506"])
    assert not (workspace.folder / "build").exists()
    workspace.pipeline(EDIT + DECLARED.replace("PACKAGE", "pkg.other"))
    assert workspace.run("render").code == 5
    workspace.pipeline(EDIT + DECLARED.replace("PACKAGE", "pkg"))
    assert workspace.run("render").code == 0


@pytest.mark.parametrize(
    ("to", "refused"),
    [
        ("pkg/new/__init__.py", False),  # a package that the run itself brings
        ("pkg/__init__.py", True),
        ("pkg/old/__init__.py", True),  # a folder without one, which other code imports from as it is
        ("pkg/old/init.py", False),
    ],
)
def test_a_deployed_package_file_is_refused_where_the_package_was_there(
    workspace: Workspace, to: str, *, refused: bool
) -> None:
    workspace.base({"old/m.py": "M = 1\n"})
    stage = DEPLOY.replace("TARGET", f"{to}, replaces: a test" if to == "pkg/__init__.py" else to)
    workspace.pipeline(stage)
    ended = workspace.run("plan", "--json")
    assert ("E506" in [fault.partition(" ")[0] for fault in faults(ended)]) == refused
    declared = DECLARED.replace("    waive:\n", "").replace(
        "PACKAGE", to.removesuffix("/__init__.py").replace("/", ".")
    )
    workspace.pipeline(stage + declared)
    ended = workspace.run("plan", "--json")
    assert (ended.code, faults(ended)) == (0, [])


def test_a_patched_tree_is_not_refused_for_what_was_declared_before(workspace: Workspace) -> None:
    workspace.base({"__init__.py": "LIMIT = 4\n\n\ndef limit():\n    return LIMIT\n"})
    workspace.pipeline(EDIT + DECLARED.replace("PACKAGE", "pkg"))
    assert workspace.run("lock").code == 0
    assert workspace.run("render").code == 0
    workspace.base({"__init__.py": workspace.built()["patchset/overlay/pkg/__init__.py"]})
    assert workspace.run("plan").code == 0
