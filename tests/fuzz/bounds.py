"""What one input may cost: seconds and memory. More is a failure, as a traceback is."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SECONDS = 60
MIB = 2**20
MEMORY = 400 * MIB
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class TooLong(BaseException):
    """An input took longer than any input may; no `except Exception` swallows it."""


class TooMuchError(AssertionError):
    """An input took more memory than any input may."""


@contextlib.contextmanager
def bounded(seconds: int = SECONDS, memory: int = MEMORY) -> Iterator[None]:
    """Fail where the block takes longer than `seconds`, or at its peak `memory` bytes more than before it.

    Seconds are of processor time, so that a busy machine is no failure. Memory is watched where Linux tells it.
    """

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    start = _resident()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    taken = _peak() - start
    if taken > memory:
        raise TooMuchError(f"{taken / MIB:.0f} MiB at the peak, {memory / MIB:.0f} are allowed")


def _resident() -> int:
    """Return the bytes in memory now, and let the peak count from here."""
    if not sys.platform.startswith("linux"):
        return 0
    with contextlib.suppress(OSError):  # not every container allows it: the peak is then that of the whole process
        _RESET.write_text("5")
        return _kilobytes("VmRSS") * 1024
    return _peak()


def _peak() -> int:
    return _kilobytes("VmHWM") * 1024 if sys.platform.startswith("linux") else 0


def _kilobytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) if found else 0
