"""The table of kernel configurations: all of it fits, nothing that does not fit can be made, no name is guessed."""

import ast
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import muh_dispatch
from kernels.muh_dispatch import DECODE, DEVICES, PREFILL, DecodeConfig, PrefillConfig
from orchestrator.spec.target import load_target

KERNELS = Path(muh_dispatch.__file__).parent
ROOT = KERNELS.parent


@pytest.mark.parametrize("row", [*DECODE.values(), *PREFILL.values()], ids=lambda row: row.label)
def test_every_row_fits_its_device_and_says_why(row: DecodeConfig | PrefillConfig) -> None:
    assert row.shared_bytes <= DEVICES[row.device].shared_bytes
    assert row.reason
    assert row.evidence


@pytest.mark.parametrize("device", ["bi100", "cuda_48k", "h200_48k"])
@pytest.mark.parametrize("table", [DECODE, PREFILL], ids=["decode", "prefill"])
def test_rows_for_the_small_devices_fit_48_kilobytes(
    device: str, table: Mapping[muh_dispatch.Key, DecodeConfig | PrefillConfig]
) -> None:
    rows = [row for row in table.values() if row.device == device]
    assert rows
    assert max(row.shared_bytes for row in rows) <= 49_152


@pytest.mark.parametrize("head_size", [64, 80, 96, 112, 120, 128, 192, 256])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("group", [1, 4, 16, 17, 71])
def test_every_head_size_of_vllm_has_a_row(head_size: int, dtype: str, device: str, group: int) -> None:
    row = muh_dispatch.decode_config(device, dtype, head_size, group)
    assert row.head_size >= head_size
    assert row.block_m >= min(group, 16)
    assert muh_dispatch.prefill_config(device, dtype, head_size).head_size == row.head_size


@pytest.mark.parametrize("head_size", [64, 80, 96, 112, 120, 128, 192, 256])
@pytest.mark.parametrize("device", DEVICES)
def test_prefill_serves_float32_on_every_device(head_size: int, device: str) -> None:
    assert muh_dispatch.prefill_config(device, "float32", head_size).head_size >= head_size


def test_a_row_that_does_not_fit_cannot_be_built_and_says_the_numbers() -> None:
    row = muh_dispatch.decode_config("bi100", "float16", 128, 4)
    with pytest.raises(ValueError, match=r"needs 71680 B of shared memory, bi100 has 49152 B"):
        dataclasses.replace(row, block_n=64, num_stages=3)


@given(
    block_n=st.sampled_from([16, 32, 64, 128, 256]),
    head_size=st.sampled_from([64, 128, 256]),
    stages=st.integers(1, 6),
    block_m=st.sampled_from([16, 32]),
)
def test_a_row_exists_exactly_where_it_fits(block_n: int, head_size: int, stages: int, block_m: int) -> None:
    row = muh_dispatch.decode_config("bi100", "float16", head_size, 4)
    needed = muh_dispatch.decode_shared_bytes(
        block_m=block_m, block_n=block_n, head_size=head_size, element_bytes=2, num_stages=stages
    )
    try:
        built = dataclasses.replace(row, block_m=block_m, block_n=block_n, num_stages=stages)
    except ValueError:
        assert needed > 49_152
    else:
        assert built.shared_bytes == needed <= 49_152


@pytest.mark.parametrize(
    "change",
    [
        {"block_n": 48},
        {"block_n": 8},
        {"num_stages": 0},
        {"resident": 0},
        {"num_warps": 3},
        {"key_dims": 4},
        {"max_tokens": 0},
        {"reason": ""},
        {"evidence": ""},
    ],
)
def test_a_row_that_the_decode_kernel_cannot_take_cannot_be_built(change: dict[str, object]) -> None:
    row = muh_dispatch.decode_config("bi100", "float16", 64, 4)
    with pytest.raises(ValueError, match="paged_decode_v2 on bi100"):
        dataclasses.replace(row, **change)  # type: ignore[arg-type] # one field of any type


