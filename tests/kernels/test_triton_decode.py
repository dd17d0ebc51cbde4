"""Triton's decode: its own cases in the interpreter, and the rule that splits sequences."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import muh_dispatch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
pytestmark = pytest.mark.triton


def test_every_case_is_right_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    # The interpreter has to be chosen before Triton is imported.
    environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1", "VLLM_MUH_DEVICE": "h200"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "triton_decode_cases.py")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def split_count(programs: int, tiles: int, config: muh_dispatch.DecodeConfig, sms: int) -> int:
    pytest.importorskip("triton")
    kernels = importlib.import_module("kernels.paged_attention_v2_triton")
    return int(kernels.split_count(programs, tiles, config, sms))


configs = st.sampled_from(list(muh_dispatch.DECODE.values()))


@given(programs=st.integers(1, 5000), tiles=st.integers(1, 5000), config=configs, sms=st.sampled_from([16, 132]))
def test_splits_are_at_least_one_and_no_more_than_tiles(
    programs: int, tiles: int, config: muh_dispatch.DecodeConfig, sms: int
) -> None:
    splits = split_count(programs, tiles, config, sms)
    assert 1 <= splits <= tiles
    assert -(-tiles // splits) * config.block_n <= config.max_tokens + config.block_n


@given(tiles=st.integers(1, 5000), config=configs, sms=st.sampled_from([16, 132]))
def test_one_sequence_uses_the_whole_device_where_it_has_the_tiles(
    tiles: int, config: muh_dispatch.DecodeConfig, sms: int
) -> None:
    assert split_count(1, tiles, config, sms) >= min(tiles, sms) / 2


@given(programs=st.integers(1, 200), tiles=st.integers(1, 5000), config=configs)
def test_a_captured_maximum_starts_a_bounded_number_of_programs(
    programs: int, tiles: int, config: muh_dispatch.DecodeConfig
) -> None:
    needed = -(-tiles * config.block_n // config.max_tokens)
    assert split_count(programs, tiles, config, 132) <= max(16 * 132 // programs, needed)
