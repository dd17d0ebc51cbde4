"""What lies in a workspace: files alone, and none of what is no part of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orchestrator.origin import listing as module
from orchestrator.origin.listing import listing

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def written(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("text\n")


def test_files_are_listed_with_their_sizes_and_everything_else_is_not(tmp_path: Path) -> None:
    written(tmp_path, "a.py", "deep/er/b.py", ".hidden/c.py", "tests/d.py", "deep/build/e.py", "venv/f.py", ".env")
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "round").symlink_to(".")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("")
    assert listing(tmp_path) == ({".env": 5, "a.py": 5, "deep/er/b.py": 5}, True)


def test_the_top_itself_is_listed_whatever_it_holds_and_a_tree_that_is_left_out_is_not(tmp_path: Path) -> None:
    written(tmp_path, "pipeline.yaml", "audit.jsonl", "vendor/pkg/a.py", "other/pipeline.yaml", "other/x.py")
    (tmp_path / "way").symlink_to("vendor")
    found, whole = listing(tmp_path, [tmp_path / "way" / "pkg"])
    assert (sorted(found), whole) == (["audit.jsonl", "pipeline.yaml"], True)


def test_a_folder_that_cannot_be_listed_is_passed_over(tmp_path: Path) -> None:
    written(tmp_path, "a.py")
    assert listing(tmp_path / "a.py") == ({}, True)
    assert listing(tmp_path / "gone") == ({}, True)


def test_a_workspace_that_is_too_large_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "a.py", "deep/b.py", "deep/c.py", "deep/d.py")
    monkeypatch.setattr(module, "MAX_ENTRIES", 4)
    assert listing(tmp_path) == ({"a.py": 5}, False)
