"""The folder of a sweep: held by one sweep at a time, its files written whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all, and the folders above it; raise `Rejected` (E701) where that fails."""
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise Rejected(unwritable(path.parent, error)) from None


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock: two sweeps at a time would write the same files and slow each other down.

    Raises `Rejected`: E701 the folder cannot be written, E703 another sweep holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Rejected(unwritable(folder, error)) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            help_ = "Wait for it, or choose another folder with --output."
            raise Rejected(Diagnostic("E703", f"another sweep is writing {folder}/ right now", help=help_)) from None
        yield
    finally:
        os.close(descriptor)


def unwritable(folder: Path, error: OSError) -> Diagnostic:
    """Return the diagnostic for a folder that takes no file."""
    help_ = "Check space and permissions, or choose another folder with --output."
    return Diagnostic("E701", f"{folder}/ cannot be written: {error.strerror or error}", help=help_)
