"""The patched tree on a CUDA device: the trials are held for real, and then Triton serves every case.

Run with `pytest -m gpu tests/behaviour/test_on_cuda.py` where `VLLM_PYTHON` has a CUDA build of torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour import cases
from tests.behaviour.conftest import attend
from tests.behaviour.expected import assert_right

if TYPE_CHECKING:
    from pathlib import Path

    from tests.behaviour.conftest import Attended

pytestmark = pytest.mark.gpu
SMALLEST_HEAD = 64


@pytest.fixture(scope="module")
def on_cuda(patched: Path, tmp_path_factory: pytest.TempPathFactory) -> Attended:
    """Every case above the compiled kernel's lengths, and every prefill; nobody has said what is trusted."""
    folder = tmp_path_factory.mktemp("on-cuda")
    return attend(patched, folder, "triton", "--device", "cuda", VLLM_TRITON_TRUST_CACHE=str(folder / "trust"))


@pytest.mark.parametrize("case", cases.ABOVE_V1, ids=lambda case: case.name)
def test_long_decodes_take_the_triton_kernel_and_are_right(case: cases.Decode, on_cuda: Attended) -> None:
    assert_right(case, on_cuda[case.name])
    assert on_cuda[case.name]["paths"] == {"triton v2": [case.limit]}


@pytest.mark.parametrize("case", cases.PREFIXES, ids=lambda case: case.name)
def test_prefills_take_the_triton_kernel_and_are_right(case: cases.Prefix, on_cuda: Attended) -> None:
    assert_right(case, on_cuda[case.name])
    # The table has no row of prefill for heads this small, which vLLM does not list: refused, and PyTorch serves.
    wanted = ["triton"] if case.head_size >= SMALLEST_HEAD else ["triton", "prefix"]
    assert list(on_cuda[case.name]["paths"]) == wanted


@pytest.mark.parametrize("operation", ["prefix_prefill", "paged_decode_v2"])
def test_one_line_says_that_the_trial_passed(operation: str, on_cuda: Attended) -> None:
    lines = [line for line in on_cuda.lines if f"Triton {operation}: trusted" in line]
    assert len(lines) == 1
