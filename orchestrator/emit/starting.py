"""The starter workspace: the files under `starter/`, as they are."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


IGNORED = ".gitignore"
"""Written unless the folder has one: a workspace may begin in a repository that exists."""
_IGNORE = b"# What `orchestrator render` writes, and what stands beside it while it does.\n/build/\n/.build.*\n"


def starter_files() -> dict[str, bytes]:
    """Return the starter's files by their path in the new workspace."""
    return {**_below(files("orchestrator.emit") / "starter", ""), IGNORED: _IGNORE}


def _below(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for item in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if item.is_dir():
            found |= _below(item, f"{prefix}{item.name}/")
        else:
            found[f"{prefix}{item.name}"] = item.read_bytes()
    return found
