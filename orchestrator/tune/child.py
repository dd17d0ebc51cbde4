"""Programs of the workspace in processes of their own: whatever they do, the search goes on.

Both ways of asking have a time limit; what is not answered by then is ended with all that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SAID = 400
"""Characters of what a process said last that are kept."""
_LEAVING = 5.0
"""Seconds for a process that has closed its output to end, and for its last words to be read."""


@dataclass(frozen=True)
class Death:
    """A process that gave no answer, and why."""

    reason: str


_running: set[subprocess.Popen[str]] = set()


def end_all() -> None:
    """End every process that was started here and still runs: nobody waits for an answer any more."""
    for process in list(_running):
        _end(process)


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(  # noqa: S603 - an interpreter that the user named, on a program of the workspace
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(environment),
        start_new_session=True,  # it is ended as a group, and Ctrl-C is ours to handle
    )
    _running.add(process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _running.discard(process)


def _last_words(text: str, status: int | None) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return f"exit status {status}: {lines[-1].strip()[-SAID:]}" if lines else f"exit status {status}"


def ask_once(
    command: Sequence[str], question: object, limit: float, environment: Mapping[str, str]
) -> list[dict[str, Any]] | Death:
    """Return the JSON lines that a program prints for one question.

    Args:
        command: The program.
        question: What it reads from its standard input, as JSON.
        limit: Seconds.
        environment: Its environment variables.
    """
    try:
        process = _start(command, environment)
    except OSError as error:
        return Death(f"{command[0]} cannot be started: {error.strerror}")
    try:
        out, said = process.communicate(json.dumps(question), timeout=limit)
    except subprocess.TimeoutExpired:
        return Death(f"no answer within {limit:g} s")
    finally:
        _end(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr] # all three are pipes
    if process.returncode:
        return Death(_last_words(said, process.returncode))
    try:
        return [json.loads(line) for line in out.splitlines()]
    except ValueError:
        return Death(f"its answer is no JSON: {out[:SAID]!r}")


@dataclass
class Worker:
    """A process that answers one JSON line for each; started again where one request has ended it.

    `first` is the request that it gets whenever it starts.
    """

    command: Sequence[str]
    first: Mapping[str, Any]
    environment: Mapping[str, str]
    start_limit: float
    process: subprocess.Popen[str] | None = None
    said: list[str] = field(default_factory=list)
    lines: queue.Queue[str | None] = field(default_factory=queue.Queue)
    readers: list[threading.Thread] = field(default_factory=list)

    def start(self) -> dict[str, Any] | Death:
        """Start the process, and return its answer to the first request."""
        try:
            self.process = _start(self.command, self.environment)
        except OSError as error:
            return Death(f"{self.command[0]} cannot be started: {error.strerror}")
        self.said, self.lines = [], queue.Queue()
        self.readers = [
            threading.Thread(target=_read, args=(stream, keep, self.lines), daemon=True)
            for stream, keep in ((self.process.stdout, self.lines.put), (self.process.stderr, self.said.append))
        ]
        for reader in self.readers:
            reader.start()
        return self._ask(self.first, self.start_limit)

    def ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any] | Death:
        """Return the answer; a process that is not there is started first."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            started = self.start()
            if isinstance(started, Death):
                return started
        return self._ask(request, limit)

    def _ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any] | Death:
        process = self.process
        if process is None or process.stdin is None:
            return Death("it is not there")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            self.close()
            return Death(f"no answer within {limit:g} s")
        except OSError:
            line = None
        if line is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LEAVING)  # it has nothing more to say; how it ends is its own
            self.close()
            return Death(_last_words("".join(self.said), process.returncode))
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.close()
            return Death(f"its answer is no JSON object: {line[:SAID]!r}")
        return found

    def close(self) -> None:
        """End the process."""
        if self.process is None:
            return
        _end(self.process)
        for reader in self.readers:
            reader.join(_LEAVING)  # what it said last may still be on its way
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr] # all three are pipes
        self.process = None


def _read(stream: Any, keep: Any, lines: queue.Queue[str | None]) -> None:  # noqa: ANN401 - a text stream, a list's or a queue's method
    with contextlib.suppress(ValueError, OSError):  # closed under us: the process was ended
        for line in stream:
            keep(line)
    if keep == lines.put:
        lines.put(None)
