"""The installed engine: its interpreter, the environment that it serves in, and the tiny model that it serves.

`serve_command` and `environment` start it; where else its modules are to come from, put that on PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.workspaces import ROOT

HERE = Path(__file__).parent
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
}
CONTEXT_TOKENS = 1024
LONGEST_S = 600


def interpreter() -> Path:
    """Return the interpreter of the engine's environment; skip the test where there is none, which fails in CI."""
    named = os.environ.get("ENGINE_PYTHON")
    found = Path(named) if named else ROOT / ".venv-engine" / "bin" / "python"
    if not found.is_file():
        pytest.skip(f"serving needs tests/serving_engine/requirements.txt: there is no {found}")
    return found


def serve_command(model: Path, *further: str) -> list[str]:
    """Return the command line that serves `model` on this machine alone; the port is for `further` to say."""
    program = interpreter().parent / "vllm"
    fixed = ["--enforce-eager", "--max-model-len", str(CONTEXT_TOKENS), "--enable-prompt-tokens-details"]
    return [str(interpreter()), str(program), "serve", str(model), *fixed, "--host", "127.0.0.1", *further]


def write_model(folder: Path) -> Path:
    """Make the tiny model in `folder`, which need not exist, and return it."""
    done = subprocess.run(
        [interpreter(), HERE / "tiny_model.py", folder],
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return folder
