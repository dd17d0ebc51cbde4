"""CUB reduces and transforms rightly with our policies; how fast, beside its own, is reported and not judged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from tests.muh import headers

pytestmark = pytest.mark.gpu
ROWS = 16
"""Three reductions and a transform, each of four sizes."""


def test_cub_gives_the_right_results_with_our_policies(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    major, minor = torch.cuda.get_device_capability()
    program = tmp_path / "cub"
    include = ("-I", headers.lay(tmp_path / "muh", os.environ.get("MUH_TARGET", "bi100")))
    source = Path(__file__).with_name("cub.cu")
    flags = ("-std=c++17", "-O3", f"-arch=sm_{major}{minor}", "-Werror=all-warnings")
    headers.compiled([headers.NVCC, *flags, *include, source, "-o", program])
    done = headers.run([program])
    print(done.stdout)  # noqa: T201 - `pytest -s` shows the times
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert len(rows) == ROWS
    assert [row for row in rows if not row["right"]] == []
