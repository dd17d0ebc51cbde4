"""A server of the tests' own, measured with small limits, and what of it is left behind."""

from __future__ import annotations

import asyncio
import sys
import uuid
from dataclasses import replace
from pathlib import Path

from orchestrator.sweep.model import Fault, Limits, Load, Measured
from orchestrator.sweep.trial import Rendered, Serving, measure

FAKE = Path(__file__).parent / "fake_server.py"
LIMITS = Limits(health_s=60, stall_s=60, load_s=60, grace_s=10)
"""Far longer than anything takes here; a test of a limit sets its own."""
SHORT = 0.5
LOAD = Load(prompt_tokens=(8,), shared_tokens=4, output_tokens=4, rounds=2, warm_up=1, repeats=2)


def words(mode: str, *further: str, mark: str = "") -> tuple[str, ...]:
    """Return the command line of the server."""
    return (sys.executable, str(FAKE), "--port", "{port}", "--mode", mode, "--mark", mark, *further)


def rendered(value: str = "4", **environment: str) -> Rendered:
    """Return what a pipeline would render for a value."""
    command = ("python3", "-m", "server", "--max-num-seqs", value)
    return Rendered(value, float(value), "run.yaml", b"concurrency: 4\n", command, environment, int(value), "digest")


def measured(
    mode: str, folder: Path, *, limits: Limits = LIMITS, load: Load = LOAD, mark: str = "", **serving: object
) -> Measured | Fault:
    """Return what one value comes to with the server in `mode`."""
    way = replace(Serving(words(mode, mark=mark), limits=limits), **serving)  # type: ignore[arg-type]  # any of its fields
    return asyncio.run(measure(rendered(), way, load, folder, lambda _: None))


def fresh_mark() -> str:
    """Return a word that no other process has on its command line."""
    return f"mark-{uuid.uuid4().hex}"


def processes(mark: str) -> list[str]:
    """Return the command lines with `mark` of the processes that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found
