"""The tuning headers of a target, and the compilers that tests give them to.

`MUH_HEADERS` names a folder with a folder for each target where they were rendered before: for machines that have the
compiler and no orchestrator.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
MUH = ROOT / "templates" / "muh"
TARGETS = ("bi100", "corex-replica", "h200", "v100")
WARNINGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-unknown-pragmas")
NVCC_WARNINGS = ("-std=c++17", "-Werror=all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror")
_CUDA = Path("/usr/local/cuda/bin/nvcc")
NVCC = shutil.which("nvcc") or (str(_CUDA) if _CUDA.exists() else "")
"""CUDA's compiler, empty where there is none."""
COMPILERS = ["g++", *(name for name in ("clang++", NVCC) if name and shutil.which(name))]
"""The compiler that has to be there, and the others that are."""


def rendered(target: str, figures: dict[str, object] | None = None) -> str:
    """Return the header of values of a target; `figures` replace its device's, None takes one away."""
    from orchestrator.engine.templates import compile_jinja, render_template  # noqa: PLC0415 - not there on every machine
    from tests.device import targets  # noqa: PLC0415 - the same

    facts = targets.target(target)
    device = {key.removeprefix("device."): value for key, value in facts.values().items() if key.startswith("device.")}
    device = {key: value for key, value in {**device, **(figures or {})}.items() if value is not None}
    name = "templates/muh/hardware.cuh.j2"
    code = compile_jinja(name, (ROOT / name).read_text())
    return render_template(name, code, {"device": device, "target": facts.name}, lambda other: other.encode())


def lay(folder: Path, target: str, figures: dict[str, object] | None = None) -> Path:
    """Write the headers for a target into a folder and return it."""
    before = os.environ.get("MUH_HEADERS")
    if before:
        return Path(before) / target
    folder.mkdir(parents=True, exist_ok=True)
    for header in MUH.glob("*.cuh"):
        shutil.copyfile(header, folder / header.name)
    (folder / "hardware.cuh").write_text(rendered(target, figures))
    return folder


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a compiler or what it made."""
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def compiled(command: Sequence[str | Path]) -> None:
    """Run a compiler that has to succeed."""
    done = run(command)
    assert done.returncode == 0, done.stderr[-4000:]
