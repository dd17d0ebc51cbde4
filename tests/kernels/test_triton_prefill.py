"""The Triton prefill gives the dense answer (in Triton's interpreter), and its configurations compile and fit.

Both run in processes of their own: the interpreter has to be chosen before Triton is imported, and a compiler may
abort its process.
"""

import json
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "tests/kernels/prefill_cases.py").read_text()
CASES = [name.replace("_", " ") for name in re.findall(r"^@case\ndef (\w+)", SOURCE, re.MULTILINE)]
SHARED_LIMIT = 49_152

pytestmark = pytest.mark.triton


@lru_cache(maxsize=1)
def failures() -> dict[str, str | None]:
    """Run every case in one process with the interpreter; return each one's failure."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.kernels.prefill_cases", "cpu"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-2000:]
    return {row["case"]: row["failure"] for row in found}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    failure = failures()[name]
    assert failure is None, failure


def test_there_are_cases_and_each_one_ran() -> None:
    assert len(CASES) > 20
    assert sorted(failures()) == sorted(CASES)


# ---------------------------------------------------------------------------------------------------------------------
# Compiling ahead of time
# ---------------------------------------------------------------------------------------------------------------------


def rows() -> list[Any]:
    from kernels import prefix_prefill  # noqa: PLC0415 - it needs Triton, which this file may have to do without

    return list(prefix_prefill.ROWS)


def jobs(device: str, capability: int, warps: int, **more: int) -> list[dict[str, Any]]:
    """Return a job for each row of a device, at the largest head size that the row serves."""
    return [
        {
            "capability": capability,
            "dtype": "fp32" if row.dtype == "float32" else "fp16",
            "head_size": row.head_dim,
            "block_m": row.tile.block_m,
            "block_n": row.tile.block_n,
            "num_warps": row.tile.num_warps * warps,
            "num_stages": row.tile.num_stages,
            **more,
        }
        for row in rows()
        if row.device == device
    ]


def compiled(wanted: list[dict[str, Any]], triton: str | None = None) -> list[dict[str, int]]:
    """Compile jobs in a process of their own, with the Triton in the folder `triton` or else the installed one."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    if triton:
        environment["PYTHONPATH"] = triton
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/kernels/compile_prefill.py")],
        input=json.dumps(wanted),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for job, row in zip(wanted, found, strict=True):
        sys.stdout.write(f"{job} {row}\n")
    return found


def model(job: dict[str, Any]) -> int:
    """Shared memory in bytes by KERNELS.md 1.4: exact on sm_80 in half precision for one stage."""
    rows_, keys, size, stages = (job[name] for name in ("block_m", "block_n", "head_size", "num_stages"))
    buffers = 1 if stages == 1 else 2 * (stages - 1)
    return int(2 * (rows_ * size + rows_ * keys + buffers * keys * size))


SMALL = {75: ("bi100", "cuda_48k"), 80: ("bi100", "cuda_48k"), 90: ("bi100", "cuda_48k", "hopper_48k")}


def check_small_rows(capability: int, triton: str | None = None) -> None:
    wanted = [
        job for device in SMALL[capability] for splits in (1, 2) for job in jobs(device, capability, 1, splits=splits)
    ]
    unique = [dict(entries) for entries in dict.fromkeys(tuple(job.items()) for job in wanted)]
    assert unique
    for job, row in zip(unique, compiled(unique, triton), strict=True):
        assert row["shared"] <= SHARED_LIMIT, (job, row)
        tile = job["block_n"] * job["head_size"] // (32 * job["num_warps"])
        # Only one tile is read in small pieces, the values of the context's edge; the other seven are not.
        assert row["loads_2"] <= tile, (job, row)
        assert row["loads_16"] >= 7 * tile * (2 if job["dtype"] == "fp16" else 4) // 16, (job, row)


@pytest.mark.parametrize("capability", [80, 90])
def test_the_small_devices_rows_fit_and_read_keys_and_values_in_16_bytes(capability: int) -> None:
    check_small_rows(capability)


@pytest.mark.skipif("TRITON_2_3_1" not in os.environ, reason="TRITON_2_3_1 names no folder with that version")
@pytest.mark.parametrize("capability", [75, 80])
def test_the_same_holds_for_triton_2_3_1(capability: int) -> None:
    check_small_rows(capability, os.environ["TRITON_2_3_1"])


def test_the_bi_v100_rows_fit_by_the_model_too() -> None:
    for job in jobs("bi100", 80, 1):
        if job["dtype"] == "fp16":
            assert model(job) <= SHARED_LIMIT, job


def test_the_bi_v100_rows_do_not_spill_with_as_many_threads_as_there() -> None:
    wanted = [job for job in jobs("bi100", 80, 2) if job["dtype"] == "fp16"]
    for job, row in zip(wanted, compiled(wanted), strict=True):
        assert row["stack"] == 0, (job, row)


def test_hoppers_rows_fit_its_shared_memory() -> None:
    for job, row in zip(wanted := jobs("hopper", 90, 1), compiled(wanted), strict=True):
        assert row["shared"] <= 232_448, (job, row)


@pytest.mark.parametrize("more", [{"window": True}, {"slopes": True}, {"window": True, "slopes": True}, {"group": 7}])
def test_windows_slopes_and_odd_groups_fit_as_well(more: dict[str, Any]) -> None:
    wanted = [job for job in jobs("bi100", 80, 1, **more) if job["dtype"] == "fp16"]
    for job, row in zip(wanted, compiled(wanted), strict=True):
        assert row["shared"] <= SHARED_LIMIT, (job, row)


def test_every_head_size_and_type_has_a_row_on_every_device() -> None:
    import torch  # noqa: PLC0415 - beside the import below

    from kernels import prefix_prefill  # noqa: PLC0415 - it needs Triton

    for device in {row.device for row in rows()}:
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            for head_size in (64, 80, 96, 112, 120, 128, 192, 256):
                assert prefix_prefill.tile_for(device, dtype, head_size)
    with pytest.raises(NotImplementedError, match="no configuration for 'bi10'"):
        prefix_prefill.tile_for("bi10", torch.float16, 128)
