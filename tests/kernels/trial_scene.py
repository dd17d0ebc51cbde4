"""Packages in which a double stands where a kernel would, and processes that ask for trust there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"
PACKAGE = "attention_double"
PREFILL, DECODE = "prefix_prefill", "paged_decode_v2"
BESIDE = ("trust.py", "trial.py", "paged_attention_pytorch.py")


@dataclass(frozen=True)
class Answer:
    """What a process that asked was told and said."""

    trusted: dict[str, bool]
    log: list[str]
    live: list[dict[str, str]]

    def line(self, operation: str = PREFILL) -> str:
        [line] = [line for line in self.log if line.startswith(f"Triton {operation}: ")]
        return line

    def path(self, operation: str = PREFILL) -> str:
        [row] = [row for row in self.live if row["operation"] == operation]
        return row["path"]


@dataclass(frozen=True)
class Scene:
    """A package below `folder` and the folder of its verdicts; in Triton's interpreter unless `on_gpu`."""

    folder: Path
    on_gpu: bool = False

    @property
    def package(self) -> Path:
        return self.folder / "packages" / PACKAGE

    @property
    def cache(self) -> Path:
        return self.folder / "verdicts"

    @property
    def runs(self) -> list[str]:
        """The processes that have imported the double."""
        path = self.folder / "runs"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def kept(self, suffix: str) -> list[Path]:
        return sorted(path for path in self.cache.glob(f"*{suffix}") if not path.name.startswith("switched"))

    def lay(self, double: str) -> None:
        """Put a double in the place of both kernels."""
        self.package.mkdir(parents=True, exist_ok=True)
        for name in BESIDE:
            shutil.copy(KERNELS / name, self.package)
        shutil.copy(HERE / "doubles" / "right.py", self.package)
        for name in ("prefix_prefill.py", "paged_attention_v2_triton.py"):
            shutil.copy(HERE / "doubles" / f"{double}.py", self.package / name)
        if not self.on_gpu:
            self.lay_triton("9.9.1")

    def lay_triton(self, version: str) -> None:
        triton = self.folder / "packages" / "triton"
        triton.mkdir(exist_ok=True)
        (triton / "__init__.py").write_text(f'__version__ = "{version}"\n', encoding="utf-8")

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
        own = {
            "VLLM_TRITON_TRUST_CACHE": str(self.cache),
            "DOUBLE_RUNS": str(self.folder / "runs"),
            "PYTHONPATH": str(self.folder / "packages"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return {**kept, **own, **({} if self.on_gpu else {"TRITON_INTERPRET": "1"}), **more}

    def start(self, *operations: str, python: str = sys.executable, **environment: str) -> subprocess.Popen[str]:
        """Start a process that asks for operations."""
        asked = operations or (PREFILL,)
        return subprocess.Popen(
            [python, str(HERE / "ask_trust.py"), str(self.package.parent), PACKAGE, *asked],
            env=self.environment(**environment),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, *operations: str, **environment: str) -> Answer:
        return answer_of(self.start(*operations, **environment))


def answer_of(process: subprocess.Popen[str]) -> Answer:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return Answer(found["trusted"], found["log"], found["live"])


def wait_until(true: Callable[[], bool], longest: float = 60.0) -> None:
    deadline = time.monotonic() + longest
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


# Doubles that a trial must see through, and what it says of them.
FAULTS = {
    "wrong": "float16 with heads of 128: the largest error is 0.0",
    "one_token_too_few": "float16 with heads of 128: the largest error is ",
    "another_head": "float16 with heads of 128: the largest error is ",
    "reads_unused_slots": "float16 with heads of 128: not all values are finite",
    "writes_nothing": "float16 with heads of 128: not all values are finite",
    "dies_of_a_signal": "the process ended with SIGABRT and no result: Assertion `layout' failed.",
    "dies_on_import": "the process ended with exit code 0 and no result",
    "raises": "CompilationError: at 3:8: tl.dot (",
    "refuses": "it refuses every case: no row for this device",
}
