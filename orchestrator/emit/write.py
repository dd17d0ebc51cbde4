"""Put a folder, or a file, in place of another in one step: the old whole or the new whole, whatever happens.

The new folder is written beside the old one and synced, then the two exchange their names (renameat2 with
RENAME_EXCHANGE on Linux). Where the system has no exchange, two renames do it; a process that dies between
them leaves the old folder under a known name, and the next start puts it back.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_FILE_MODE, _PROGRAM_MODE, _FOLDER_MODE = 0o644, 0o755, 0o755


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make `folder` hold exactly `files` (relative path → bytes); modes are fixed, whatever the umask.

    Raises `Rejected`: E701 the folder cannot be written, E702 it exists and is not one of ours, E703 another
    run is writing it right now.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - a link at its place must not be followed
    new, old = _beside(folder, "new"), _beside(folder, "old")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            recover(folder)
            _refuse_foreign(folder, files)
            shutil.rmtree(new, ignore_errors=True)
            _fill(new, files)
            _exchange(new, folder, old)
            shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(new)
        message = f"{folder.name}/ cannot be written: {error.strerror or error}"
        help_ = "The former folder is untouched. Check space and permissions, or choose another with --output."
        raise Rejected(Diagnostic("E701", message, help=help_)) from None


def write_file(path: Path, content: bytes) -> None:
    """Make a file hold `content`; of two runs at once one waits for the other. A file that is there keeps its mode.

    Raises `Rejected` (E701): it cannot be written, and is as it was.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        with _held(path.parent):
            new.unlink(missing_ok=True)  # of a run that was killed
            mode = path.stat().st_mode & 0o777 if path.exists() else _FILE_MODE
            try:
                _write(new, content, mode)
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
    except OSError as error:
        message = f"{path.name} cannot be written: {error.strerror or error}"
        raise Rejected(Diagnostic("E701", message, help="Check space and permissions.")) from None


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder against other runs that write a file in it; the hold ends with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def recover(folder: Path) -> None:
    """Finish what a process that died has begun: put the old folder back where none is in its place."""
    old = _beside(folder, "old")
    if old.exists() and not folder.exists():
        old.rename(folder)


def _beside(folder: Path, kind: str) -> Path:
    """Return a hidden name beside `folder`: `build.old` is a name that people give to folders of their own."""
    return folder.with_name(f".{folder.name}.{kind}")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`; a second run at the same time is told so instead of waiting."""
    descriptor = os.open(_beside(folder, "lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        message = f"another run is writing {folder.name}/ right now"
        raise Rejected(
            Diagnostic("E703", message, help="Wait for it, or choose another folder with --output.")
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


MARK = "audit.jsonl"
"""The file that every folder of ours has."""


def _refuse_foreign(folder: Path, files: Mapping[str, bytes]) -> None:
    """Refuse to put ours in place of a folder that is not ours, or that holds something which is not."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        message = f"{folder.name} exists and is not a folder"
        raise Rejected(Diagnostic("E702", message, help="Move it away, or choose another folder with --output."))
    names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    if names and MARK not in names:
        message = f"{folder.name}/ holds files that are not ours (no {MARK})"
        raise Rejected(Diagnostic("E702", message, help="Move them away, or choose another folder with --output."))
    foreign = sorted(names - {path.partition("/")[0] for path in files} - _FOLDERS - _named_by(folder / MARK))
    if foreign:
        message = f"{folder.name}/ holds what is not ours: {', '.join(foreign)}"
        raise Rejected(Diagnostic("E702", message, help="Move them away, or choose another folder with --output."))


_FOLDERS = {"patches", "patchset"}


def _named_by(log: Path) -> set[str]:
    """Return what a former log names at the top of its folder; nothing where it cannot be read."""
    found: set[str] = set()
    for line in log.read_bytes().splitlines() if log.is_file() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            found.update(name.partition("/")[0] for name in _names_in(json.loads(line)))
    return found


def _names_in(record: Mapping[str, Any]) -> list[str]:
    """Return the paths that a record of a log names: an artefact, a cell's folder, all that was emitted."""
    match record["event"]:
        case "artefact":
            return [record["name"]]
        case "cell":
            return [record["folder"]]
        case "patchset" | "matrix":
            return list(record["emitted"])
        case _:
            return []


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    _make_folder(folder)
    for path, content in sorted(files.items()):
        target = folder / path
        for parent in reversed(target.relative_to(folder).parents[:-1]):
            _make_folder(folder / parent)
        _write(target, content, _PROGRAM_MODE if content.startswith(b"#!") else _FILE_MODE)
    for walked, _, _ in os.walk(folder):
        _sync(Path(walked))


def _write(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(_FOLDER_MODE)


def _exchange(new: Path, folder: Path, old: Path) -> None:
    if folder.exists() and not _renameat2(new, folder):
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        new.rename(folder)
    elif not folder.exists():
        new.rename(folder)
    _sync(folder.parent)


def _renameat2(left: Path, right: Path) -> bool:
    """Exchange two names in one step; return False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    arguments = (_AT_FDCWD, os.fsencode(left), _AT_FDCWD, os.fsencode(right), _RENAME_EXCHANGE)
    return int(call(*arguments)) == 0


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
