"""What lies in a workspace folder, without what is no part of it: other projects, environments, tests, output."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_ENTRIES = 100_000
_ELSEWHERE = frozenset(
    ["tests", "test", "examples", "example", "build", "dist", "node_modules", "venv", "__pycache__", "site-packages"]
)
_OTHERS = frozenset(["pyvenv.cfg", ".git", "audit.jsonl", "pipeline.yaml"])
"""A folder that holds one of these is an environment, another repository, a rendered build or another workspace."""


def listing(root: Path, leave_out: Iterable[Path] = ()) -> tuple[dict[str, int], bool]:
    """Return the ordinary files below a workspace, path → size, and whether all of it was looked at.

    Links are not followed. Left out are hidden folders, the folders of `_ELSEWHERE`, those that hold a file of
    `_OTHERS`, and those of `leave_out`: package trees that were handed over.
    """
    away = {os.path.realpath(folder) for folder in leave_out}
    files: dict[str, int] = {}
    pending = [""]
    seen = 0
    while pending:
        at = pending.pop()
        try:
            entries = sorted(os.scandir(root / at), key=lambda entry: entry.name)
        except OSError:
            continue  # what cannot be read is no source either
        seen += len(entries)
        if seen > MAX_ENTRIES:
            return files, False
        if at and (_OTHERS & {entry.name for entry in entries} or os.path.realpath(root / at) in away):
            continue
        for entry in entries:
            path = f"{at}/{entry.name}" if at else entry.name
            if entry.is_symlink() or not _is_text(path):
                continue
            if entry.is_dir():
                if entry.name not in _ELSEWHERE and not entry.name.startswith("."):
                    pending.append(path)
                continue
            with contextlib.suppress(OSError):  # gone since it was listed
                if entry.is_file():
                    files[path] = entry.stat().st_size
    return files, True


def _is_text(path: str) -> bool:
    """Tell whether a name can be printed: one that holds bytes that are no text is nobody's source."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
