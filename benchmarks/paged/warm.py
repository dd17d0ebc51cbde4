"""Compile in several processes at once: Triton's cache on disk is then full when the measuring process starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time

CHILD = "PAGED_BENCH_CHILD"
"""Environment variable that such a process has, so that it starts none itself."""

LIMIT_SECONDS = 100.0


def compile_in_processes(program: str, given: list[str], count: int, limit: float = LIMIT_SECONDS) -> int:
    """Run `program --compile I/N` with the options that were given, `count` times at once; return how many ended well.

    What has not ended after `limit` seconds is ended: the measuring process compiles the rest itself.

    Raises:
        RuntimeError: This is such a process itself.
    """
    if os.environ.get(CHILD):
        raise RuntimeError("a process that compiles starts no others")
    environment = {**os.environ, CHILD: "1"}
    commands = [[sys.executable, program, *given, "--compile", f"{index}/{count}"] for index in range(count)]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - this program
        for command in commands
    ]
    end = time.monotonic() + limit
    codes = []
    for process in running:
        try:
            codes.append(process.wait(max(0.1, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.kill()
            codes.append(process.wait() or 1)
    return codes.count(0)
