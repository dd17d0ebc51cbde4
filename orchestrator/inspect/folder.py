"""The folder that is inspected: what lies in it, what git knows of it, and the bytes of a file. All reading is here."""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.inspect.text import decoded
from orchestrator.origin import git

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_ENTRIES = 200_000
MAX_FILE = 4 << 20


@dataclass(frozen=True)
class Folder:
    """`files` and `folders` by path from the top; `links` with where they point; `tracked` None without git."""

    root: Path
    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    tracked: frozenset[str] | None = None
    ignored: frozenset[str] = frozenset()
    contents: Mapping[str, bytes] | None = None
    seen: dict[str, bytes | None] = field(default_factory=dict, compare=False)

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, or None where it is not there, too large or not readable."""
        if self.contents is not None:
            return self.contents.get(path)
        if path not in self.seen:
            self.seen[path] = _bytes_of(self.root / path)
        return self.seen[path]

    def text(self, path: str) -> str | None:
        """Return the text of a file."""
        raw = self.read(path)
        return None if raw is None else decoded(raw)

    def real(self, path: str) -> str | None:
        """Return the path with links resolved inside of the folder; None where one leads out or in circles."""
        done = ""
        left = [part for part in path.split("/") if part not in {"", "."}]
        for _ in range(40 + len(left)):
            if not left:
                return done
            part = left.pop(0)
            if part == "..":
                if not done:
                    return None
                done = posixpath.dirname(done)
                continue
            done = f"{done}/{part}" if done else part
            if done in self.links:
                target = self.links[done]
                if target.startswith("/"):
                    return None
                left = [p for p in target.split("/") if p not in {"", "."}] + left
                done = posixpath.dirname(done)
        return None

    def under(self, path: str) -> list[str]:
        """Return the files in a folder, or the file itself."""
        if path in self.files:
            return [path]
        prefix = f"{path}/" if path not in {"", "."} else ""
        return sorted(name for name in self.files if name.startswith(prefix))

    def above(self, path: str) -> str:
        """Return the nearest folder around this one that has `path`, empty where none has."""
        if self.contents is not None or path in {"", "."}:
            return ""
        around = self.root.resolve().parents[:3]
        return next((str(folder) for folder in around if (folder / path).exists()), "")

    def holds(self, path: str) -> bool:
        """Tell whether a file or a folder of this name is there."""
        return path in self.files or path in self.folders or path in {"", "."}


def read_folder(root: Path) -> Folder:
    """Return what lies in a folder, links not followed. Raises `Rejected` (E700) where it is no folder or too large."""
    if not root.is_dir():
        raise Rejected(Diagnostic("E700", f"there is no folder {root}", help="Name the folder with the Dockerfile."))
    files: set[str] = set()
    folders: set[str] = set()
    links: dict[str, str] = {}
    pending = [""]
    while pending:
        at = pending.pop()
        try:
            entries = list(os.scandir(root / at))
        except OSError:
            continue  # what cannot be read is not there for the builder either
        for entry in entries:
            path = f"{at}/{entry.name}" if at else entry.name
            if entry.is_symlink():
                links[path] = _target(entry.path)
                (folders if entry.is_dir() else files).add(path)
            elif entry.is_dir():
                folders.add(path)
                if path != ".git":
                    pending.append(path)
            else:
                files.add(path)
        if len(files) > MAX_ENTRIES:
            help_ = "Name a smaller folder: the one with the Dockerfile and the scripts."
            raise Rejected(Diagnostic("E700", f"{root} holds more than {MAX_ENTRIES:,} files", help=help_))
    tracked, ignored = _git(root)
    return Folder(root, frozenset(files), frozenset(folders), links, tracked, ignored)


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - names here may hold bytes that are no text
    except OSError:
        return ""


def _bytes_of(path: Path) -> bytes | None:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE:
            return None
        return path.read_bytes()
    except (OSError, ValueError):
        return None


def _git(root: Path) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Return the tracked files and the ignored ones; None where no git, or where it tracks nothing here."""
    tracked = git.tracked(root)
    return (tracked, git.left_out(root)) if tracked else (None, frozenset())
