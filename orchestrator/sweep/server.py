"""A server under guard: started with a command, watched for its end, and ended with everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.sweep import guard
from orchestrator.sweep.model import Failed, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOST = "127.0.0.1"
LOG_BYTES = 8 * 2**20
_TAIL_BYTES = 2**17
_TAIL_LINES = 30
_LINE = 500
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SLACK_S = 15.0  # beyond the grace period: what the guard itself allows for a kill, and some


class Server:
    """A server that runs. `exited` is done with its exit code as soon as it has ended by itself."""

    def __init__(self, guarding: asyncio.subprocess.Process, log: Path, grace_s: float) -> None:
        self.log = log
        self.pid = 0
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._guard = guarding
        self._grace_s = grace_s
        self._gone = False
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path, grace_s: float
    ) -> Server:
        """Start `command` in `folder` with exactly `environment`; raise `Failed` where that cannot be done."""
        guarding = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(Path(guard.__file__)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            process_group=0,  # an interrupt from the keyboard comes to the sweep alone
        )
        server = cls(guarding, log, grace_s)
        order = {
            "command": list(command),
            "environment": dict(environment),
            "folder": str(folder),
            "log": str(log),
            "log_bytes": LOG_BYTES,
            "grace_s": grace_s,
        }
        try:
            assert guarding.stdin is not None  # noqa: S101 - for the type checker: it was asked for above
            guarding.stdin.write(json.dumps(order).encode() + b"\n")
            await guarding.stdin.drain()
            said = await server._line()
            if said is None or "started" not in said:
                reason = (said or {}).get("failed") or "its guard ended"
                raise Failed(Kind.NOT_STARTED, f"`{command[0]}` cannot be started: {reason}")  # noqa: TRY301 - as any end
        except BaseException:
            await server.stop()
            raise
        server.pid = int(said["started"])
        server._listening = asyncio.create_task(server._listen())
        return server

    async def stop(self) -> bool:
        """End the server and everything it started; return whether all of it is gone."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            async with asyncio.timeout(self._grace_s + _SLACK_S):
                if self._listening is not None:
                    await self._listening
                await self._guard.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._guard.kill()
            await self._guard.wait()
        if self.pid and not self._gone:  # the guard was killed; what it adopted is gone with it or in the group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return self._gone or not self.pid

    async def _listen(self) -> None:
        code: int | None = None
        while (said := await self._line()) is not None:
            code = said.get("exited", code)
            self._gone = bool(said.get("gone", self._gone))
            if code is not None and not self.exited.done():
                self.exited.set_result(code)
        if not self.exited.done():
            self.exited.set_result(-signal.SIGKILL if code is None else code)

    async def _line(self) -> dict[str, Any] | None:
        assert self._guard.stdout is not None  # noqa: S101 - for the type checker: it was asked for
        line = await self._guard.stdout.readline()
        return json.loads(line) if line else None


def older(log: Path) -> Path:
    """Return the file that has the part of a long log before what `log` itself has."""
    return log.with_name(f"{log.name}.1")


def tail(log: Path) -> tuple[str, ...]:
    """Return the last lines of a server's log, without colours, each cut to a length that can be read."""
    lines = [line for line in _end(log).splitlines() if line.strip()]
    return tuple(line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in lines[-_TAIL_LINES:])


def last_words(log: Path) -> str:
    """Return the end of a server's log, as long as it takes to find out why it ended."""
    return _end(log)


def _end(log: Path) -> str:
    read = b""
    for path in (older(log), log):
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            read = (read + file.read())[-_TAIL_BYTES:]
    text = _ESCAPES.sub("", read.decode("utf-8", errors="replace"))
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text.replace("\r", "\n"))


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Tell whether a server could listen on `port`, here or on every address."""
    for host in (HOST, ""):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True
