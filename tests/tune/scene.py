"""A workspace with this repository's kernels, and a clock that needs no GPU."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.workspaces import ROOT, interruptible

if TYPE_CHECKING:
    from pathlib import Path


# The table's tile takes twice as long as others. Rows with 4 warps are wrong, rows with 8 end the process.
CLOCK = """\
import json, os, sys, time
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if not number:
        shapes = asked["shapes"]
        found = {"device": "a stand-in", "triton": "3", "torch": "2"}
    elif "check" in asked:
        row = asked["check"]
        if row["num_warps"] == 8:
            os.abort()
        found = {"failed": "wrong: relative error 1 against float64"} if row["num_warps"] == 4 else {"ok": True}
    else:
        tile = {"block_n": 32, "num_stages": 3, "whole_pages": True}
        cost = [2 if tile.items() <= row.items() else 1 + row["block_n"] / 1000 for row in asked["time"]]
        found = {"us": [[each * (1 + tokens / 100) for _, tokens, _ in shapes] for each in cost]}
    print(json.dumps(found), flush=True)
"""


@dataclass(frozen=True)
class Scene:
    """A workspace to tune in, with its own storage."""

    root: Path
    cache: Path

    @classmethod
    def at(cls, folder: Path, *, clock: bool = False) -> Scene:
        """Return a workspace; with `clock`, one where rows are timed by a stand-in."""
        root = folder / "workspace"
        for name in ("kernels", "targets", "benchmarks/tune"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        if clock:
            (root / "benchmarks/tune/measure.py").write_text(CLOCK, encoding="utf-8")
        return cls(root, folder / "cache")

    @property
    def table(self) -> Path:
        """The table of configurations."""
        return self.root / "kernels/muh_dispatch.py"

    @property
    def storage(self) -> Path:
        """The file of the default storage."""
        return self.cache / "tune.sqlite"

    def words(self, *words: str) -> list[str]:
        """Return the arguments for decode of a small head, which compiles in a second."""
        small = ["--device", "h200", "--head-size", "64", "--heads", "4/2", "--length", "64"]
        return ["tune", "decode", "-C", str(self.root), "--json", *small, "--jobs", "1", *words]

    def started(self, *words: str) -> subprocess.Popen[str]:
        """Start the command in a process of its own."""
        return subprocess.Popen(
            interruptible(*self.words(*words)),
            env={**os.environ, "ORCHESTRATOR_CACHE": str(self.cache), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def trials(self) -> list[dict[str, Any]]:
        """Return every trial in the storage: its state and its attributes."""
        with contextlib.closing(sqlite3.connect(self.storage, timeout=30)) as connection:
            found = {
                number: {"state": state} for number, state in connection.execute("SELECT trial_id, state FROM trials")
            }
            for trial, key, value in connection.execute("SELECT trial_id, key, value_json FROM trial_user_attributes"):
                found[trial][key] = json.loads(value)
        return [found[number] for number in sorted(found)]

    def tried(self) -> list[dict[str, Any]]:
        """Return the trials that came through the filters and ended; what failed says nothing of its configuration."""
        ended = [trial for trial in self.trials() if trial["state"] in {"COMPLETE", "PRUNED"}]
        return [trial for trial in ended if trial["stage"] in {"ran", "failed", "compiler"}]


def result(lines: str) -> dict[str, Any]:
    """Return the last record of a command's output."""
    return json.loads(lines.splitlines()[-1])  # type: ignore[no-any-return] # a record
