"""A base tree from a package folder on this machine."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity
from orchestrator.origin.base import DEFAULT_LIMITS, Base, Harvest, Limits, shown_name

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = (".py", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
"""Endings of files by which a folder is known as one of sources: a package root need not be a package of Python."""


def read_folder(path: Path, root: str, limits: Limits = DEFAULT_LIMITS) -> tuple[Base, tuple[Diagnostic, ...]]:
    """Read a package folder into a tree `root/...`, byte for byte.

    Links are followed while their real path stays inside the folder. Findings, one per file: E305 for a link that
    leaves it, E306 for what cannot be read. Raises `Rejected` with E307 if `path` is not a package folder, E304 if
    it is far too large.
    """
    _refuse_what_is_no_package(path, root)
    walk = _Walk(path, os.path.realpath(path), Harvest(limits))
    walk.folder(walk.real, root, ())
    return walk.harvest.base(f"folder {path}", None), tuple(walk.harvest.findings)


def _refuse_what_is_no_package(path: Path, root: str) -> None:
    place = Place(str(path))
    name = root.rsplit("/", 1)[-1]
    try:
        names = {entry.name for entry in os.scandir(path)}
    except FileNotFoundError:
        raise Rejected(Diagnostic("E307", "the folder does not exist", place, help="Correct the path.")) from None
    except NotADirectoryError:
        help_ = f"Name the package folder `{name}`, or an archive that holds it."
        raise Rejected(Diagnostic("E307", "this is not a folder", place, help=help_)) from None
    except OSError as error:
        raise Rejected(_unreadable(str(path), error)) from None
    if "__init__.py" in names:
        return
    nested = [n for n in (name, f"src/{name}", f"{path.name}/{name}") if (path / n / "__init__.py").is_file()]
    if nested:
        message, help_ = f"this folder holds the package `{name}` but is not it", f"did you mean '{path / nested[0]}'?"
    elif not any(n.endswith(SOURCES) for n in names):
        message = "no Python file lies in this folder, and no other source"
        help_ = f"Name the folder of the package `{name}` itself."
    else:
        return
    raise Rejected(Diagnostic("E307", message, place, help=help_))


@dataclass(frozen=True)
class _Walk:
    """One pass over a folder: `top` as the user spelled it, `real` as the system does."""

    top: Path
    real: str
    harvest: Harvest

    def folder(self, real: str, shown: str, above: tuple[str, ...]) -> None:
        """Read the folder `real`, which the tree knows as `shown`; `above` are the real folders around it."""
        if not self.harvest.enters(real, shown, above):
            return
        try:
            entries = sorted(os.scandir(real), key=lambda entry: entry.name)
        except OSError as error:
            self.harvest.findings.append(_unreadable(shown, error))
            return
        for entry in entries:
            self.entry(entry, f"{shown}/{entry.name}", (*above, real))

    def entry(self, entry: os.DirEntry[str], shown: str, above: tuple[str, ...]) -> None:
        """Read one entry of a folder: descend, follow, keep or name it."""
        if entry.name == "__pycache__":
            self.harvest.left_out.add(shown)
            return
        try:
            real = os.path.realpath(entry.path, strict=True) if entry.is_symlink() else entry.path
            if not f"{real}/".startswith(f"{self.real.rstrip('/')}/"):
                self.harvest.findings.append(_leaves(shown, real, self.top))
                return
            found = os.lstat(real)
            if stat.S_ISDIR(found.st_mode):
                self.folder(real, shown, above)
            elif not stat.S_ISREG(found.st_mode):  # a pipe or a device: opening it may block for ever
                self.harvest.left_out.add(shown)
            elif self.harvest.wants(shown, found.st_size):
                with open(real, "rb") as file:  # noqa: PTH123 - names here may hold bytes that are no text
                    self.harvest.keep(shown, file.read(self.harvest.limits.file + 1))
        except OSError as error:
            self.harvest.findings.append(_dangling(shown) if _is_dangling(entry) else _unreadable(shown, error))


def _is_dangling(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and not os.path.lexists(os.path.realpath(entry.path))
    except OSError:
        return False


def _dangling(shown: str) -> Diagnostic:
    message = "this link points to nothing, so it is left out"
    return Diagnostic("E306", message, Place(shown_name(shown)), help="Remove it.", severity=Severity.WARNING)


def _leaves(shown: str, real: str, top: Path) -> Diagnostic:
    help_ = "Put a copy of the file in its place: a tree holds only what lies in the package."
    return Diagnostic("E305", f"this link leaves {top}, to {shown_name(real)}", Place(shown_name(shown)), help=help_)


def _unreadable(shown: str, error: OSError) -> Diagnostic:
    message = f"this cannot be read: {error.strerror or error}"
    return Diagnostic("E306", message, Place(shown_name(shown)), help="Check its permissions and owner.")
