"""What git says of a folder: asked of real repositories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.origin import git
from tests.repositories import commit, repository
from tests.repositories import git as run_git

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder within a repository; beside it lies a file that is not its own."""
    inner = tmp_path / "inner"
    inner.mkdir()
    for path in ("a.py", "ü b.py", ".gitignore"):
        (inner / path).write_text("secret.py\n" if path == ".gitignore" else "x = 1\n")
    (tmp_path / "beside.py").write_text("x = 1\n")
    repository(tmp_path)
    return inner


def refusal(folder: Path, revisions: str) -> Diagnostic:
    with pytest.raises(Rejected) as caught:
        git.span(folder, revisions)
    (found,) = caught.value.diagnostics
    return found


def test_what_is_tracked_counts_from_the_folder_and_keeps_its_spelling(folder: Path) -> None:
    assert sorted(git.tracked(folder) or ()) == [".gitignore", "a.py", "ü b.py"]


def test_only_what_is_not_tracked_can_be_ignored(folder: Path) -> None:
    (folder / ".gitignore").write_text("secret.py\na.py\n")
    assert git.ignored(folder, ["a.py", "secret.py", "other.py"]) == {"secret.py"}
    assert git.ignored(folder, []) == frozenset()


def test_without_a_repository_or_without_git_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    alone = tmp_path.parent / f"{tmp_path.name}-alone"
    alone.mkdir()
    assert (git.tracked(alone), git.ignored(alone, ["a"])) == (None, frozenset())
    assert refusal(alone, "HEAD").code == "E132"
    monkeypatch.setenv("PATH", str(alone))
    assert (git.tracked(folder), git.ignored(folder, ["secret.py"])) == (None, frozenset())
    assert "there is no program `git`" in refusal(folder, "HEAD").message


@pytest.mark.parametrize("revision", ["nope", "", "HEAD~9", "--help", "-x..HEAD", "HEAD..nope", "HEAD:a.py", "\ud800"])
def test_what_is_no_commit_is_refused_by_its_name(folder: Path, revision: str) -> None:
    assert refusal(folder, revision).code == "E133"


def test_a_difference_is_that_of_the_folder_with_both_names_of_what_moved(folder: Path) -> None:
    before = run_git(folder, "rev-parse", "HEAD")
    (folder / "a.py").rename(folder / "c.py")
    (folder.parent / "beside.py").write_text("x = 2\n")
    (folder / "secret.py").write_text("x = 1\n")
    assert git.changed(folder, before, git.WORKING_TREE) == {"a.py", "c.py"}
    after = commit(folder.parent)
    assert git.changed(folder, before, after) == {"a.py", "c.py"}
    assert git.changed(folder, after, git.WORKING_TREE) == frozenset()
    assert (git.content(folder, before, "a.py"), git.content(folder, after, "a.py")) == (b"x = 1\n", None)


def test_two_dots_compare_two_commits_and_three_the_common_ancestor(folder: Path) -> None:
    first = run_git(folder, "rev-parse", "HEAD")
    (folder / "a.py").write_text("x = 2\n")
    main = commit(folder.parent)
    run_git(folder, "checkout", "--quiet", "-b", "side", first)
    side = commit(folder.parent)
    assert git.span(folder, "main") == (main, git.WORKING_TREE)
    assert git.span(folder, "main..side") == (main, side)
    assert git.span(folder, "main...side") == (first, side)
    assert git.span(folder, "main..") == (main, side)
    run_git(folder, "checkout", "--quiet", "--orphan", "apart")
    (folder / "a.py").write_text("x = 3\n")
    commit(folder.parent)
    assert refusal(folder, "main...apart").code == "E133"


def test_no_program_of_the_repository_s_settings_is_run(folder: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    trap.chmod(0o755)
    run_git(folder, "config", "core.fsmonitor", os.fspath(trap))
    run_git(folder, "config", "diff.external", os.fspath(trap))
    run_git(folder, "config", "diff.py.textconv", os.fspath(trap))
    (folder / ".gitattributes").write_text("*.py diff=py\n")
    (folder / "a.py").write_text("x = 3\n")
    assert "a.py" in git.changed(folder, "HEAD", git.WORKING_TREE)
    git.tracked(folder)
    assert not (tmp_path / "ran").exists()