@pytest.mark.parametrize(
    "change",
    [
        {"block_m": 48},
        {"block_n": 8},
        {"block_m": 128},
        {"num_stages": 0},
        {"resident": 0},
        {"num_warps": 3},
        {"key_parts": 3},
        {"head_size": 16, "key_parts": 2},
        {"merge_rows": 6},
        {"split_keys": 0},
        {"reason": ""},
        {"evidence": ""},
    ],
)
def test_a_row_that_the_prefill_kernel_cannot_take_cannot_be_built(change: dict[str, object]) -> None:
    row = muh_dispatch.prefill_config("bi100", "float16", 128)
    with pytest.raises(ValueError, match="prefix_prefill on bi100"):
        dataclasses.replace(row, **change)  # type: ignore[arg-type] # one field of any type


def test_products_of_four_warps_need_less_shared_memory_and_only_where_the_device_has_them() -> None:
    row = muh_dispatch.prefill_config("h200_48k", "float16", 256)
    assert row.shared_bytes == 49_152
    with pytest.raises(ValueError, match=r"needs 53248 B of shared memory, cuda_48k has 49152 B"):
        dataclasses.replace(row, device="cuda_48k")
    with pytest.raises(ValueError, match=r"needs 53248 B of shared memory, h200_48k has 49152 B"):
        dataclasses.replace(row, num_warps=2)


def test_two_rows_with_one_key_are_refused() -> None:
    row = muh_dispatch.decode_config("bi100", "float16", 64, 4)
    with pytest.raises(ValueError, match="two rows"):
        muh_dispatch.table([row, dataclasses.replace(row, num_warps=8)])
    prefill = muh_dispatch.prefill_config("bi100", "float16", 64)
    with pytest.raises(ValueError, match="two rows"):
        muh_dispatch.table([prefill, dataclasses.replace(prefill, num_warps=8)])


