"""Trials on a CUDA device: of the kernels themselves, and of doubles, some of which misuse the device.

    python -m pytest -m gpu tests/kernels/test_trial_on_gpu.py

All doubles run at once: each costs two processes that import torch, and those that hang cost their time limit.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kernels.trial_scene import DECODE, FAULTS, HERE, PREFILL, Answer, Scene, answer_of, is_running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
LIMIT = "45"


def device() -> str:
    """Return the device's name; empty without one, or without Triton."""
    if importlib.util.find_spec("triton") is None:
        return ""
    import torch  # noqa: PLC0415 - takes seconds wherever these tests are not even run

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    if not device():
        pytest.skip("needs a CUDA device and Triton")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """What a process says that asks for the kernels themselves."""
    scene = Scene(tmp_path_factory.mktemp("kernels"), on_gpu=True)
    process = subprocess.Popen(
        [sys.executable, str(HERE / "ask_trust.py"), str(ROOT), "kernels", PREFILL, DECODE],
        env=scene.environment(),
        cwd=scene.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return answer_of(process)


@pytest.fixture(scope="module")
def scenes(kernels: Answer, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Scene]:
    """A scene for each double; the kernels come first, so that what imports read is in memory."""
    assert kernels.log
    doubles = [*FAULTS, "right", "hangs", "spins_on_the_device", "writes_anywhere"]
    laid = {double: Scene(tmp_path_factory.mktemp(double), on_gpu=True) for double in doubles}
    for double, scene in laid.items():
        scene.lay(double)
    return laid


@pytest.fixture(scope="module")
def answers(scenes: Mapping[str, Scene]) -> Mapping[str, list[Answer]]:
    """What processes say that ask for the doubles: one each, two at once for the right one."""

    def started() -> Iterator[tuple[str, subprocess.Popen[str]]]:
        for double, scene in scenes.items():
            for _ in range(2 if double == "right" else 1):
                yield double, scene.start(asked_of(double), VLLM_TRITON_TRIAL_TIMEOUT_S=LIMIT)

    found: dict[str, list[Answer]] = {}
    for double, process in list(started()):
        found.setdefault(double, []).append(answer_of(process))
    return found


def asked_of(double: str) -> str:
    return DECODE if len(double) % 2 else PREFILL


@pytest.mark.parametrize("operation", [PREFILL, DECODE])
def test_the_kernel_passes_its_trial_here(operation: str, kernels: Answer) -> None:
    print(kernels.line(operation))  # noqa: T201 - the figures, for `-s` or `-rP`
    assert kernels.trusted[operation], kernels.line(operation)
    assert "trial passed: 4 of 4 cases right" in kernels.line(operation)
    assert kernels.path(operation) == "triton"
    [row] = [row for row in kernels.live if row["operation"] == operation]
    assert row["reason"].startswith(f"{device()}, driver ")


@pytest.mark.parametrize("double", FAULTS)
def test_a_double_with_a_fault_is_not_trusted(double: str, answers: Mapping[str, list[Answer]]) -> None:
    [answer] = answers[double]
    line = answer.line(asked_of(double))
    print(line)  # noqa: T201 - the same
    assert f"not trusted, its fallback runs (trial failed: {FAULTS[double]}" in line
    assert answer.path(asked_of(double)) == "pytorch"


@pytest.mark.parametrize("double", ["hangs", "spins_on_the_device"])
def test_a_double_that_hangs_is_killed(
    double: str, scenes: Mapping[str, Scene], answers: Mapping[str, list[Answer]]
) -> None:
    [answer] = answers[double]
    print(answer.line(asked_of(double)))  # noqa: T201 - the same
    assert f"(trial hung: no result within {LIMIT} s" in answer.line(asked_of(double))
    assert not any(is_running(int(process)) for process in scenes[double].runs)
    assert scenes[double].kept(".pending") == []


def test_a_double_that_writes_anywhere_loses_only_its_own_process(answers: Mapping[str, list[Answer]]) -> None:
    [answer] = answers["writes_anywhere"]
    line = answer.line(asked_of("writes_anywhere"))
    print(line)  # noqa: T201 - the same
    assert "not trusted, its fallback runs (trial failed: " in line
    assert "illegal memory access" in line


def test_two_processes_at_once_run_one_trial(scenes: Mapping[str, Scene], answers: Mapping[str, list[Answer]]) -> None:
    operation = asked_of("right")
    assert [answer.trusted for answer in answers["right"]] == [{operation: True}] * 2
    assert len(scenes["right"].runs) == 1


SERVES = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
import torch
from attention_double import prefix_prefill, trust
device = torch.zeros(1, device="cuda").device

def fails():
    raise KeyError("grid")

assert not trust.attempt("paged_decode_v2", fails)
assert torch.ones(3, device=device).sum().item() == 3

def loses_the_device():
    prefix_prefill.write(device)
    torch.cuda.synchronize()

try:
    trust.attempt("prefix_prefill", loses_the_device)
except Exception as error:
    print("raised", type(error).__name__)
"""


def test_while_serving_an_error_that_ends_the_use_of_the_device_is_raised_and_another_is_not(
    scenes: Mapping[str, Scene],
) -> None:
    scene = scenes["writes_anywhere"]
    done = subprocess.run(
        [sys.executable, "-c", SERVES],
        env=scene.environment(VLLM_TRITON_TRUST="all"),
        cwd=scene.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    print(done.stdout)  # noqa: T201 - the same
    wanted = "Triton paged_decode_v2: not trusted any more in this process, its fallback runs (KeyError: 'grid')"
    assert lines[1] == wanted, done.stderr
    assert lines[3].startswith("Triton prefix_prefill: this error ends the use of the device, the error is raised (")
    assert lines[4].startswith("raised ")
