"""Start a server, keep its log, and leave nothing of it behind: a program of its own, `python guard.py`.

The sweep talks to it through three pipes: the first line of standard input says what to start, standard output says
what became of it, and the end of standard input says "stop". That end comes too when the sweep is killed, whatever
kills it. On Linux the guard adopts what the server's processes leave behind, so that one which has put itself into
another session or process group is found as well. It uses the standard library alone and imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform.startswith("linux")
_TICK_S = 0.1
_LAST_READS = 16  # more than a pipe holds; what is left behind may go on writing
_KILL_S = 10.0  # how long the dead may take to go: a process in an uninterruptible wait cannot be helped
_READ_BYTES = 65536


@dataclass
class Log:
    """The server's log, two files of at most `limit` bytes each: the one being written, and the one before it."""

    path: Path
    limit: int
    written: int = 0
    file: IO[bytes] | None = None

    def write(self, text: bytes) -> None:
        """Append; where the disk is full the server goes on without a log."""
        with contextlib.suppress(OSError):
            if self.file is None or self.written + len(text) > self.limit:
                if self.file is not None:
                    self.file.close()
                    self.path.replace(self.path.with_name(f"{self.path.name}.1"))
                self.file = self.path.open("wb", buffering=0)
                self.written = 0
            self.written += len(text)
            self.file.write(text)


class Guard:
    """One server and everything that it starts."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.grace_s: float = order["grace_s"]
        self.log = Log(Path(order["log"]), order["log_bytes"])
        self.log.path.unlink(missing_ok=True)
        self.log.path.with_name(f"{self.log.path.name}.1").unlink(missing_ok=True)
        self.log.write(b"")
        self.output, writes = os.pipe()
        os.set_blocking(self.output, False)
        self.exit: int | None = None
        guard = os.getpid()
        self.server = subprocess.Popen(  # noqa: S603 - starting what it is told is what this program is for
            order["command"],
            cwd=order["folder"],
            env=order["environment"],
            stdin=subprocess.DEVNULL,
            stdout=writes,
            stderr=writes,
            # Its own group, in the sweep's session: Linux shares processors out among sessions first (autogroup), and a
            # client of another session that waits for one would call the server slow.
            process_group=0,
            preexec_fn=lambda: _die_with(guard),  # noqa: PLW1509 - this process has one thread
        )
        os.close(writes)

    def watch(self) -> None:
        """Keep the log until the server ends, or until the sweep wants it to end."""
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(self.output, selectors.EVENT_READ)
            while self.exit is None and not _stopped:
                for key, _ in selector.select(_TICK_S):
                    if key.fd == 0 and not os.read(0, _READ_BYTES):
                        return
                    if key.fd == self.output and not self.keep_log():
                        selector.unregister(self.output)
                self.reap()

    def keep_log(self) -> bool:
        """Write what there is to read, a bounded part of it; return whether there can be more."""
        with contextlib.suppress(BlockingIOError):
            text = os.read(self.output, _READ_BYTES)
            self.log.write(text)
            return bool(text)
        return True

    def reap(self) -> None:
        """Take note of every child that has ended, the adopted ones too, and end a server that wants the terminal.

        The terminal is the sweep's, so the system stops the server, and nobody would ever tell it to go on.
        """
        with contextlib.suppress(ChildProcessError):
            while True:
                child, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if child == 0:
                    return
                if os.WIFSTOPPED(status):
                    if child == self.server.pid and os.WSTOPSIG(status) in {signal.SIGTTIN, signal.SIGTTOU}:
                        self.exit = -os.WSTOPSIG(status)
                    continue
                if child == self.server.pid:
                    self.exit = self.server.returncode = os.waitstatus_to_exitcode(status)

    def end(self) -> bool:
        """End what is left: ask, wait for the grace period, then kill. Return whether nothing is left."""
        return self._ended(signal.SIGTERM, self.grace_s) or self._ended(signal.SIGKILL, _KILL_S)

    def _ended(self, number: signal.Signals, limit_s: float) -> bool:
        until = time.monotonic() + limit_s
        told: set[int] = set()
        while True:
            self.keep_log()
            self.reap()
            alive = self._alive()
            if not alive:
                return True
            if time.monotonic() >= until:
                return False
            for process in alive if number is signal.SIGKILL else alive - told:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, number)
                    os.kill(process, signal.SIGCONT)  # what is stopped hears nothing else
            told |= alive
            time.sleep(_TICK_S / 5)

    def _alive(self) -> set[int]:
        """Return the processes that the server and its descendants are; the group stands for them elsewhere."""
        if _LINUX:
            return _descendants(os.getpid())
        try:
            os.killpg(self.server.pid, 0)
        except (ProcessLookupError, PermissionError):
            return set()
        return {-self.server.pid}


def _die_with(parent: int) -> None:
    """In the server's process, before it becomes the server: die when the guard dies, however it dies."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _descendants(root: int) -> set[int]:
    """Return all processes below `root` that have not ended, read from /proc."""
    children: dict[int, list[int]] = {}
    ended: set[int] = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name stands in parentheses and may hold anything; behind the last one: state, parent.
                state, parent = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()[:2]
                children.setdefault(int(parent), []).append(int(entry.name))
                if state in {b"Z", b"X"}:
                    ended.add(int(entry.name))
    found: set[int] = set()
    below = list(children.get(root, ()))
    while below:
        process = below.pop()
        found.add(process)
        below += children.get(process, ())
    return found - ended


_stopped: list[int] = []


def main() -> None:
    """Read the order, start the server, watch it, end it; each step is a line on standard output."""
    for number in (signal.SIGINT, signal.SIGHUP):  # they come to the sweep, which decides
        signal.signal(number, lambda *_: None)  # what is ignored would stay so in the server, a function does not
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # Popen puts this one back
    signal.signal(signal.SIGTERM, lambda number, _: _stopped.append(number))
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    order = b""
    while not order.endswith(b"\n"):
        byte = os.read(0, _READ_BYTES)
        if not byte:
            return
        order += byte
    try:
        guard = Guard(json.loads(order))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _say(failed=getattr(error, "strerror", None) or str(error))
        return
    _say(started=guard.server.pid)
    guard.watch()
    if guard.exit is not None:
        for _ in range(_LAST_READS):
            if not (_readable(guard.output) and guard.keep_log()):
                break
        _say(exited=guard.exit)
    gone = guard.end()
    _say(exited=guard.exit, gone=gone)


def _readable(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _say(**fields: object) -> None:
    with contextlib.suppress(OSError):  # the sweep may be gone
        os.write(1, json.dumps(fields).encode() + b"\n")


if __name__ == "__main__":
    main()
