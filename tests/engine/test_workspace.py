"""Findings about a workspace: copies that no stage uses, forgotten files, sources that git does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.repositories import commit, repository
from tests.workspaces import HEAD, LIMIT_STAGE, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workspaces import Ended

BODY = "".join(f"def step_{n}(x):\n    return x * {n} + {n * n}\n\n\n" for n in range(30))
DEPLOY = (
    "  - id: kernel\n    kind: codemod\n    summary: Bring the kernel.\n    enabled: {on}\n"
    "    deploy:\n      - {{source: kernels/attn.py, to: pkg/ops/attn.py}}\n"
)


def found(ended: Ended) -> list[tuple[str, str]]:
    """Return severity with code, and the path that each finding about the workspace names first."""
    return [
        (f"{record['severity']} {record['code']}", record["message"].split("'")[1])
        for record in ended.records()
        if record["event"] == "diagnostic" and record["code"] in {"E140", "W141", "E142", "W142"}
    ]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, LIMIT_STAGE + DEPLOY.format(on="true"))
    made.write("kernels/attn.py", BODY)
    return made


def validated(workspace: Workspace, *arguments: str) -> list[tuple[str, str]]:
    return found(workspace.run("validate", "--json", *arguments))


def test_a_workspace_of_which_all_is_used_is_silent(workspace: Workspace) -> None:
    workspace.write("kernels/README.md", "What lies here.\n")
    workspace.write("kernels/__init__.py", "")
    workspace.write("notes.py", "print('something else')\n")
    assert validated(workspace) == []


@pytest.mark.parametrize("on", ["true", "false"])
def test_of_three_copies_the_two_that_no_stage_claims_are_errors(workspace: Workspace, on: str) -> None:
    workspace.pipeline(LIMIT_STAGE + DEPLOY.format(on=on))
    workspace.write("attn.py", BODY)
    workspace.write("old/attn.py", replaced(BODY, "x * 3 ", "x * 33 "))
    ended = workspace.run("validate", "--json")
    assert found(ended) == [("error E140", "attn.py"), ("error E140", "old/attn.py")]
    assert ended.code == 3


@pytest.mark.parametrize("name", ["plan", "render", "lock"])
def test_the_other_commands_refuse_a_copy_too_and_write_nothing(workspace: Workspace, name: str) -> None:
    workspace.write("old/ops/attn.py", "")
    ended = workspace.run(name, "--json")
    assert (ended.code, found(ended)) == (3, [("error E140", "old/ops/attn.py")])
    assert not {"build", "pipeline.lock"} & {path.name for path in workspace.folder.iterdir()}


@pytest.mark.parametrize(
    ("path", "body", "reported"),
    [
        ("backup/pkg/a.py", "LIMIT = 8\n", True),  # mirrors a file that a stage edits
        ("pkg/a.py", "", True),
        ("deep/er/ops/attn.py", "", True),  # mirrors the place to which one is deployed
        ("ops/attn.txt", "", False),
        ("other/a.py", "LIMIT = 8\n", False),
        ("a.py", "LIMIT = 8\n", False),
        ("copy/whatever.py", BODY, True),
        ("copy/whatever.py", BODY.replace("\n", "\r\n").replace("    ", "\t"), True),
        ("copy/whatever.py", replaced(BODY, "x * 7 ", "x * 8 "), True),
        ("copy/whatever.py", BODY[: len(BODY) // 2], False),
        ("copy/whatever.txt", BODY, False),
        ("copy/attn.py", BODY[: len(BODY) * 2 // 3], True),  # the same name, so a likeness of half is enough
        ("copy/attn.py.bak", BODY, True),  # still a copy under the names that editors and people keep one
        ("copy/attn.py~", BODY, True),
        ("copy/attn.py.old.2", BODY, True),
        ("copy/attn.py", "print('another program')\n", False),
        ("tests/ops/attn.py", BODY, False),
        ("examples/ops/attn.py", BODY, False),
        ("deep/tests/pkg/a.py", BODY, False),
        ("build/ops/attn.py", BODY, False),
        (".hidden/ops/attn.py", BODY, False),
    ],
)
def test_a_copy_is_known_by_its_place_or_its_body(
    workspace: Workspace, path: str, body: str, *, reported: bool
) -> None:
    workspace.write(path, body)
    assert validated(workspace) == ([("error E140", path)] if reported else [])


def test_small_files_are_copies_only_under_one_name(workspace: Workspace) -> None:
    workspace.write("kernels/attn.py", "K = 1\n")
    workspace.write("copy/attn.py", "K = 1\n")
    workspace.write("copy/other.py", "K = 1\n")
    assert validated(workspace) == [("error E140", "copy/attn.py")]


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "audit.jsonl", "pipeline.yaml", ".git/HEAD"])
def test_environments_builds_and_other_workspaces_are_nobody_s_copies(workspace: Workspace, mark: str) -> None:
    workspace.write("elsewhere/ops/attn.py", BODY)
    assert validated(workspace) == [("error E140", "elsewhere/ops/attn.py")]
    workspace.write(f"elsewhere/{mark}", "")
    assert validated(workspace) == []


def test_a_tree_that_is_handed_over_is_no_copy(workspace: Workspace) -> None:
    workspace.write("vendor/pkg/__init__.py", "")
    workspace.write("vendor/pkg/a.py", (workspace.package / "a.py").read_bytes())
    tree = f"pkg={workspace.folder / 'vendor' / 'pkg'}"
    assert found(workspace.run("plan", "--json", "--tree", tree)) == []
    assert validated(workspace) == [("error E140", "vendor/pkg/a.py")]


def test_a_link_is_no_copy_and_what_it_leads_to_is_used(workspace: Workspace) -> None:
    workspace.write("shared/attn.py", BODY)
    (workspace.folder / "kernels" / "attn.py").unlink()
    (workspace.folder / "kernels" / "attn.py").symlink_to("../shared/attn.py")
    assert validated(workspace) == []


# --- files that nothing uses ---


@pytest.mark.parametrize("path", ["kernels/loose.py", "stages/loose.py", "templates/loose.j2", "kernels/deep/x.cu"])
def test_a_file_that_nothing_uses_is_a_warning(workspace: Workspace, path: str) -> None:
    workspace.write(path, "nothing like the rest\n")
    ended = workspace.run("validate", "--json")
    assert (found(ended), ended.code) == ([("warning W141", path)], 0)


def test_a_file_beside_deployed_ones_is_looked_at_wherever_they_lie(workspace: Workspace) -> None:
    workspace.pipeline(LIMIT_STAGE + DEPLOY.format(on="true").replace("kernels/", "mine/"))
    workspace.write("mine/attn.py", BODY)
    for path in ("mine/loose.py", "mine/notes.txt", "mine/deeper/x.py", "top.py"):
        workspace.write(path, "print('loose')\n")
    (workspace.folder / "kernels" / "attn.py").unlink()
    assert validated(workspace) == [("warning W141", "mine/loose.py")]


@pytest.mark.parametrize(
    "line", ["from .part import f", "from . import part", "import kernels.part", "from kernels import part"]
)
def test_a_module_that_a_used_one_imports_is_used(workspace: Workspace, line: str) -> None:
    workspace.write("kernels/attn.py", f"{line}\n{BODY}")
    workspace.write("kernels/part.py", "from .further import g\nf = g\n")
    workspace.write("kernels/further.py", "g = 1\n")
    assert validated(workspace) == []


def test_a_template_that_a_used_one_includes_is_used(workspace: Workspace) -> None:
    workspace.write("templates/part.j2", "# part\n")
    workspace.write("templates/Dockerfile.j2", "{% include 'templates/part.j2' %}\nFROM x\n")
    assert validated(workspace) == []


def test_a_file_of_another_pipeline_of_the_folder_is_used(workspace: Workspace) -> None:
    workspace.write("kernels/loose.py", "print('loose')\n")
    assert validated(workspace) == [("warning W141", "kernels/loose.py")]
    other = DEPLOY.format(on="true").replace("kernels/attn.py", "kernels/loose.py")
    workspace.write("second.yaml", f"{HEAD}{other}")
    assert validated(workspace) == []
    assert ("warning W141", "kernels/attn.py") not in validated(workspace, "--file", "second.yaml")


def test_a_workspace_that_is_too_large_to_look_at_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.origin.listing.MAX_ENTRIES", 2)
    codes = [r["code"] for r in workspace.run("validate", "--json").records() if r["event"] == "diagnostic"]
    assert codes == ["W890"]


# --- waivers ---


@pytest.mark.parametrize("place", ["top", "stage"])
def test_a_declared_finding_is_a_note(workspace: Workspace, place: str) -> None:
    workspace.write("old/ops/attn.py", BODY)
    waiver = "[{rule: E140, about: old/ops, because: the state before the rewrite}]"
    stages = LIMIT_STAGE + DEPLOY.format(on="true")
    if place == "top":
        workspace.pipeline(stages, HEAD.replace("stages:", f"waive: {waiver}\nstages:"))
    else:
        workspace.pipeline(f"{stages}    waive: {waiver}\n")
    assert workspace.run("validate", "--json").code == 0
    assert validated(workspace) == []
    workspace.write("new/ops/attn.py", BODY)
    assert validated(workspace)[-1] == ("error E140", "new/ops/attn.py")


def test_the_top_takes_no_waiver_that_would_do_nothing_there(workspace: Workspace) -> None:
    waiver = "waive: [{rule: E502, because: it comes with the image}]\nstages:"
    workspace.pipeline(LIMIT_STAGE, HEAD.replace("stages:", waiver))
    ended = workspace.run("validate")
    assert ended.code == 3
    assert "E502" in ended.err


# --- git ---


def test_a_source_that_git_ignores_is_an_error_and_one_that_it_does_not_track_a_warning(workspace: Workspace) -> None:
    workspace.write(".gitignore", "attn.py\n")
    repository(workspace.folder)
    ended = workspace.run("validate", "--json")
    assert (found(ended), ended.code) == ([("error E142", "kernels/attn.py")], 3)
    assert next(r["place"]["line"] for r in ended.records() if r["event"] == "diagnostic") > 5
    workspace.write(".gitignore", "")
    assert validated(workspace) == [("warning W142", "kernels/attn.py")]
    commit(workspace.folder)
    assert validated(workspace) == []


def test_a_copy_that_git_ignores_is_nobody_s_business(workspace: Workspace) -> None:
    workspace.write("scratch/ops/attn.py", BODY)
    workspace.write("kernels/draft.py", "x = 1\n")
    repository(workspace.folder)
    assert len(validated(workspace)) == 2
    workspace.write(".gitignore", "scratch/\ndraft.py\n")
    (workspace.folder / ".git").rename(workspace.folder / "away")
    repository(workspace.folder)
    (workspace.folder / "away").rename(workspace.folder / ".away")
    assert validated(workspace) == []


def test_a_workspace_of_which_git_has_nothing_yet_is_silent(workspace: Workspace, tmp_path: Path) -> None:
    repository(tmp_path / "tree")
    (tmp_path / "tree" / ".git").rename(tmp_path / ".git")
    assert validated(workspace) == []


def test_a_source_behind_a_link_is_the_file_that_git_has(workspace: Workspace) -> None:
    workspace.write("shared/attn.py", BODY)
    (workspace.folder / "kernels" / "attn.py").unlink()
    (workspace.folder / "kernels").rmdir()
    (workspace.folder / "kernels").symlink_to("shared")
    repository(workspace.folder)
    assert validated(workspace) == []
