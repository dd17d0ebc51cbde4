"""Triton's decode: every case in the interpreter, every row of the table compiled, and the rule that splits sequences.

Both run in child processes: the interpreter has to be chosen before Triton is imported, and a compiler may abort.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import muh_dispatch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLD_TRITON = "TRITON_2_PYTHON"
"""Variable with a Python that has Triton 2.3.1, numpy and setuptools."""

FULL_TILE_BYTES = 16

pytestmark = pytest.mark.triton


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "TRITON_DEFAULT_FP_FUSION": "1", **environment}
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False, timeout=1500)


def test_every_case_is_right_in_the_interpreter() -> None:
    cases = str(HERE / "triton_decode_cases.py")
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cases], TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def compiled(python: str, capabilities: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    done = run([python, str(HERE / "compile_decode.py"), *capabilities], TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stderr[-4000:]
    return (json.loads(line) for line in done.stdout.splitlines())


def check(rows: list[dict[str, Any]]) -> None:
    """Every row fits, is not above its model, spills nothing, and loads keys and values of full tiles in 16 bytes."""
    assert rows
    for row in rows:
        print(json.dumps(row))  # noqa: T201 - the table that a failing run shows
        limit = muh_dispatch.DEVICES[row["device"]].shared_bytes
        assert row["shared"] <= min(limit, row["modelled"]), row
        assert row.get("stack", 0) == row.get("local", 0) == 0, row
        widths = {int(width): count for width, count in row["loads"].items()}
        assert widths.get(FULL_TILE_BYTES, 0) >= 1, row
        # Four bytes are entries of the block table; nothing narrower is left in the loop.
        assert set(widths) - {4} == {FULL_TILE_BYTES, row["key_bytes"]}, row


def test_every_row_compiles_with_triton_3_and_loads_16_bytes_at_a_time() -> None:
    check(list(compiled(sys.executable, ("80", "90"))))


def test_every_row_for_the_bi100_compiles_with_triton_2_3_1_and_loads_16_bytes_at_a_time() -> None:
    python = os.environ.get(OLD_TRITON)
    if not python:
        pytest.skip(f"{OLD_TRITON} does not name a Python with Triton 2.3.1")
    check([row for row in compiled(python, ("80", "75")) if row["device"] == "bi100"])


def split_count(programs: int, tiles: int, config: muh_dispatch.DecodeConfig, sms: int) -> int:
    from kernels import paged_attention_v2_triton  # noqa: PLC0415 - needs triton

    return int(paged_attention_v2_triton.split_count(programs, tiles, config, sms))


configs = st.sampled_from(list(muh_dispatch.DECODE.values()))


@settings(deadline=None)  # the first example imports Triton
@given(programs=st.integers(1, 5000), tiles=st.integers(1, 5000), config=configs, sms=st.sampled_from([16, 132]))
def test_splits_are_at_least_one_and_no_more_than_tiles(
    programs: int, tiles: int, config: muh_dispatch.DecodeConfig, sms: int
) -> None:
    splits = split_count(programs, tiles, config, sms)
    assert 1 <= splits <= tiles
    assert -(-tiles // splits) * config.block_n <= config.max_tokens + config.block_n


@settings(deadline=None)  # the first example imports Triton
@given(tiles=st.integers(1, 5000), config=configs, sms=st.sampled_from([16, 132]))
def test_one_sequence_uses_the_whole_device_where_it_has_the_tiles(
    tiles: int, config: muh_dispatch.DecodeConfig, sms: int
) -> None:
    assert split_count(1, tiles, config, sms) >= min(tiles, sms) / 2


@settings(deadline=None)  # the first example imports Triton
@given(programs=st.integers(1, 200), tiles=st.integers(1, 5000), config=configs)
def test_a_captured_maximum_starts_a_bounded_number_of_programs(
    programs: int, tiles: int, config: muh_dispatch.DecodeConfig
) -> None:
    needed = -(-tiles * config.block_n // config.max_tokens)
    assert split_count(programs, tiles, config, 132) <= max(16 * 132 // programs, needed)
