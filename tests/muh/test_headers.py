"""The tuning headers say what the Python table and the device's arithmetic say, and refuse what does not fit."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest

from kernels import muh_dispatch
from orchestrator.device.memory_bound import scale_mem_bound
from tests.device.targets import target as facts
from tests.muh import headers

HERE = Path(__file__).parent
FIELDS = {
    "sm_count": "sm_count",
    "warp_threads": "warp_size",
    "threads_per_sm": "threads_per_sm",
    "max_shared_memory_per_block": "shared_memory_per_block_bytes",
    "preferred_shared_memory_per_block": "shared_memory_preferred_bytes",
    "memory_bandwidth": "memory_bandwidth_bytes_per_s",
    "bytes_in_flight_per_sm": "bytes_in_flight_per_sm",
}
"""Field of the header → figure of the target, in the header's order."""


def printed(
    folder: Path, target: str, lines: str = "", *, flags: tuple[str, ...] = (), host: str = "g++"
) -> list[list[str]]:
    """Return the words of each line that the small program prints for a target."""
    program = folder / "constants"
    source = folder / ("constants.cu" if host == headers.NVCC else "constants.cpp")
    source.write_bytes((HERE / "constants.cpp").read_bytes())
    warnings = headers.NVCC_WARNINGS if host == headers.NVCC else headers.WARNINGS
    headers.compiled([host, *warnings, *flags, "-I", headers.lay(folder / "muh", target), source, "-o", program])
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def of(found: list[list[str]], word: str) -> list[list[str]]:
    return [line[1:] for line in found if line[0] == word]


@pytest.mark.parametrize("host", headers.COMPILERS)
@pytest.mark.parametrize("target", headers.TARGETS)
def test_every_target_gives_headers_that_compile_without_a_warning_and_hold_its_figures(
    target: str, host: str, tmp_path: Path
) -> None:
    [values] = of(printed(tmp_path, target, host=host), "hardware")
    known = facts(target).values()
    assert values == [str(known[f"device.{figure}"]) for figure in FIELDS.values()]


def test_the_named_policies_are_those_of_the_python_table_figure_by_figure(tmp_path: Path) -> None:
    found = {name: tuple(map(int, figures)) for name, *figures in of(printed(tmp_path, "bi100"), "tuning")}
    assert found == {
        name: (row.accumulator_bytes, row.threads, row.items, row.vector)
        for name, row in muh_dispatch.REDUCTIONS.items()
    }


@pytest.mark.parametrize("target", ["bi100", "h200"])
def test_the_selector_chooses_for_every_accumulator_what_the_python_table_would(target: str, tmp_path: Path) -> None:
    found = of(printed(tmp_path, target), "selected")
    assert [size for size, *_ in found] == ["1", "2", "4", "8", "16"]
    for size, *figures in found:
        row = muh_dispatch.bytes_bound_reduction(target, int(size))
        assert list(map(int, figures)) == [row.threads, row.items, row.vector]


def test_scaling_agrees_with_the_arithmetic_of_the_device_on_sizes_of_all_kinds(tmp_path: Path) -> None:
    sizes = itertools.product((1, 2, 3, 4, 7, 8, 16, 24, 300), (1, 500, 4096, 32_768, 49_152, 200_000))
    cases = [(*size, *rest) for size in sizes for rest in itertools.product((32, 64), (64, 256, 512), (1, 16, 40))]
    found = of(printed(tmp_path, "bi100", "\n".join(" ".join(map(str, case)) for case in cases)), "scaled")
    assert len(found) == len(cases)
    for (type_bytes, limit, warp, threads, items), words in zip(cases, found, strict=True):
        wanted = scale_mem_bound(type_bytes, limit, warp, threads, items)
        assert list(map(int, words)) == [wanted.threads, wanted.items, wanted.fits]


def test_a_transform_keeps_the_target_s_bytes_in_flight_where_its_bounds_allow(tmp_path: Path) -> None:
    found = printed(tmp_path, "bi100")
    [[threads, in_flight, limit]] = [list(map(int, words)) for words in of(found, "transform")]
    assert in_flight == facts("bi100").values()["device.bytes_in_flight_per_sm"]
    rows = [tuple(map(int, words)) for words in of(found, "items")]
    assert len(rows) == 65 * 4
    for loaded, blocks, items in rows:
        if loaded:
            least = -(-in_flight // (blocks * threads * loaded))
            assert items == max(1, min(least, 32, limit // (threads * loaded)))
        else:
            assert items == 2


def test_the_limit_is_a_parameter_and_the_default_is_not_the_device_s(tmp_path: Path) -> None:
    smaller = printed(tmp_path, "bi100", flags=("-DMUH_MAX_SHARED_MEMORY_PER_BLOCK=32768",))
    assert of(smaller, "hardware")[0][3] == "32768"
    assert of(smaller, "transform")[0][2] == "32768"
    assert of(smaller, "default_max_smem") == [["49152"]]


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"sm_count": None}, "how many multiprocessors"),
        ({"warp_size": None}, "how many threads a warp has"),
        ({"warp_size": 96}, "not whole warps"),
        ({"shared_memory_per_block_bytes": None}, "what a block may have"),
        ({"shared_memory_per_block_bytes": 512, "shared_memory_preferred_bytes": 512}, "does not fit the device"),
        ({"shared_memory_preferred_bytes": 65536}, "over the limit"),
        ({"bytes_in_flight_per_sm": None}, "what keeps its memory busy"),
        ({"bytes_in_flight_per_sm": 2**21}, "do not keep the bytes in flight"),
        ({"threads_per_sm": None}, "how many threads a multiprocessor holds"),
    ],
)
def test_a_device_that_the_policies_do_not_fit_does_not_compile_and_the_reason_is_said(
    figures: dict[str, object], said: str, tmp_path: Path
) -> None:
    folder = headers.lay(tmp_path / "muh", "bi100", figures)
    done = headers.run(["g++", "-std=c++17", "-fsyntax-only", "-I", folder, HERE / "constants.cpp"])
    assert done.returncode != 0
    assert said in done.stderr


def test_no_name_of_the_table_is_missing_from_the_headers_and_none_is_made_up() -> None:
    text = (headers.MUH / "tuning_reduce.cuh").read_text()
    assert set(re.findall(r"struct (bi100_plus_\w+)", text)) == set(muh_dispatch.REDUCTIONS)