@pytest.mark.parametrize(
    ("device", "dtype", "message"),
    [
        ("bi10", "float16", "no device is called 'bi10'; did you mean 'bi100'"),
        ("h200", "floot16", "did you mean 'float16'"),
        ("h200", "int4", "no type is called 'int4'"),
        ("bi100", "float32", "no paged_decode_v2 row on bi100 for float32"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(device: str, dtype: str, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        muh_dispatch.decode_config(device, dtype, 128, 4)


@pytest.mark.parametrize(
    ("device", "dtype", "message"),
    [
        ("hopper", "float16", "no device is called 'hopper'; there are: bi100, h200, h200_48k, cuda_48k"),
        ("cuda48k", "float16", "no device is called 'cuda48k'; did you mean 'cuda_48k'"),
        ("h200", "half", "no type is called 'half'"),
    ],
)
def test_an_unknown_name_is_an_error_for_prefill_too(device: str, dtype: str, message: str) -> None:
    with pytest.raises(LookupError, match=message):
        muh_dispatch.prefill_config(device, dtype, 128)


def test_a_head_size_without_a_row_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(LookupError, match=r"head size 512; there are: \[16, 32, 64, 128, 256\]"):
        muh_dispatch.decode_config("h200", "float16", 512, 4)
    with pytest.raises(LookupError, match=r"head size 512; there are: \[64, 128, 256\]"):
        muh_dispatch.prefill_config("h200", "float16", 512)


@pytest.mark.parametrize(
    ("name", "width"), [("bi100_plus_float32_o4", 4), ("bi100_plus_float64_o4", 8), ("bi100_plus_accum2_o4", 2)]
)
def test_the_seeds_names_have_rows_with_the_same_bytes_in_flight(name: str, width: int) -> None:
    row = muh_dispatch.reduce_config(name)
    assert row.accumulator_bytes == width
    assert row.threads * row.items * width == 16_384
    assert row.vector == min(16 // width, muh_dispatch.MOST_VECTOR)
    assert row.threads % DEVICES["bi100"].warp == 0
    assert "derived" in row.evidence


def test_another_spelling_of_a_seeds_name_is_an_error_never_a_default() -> None:
    with pytest.raises(LookupError, match="did you mean 'bi100_plus_float32_o4'"):
        muh_dispatch.reduce_config("bi100_float32_plus_o4")


@given(width=st.integers(1, 4096))
def test_a_reduction_exists_exactly_where_one_warp_of_it_fits(width: int) -> None:
    if 64 * width > 49_152:
        with pytest.raises(ValueError, match="not one warp"):
            muh_dispatch.bytes_bound_reduction("bi100", width)
        return
    row = muh_dispatch.bytes_bound_reduction("bi100", width)
    assert 0 < row.threads * row.items * width <= 49_152


def test_a_reduction_that_does_not_fit_is_refused() -> None:
    row = muh_dispatch.reduce_config("bi100_plus_float32_o4")
    with pytest.raises(ValueError, match="need 65536 B"):
        dataclasses.replace(row, items=64)
    with pytest.raises(ValueError, match="whole warps of 64"):
        dataclasses.replace(row, threads=96)


@pytest.mark.parametrize(
    ("name", "shared", "rows"),
    [
        ("Iluvatar BI-V100", 49_152, "bi100"),
        ("Iluvatar BI-V100", 262_144, "bi100"),
        ("NVIDIA H200", 232_448, "h200"),
        ("NVIDIA A100-SXM4-80GB", 166_912, "cuda_48k"),
    ],
)
def test_a_device_gets_rows_that_fit_it(name: str, shared: int, rows: str) -> None:
    assert muh_dispatch.device_of(name, shared, {}) == rows


def test_a_device_that_no_row_fits_is_an_error() -> None:
    with pytest.raises(ValueError, match="32768 B"):
        muh_dispatch.device_of("something small", 32_768, {})


@pytest.mark.parametrize("name", DEVICES)
def test_the_variable_forces_any_devices_rows_on_a_device_that_has_room_for_them(name: str) -> None:
    forced = {"VLLM_MUH_DEVICE": name}
    assert muh_dispatch.device_of("NVIDIA H200", 232_448, forced) == name
    if name == "h200":
        with pytest.raises(ValueError, match="rows for h200 need up to 232448 B"):
            muh_dispatch.device_of("NVIDIA A100-SXM4-80GB", 166_912, forced)


@pytest.mark.parametrize(("name", "hint"), [("h200_48", "did you mean 'h200_48k'"), ("", "there are: bi100")])
def test_the_variable_with_an_unknown_name_is_an_error_never_a_default(name: str, hint: str) -> None:
    with pytest.raises(LookupError, match=rf"device \(VLLM_MUH_DEVICE\) is called '{name}'; {hint}"):
        muh_dispatch.device_of("NVIDIA H200", 232_448, {"VLLM_MUH_DEVICE": name})


def test_the_variable_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_MUH_DEVICE", "cuda_48k")
    assert muh_dispatch.device_of("NVIDIA H200", 232_448) == "cuda_48k"


@given(st.integers(1, 4096))
def test_padding_goes_to_the_next_power_of_two(head_size: int) -> None:
    found = muh_dispatch.padded(head_size)
    assert found >= head_size
    assert math.log2(found).is_integer()
    assert found == 16 or found < 2 * head_size


@pytest.mark.parametrize("name", ["paged_attention_v2_triton.py", "prefix_prefill.py"])
def test_the_kernels_hold_no_tile_size_of_their_own(name: str) -> None:
    tree = ast.parse((KERNELS / name).read_text())
    launches = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)]
    assert len(launches) == 2
    for launch in launches:
        sizes = {keyword.arg for keyword in launch.keywords}
        assert sizes >= {"num_warps", "num_stages"}
        for value in (*launch.args, *(keyword.value for keyword in launch.keywords)):
            assert not isinstance(value, ast.Constant), ast.unparse(value)


def test_the_bi100_is_the_one_of_the_targets_facts() -> None:
    content = (ROOT / "targets/bi100.yaml").read_bytes()
    facts = load_target("targets/bi100.yaml", content, lambda path: (ROOT / path).read_bytes()).values()
    device = muh_dispatch.DEVICES["bi100"]
    found = (device.shared_bytes, device.sms, device.warp)
    assert found == tuple(
        facts[f"device.{name}"] for name in ("shared_memory_per_block_bytes", "sm_count", "warp_size")
    )
