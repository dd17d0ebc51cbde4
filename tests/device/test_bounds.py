"""Occupancy, bytes in flight and `scale_mem_bound`: bounds over a device's figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.muh_dispatch import DEVICES, bytes_bound_reduction
from orchestrator.device.bandwidth import bandwidth_per_sm_bytes_per_s, bytes_in_flight_for, latency_covered_ns
from orchestrator.device.memory_bound import MOST_ITEMS, MemoryBound, memory_bound_on, scale_mem_bound
from orchestrator.device.occupancy import Kernel, occupancy
from orchestrator.device.quantity import Known, Unknown
from tests.device.targets import NAMES, figures

BI100, H200 = figures("bi100"), figures("h200")


# --------------------------------------------------------------------------------------------------- occupancy
def test_unknown_registers_make_the_number_of_blocks_unknown_and_leave_an_upper_bound() -> None:
    found = occupancy(BI100, Kernel(threads=256, registers_per_thread=128, shared_bytes=32768))
    assert found.blocks == Unknown(("device.registers_per_sm", "device.shared_memory_per_sm_bytes"))
    assert found.at_most == found.by_threads == Known(32)


@pytest.mark.parametrize(
    ("kernel", "blocks"),
    [
        (Kernel(1024, 32, 0), 2),  # by threads
        (Kernel(256, 128, 0), 2),  # by registers
        (Kernel(128, 32, 100_000), 2),  # by shared memory
        (Kernel(128, 255, 232_448), 1),
        (Kernel(128, 32, 240_000), 0),  # it does not run at all
    ],
)
def test_the_scarcest_resource_decides(kernel: Kernel, blocks: int) -> None:
    found = occupancy(H200, kernel)
    assert found.blocks == found.at_most == Known(blocks)


def test_without_any_figure_nothing_is_claimed() -> None:
    found = occupancy({}, Kernel(64, 32, 1024))
    assert isinstance(found.blocks, Unknown)
    assert isinstance(found.at_most, Unknown)


@pytest.mark.parametrize(("threads", "registers", "shared"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_a_block_without_threads_or_registers_is_none(threads: int, registers: int, shared: int) -> None:
    with pytest.raises(ValueError, match="at least one thread"):
        Kernel(threads, registers, shared)


sizes = st.integers(1, 2048)


@given(sizes, st.integers(1, 255), st.integers(0, 300_000), st.integers(0, 64), st.integers(0, 64), st.integers(0, 999))
def test_a_larger_block_never_fits_more_often(  # noqa: PLR0913, PLR0917 - one draw each
    threads: int, registers: int, shared: int, more_threads: int, more_registers: int, more_shared: int
) -> None:
    small = occupancy(H200, Kernel(threads, registers, shared)).blocks
    large = occupancy(H200, Kernel(threads + more_threads, registers + more_registers, shared + more_shared)).blocks
    assert isinstance(small, Known)
    assert isinstance(large, Known)
    assert large.value <= small.value


# ---------------------------------------------------------------------------------------------- bytes in flight
def test_each_multiprocessor_has_its_share_of_the_bandwidth() -> None:
    assert bandwidth_per_sm_bytes_per_s(BI100) == Known(56.25e9)


@pytest.mark.parametrize(("kilobytes", "nanoseconds"), [(16, 291.3), (32, 582.5)])
def test_bytes_in_flight_cover_a_latency(kilobytes: int, nanoseconds: float) -> None:
    found = latency_covered_ns(BI100, kilobytes * 1024)
    assert isinstance(found, Known)
    assert found.value == pytest.approx(nanoseconds, abs=0.05)


@given(st.integers(0, 2**20))
def test_covered_latency_and_bytes_in_flight_are_each_other_s_inverse(count: int) -> None:
    latency = latency_covered_ns(BI100, count)
    assert isinstance(latency, Known)
    back = bytes_in_flight_for(BI100, latency.value)
    assert isinstance(back, Known)
    assert back.value == pytest.approx(count)


def test_an_unknown_bandwidth_covers_an_unknown_latency() -> None:
    assert latency_covered_ns({"device.sm_count": Known(16)}, 1) == Unknown(("device.memory_bandwidth_bytes_per_s",))


@pytest.mark.parametrize("function", [latency_covered_ns, bytes_in_flight_for])
def test_less_than_nothing_is_refused(function: object) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        function(BI100, -1)  # type: ignore[operator]  # one of two functions of the same shape


# ----------------------------------------------------------------------------------------------- scale_mem_bound
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32, 64])
def test_the_kernels_table_and_this_arithmetic_agree(device: str, size: int) -> None:
    chip = DEVICES[device]
    row = bytes_bound_reduction(device, size)
    found = scale_mem_bound(size, chip.shared_bytes, chip.warp)
    assert (found.threads, found.items, found.fits) == (row.threads, row.items, True)


@pytest.mark.parametrize("device", sorted({"bi100", "h200"} | (DEVICES.keys() & set(NAMES))))
def test_the_kernels_table_has_the_target_s_figures(device: str) -> None:
    found, chip = figures(device), DEVICES[device]
    asked = ("device.shared_memory_per_block_bytes", "device.warp_size", "device.sm_count")
    assert [quantity.value for quantity in map(found.get, asked) if isinstance(quantity, Known)] == [
        *(chip.shared_bytes, chip.warp, chip.sms)
    ]


def test_they_agree_on_the_target_s_figures_too() -> None:
    row = bytes_bound_reduction("bi100", 4)
    assert memory_bound_on(BI100, 4) == MemoryBound(row.threads, row.items, 16384, fits=True)


def test_where_the_table_refuses_a_row_not_one_warp_fits() -> None:
    size = 1024
    with pytest.raises(ValueError, match="not one warp"):
        bytes_bound_reduction("bi100", size)
    found = memory_bound_on(BI100, size)
    assert found == MemoryBound(threads=64, items=1, shared_bytes=65536, fits=False)


def test_the_limit_is_a_parameter() -> None:
    assert memory_bound_on(BI100, 8, Known(8192)) == scale_mem_bound(8, 8192, 64)
    assert memory_bound_on(BI100, 8, Known(8192)) != memory_bound_on(BI100, 8)


def test_an_unknown_limit_or_warp_is_said() -> None:
    assert memory_bound_on({}, 4) == Unknown(("device.shared_memory_per_block_bytes", "device.warp_size"))


@given(st.integers(1, 512), st.integers(1, 2**18), st.sampled_from([32, 64]))
def test_threads_are_whole_warps_and_at_least_one(size: int, limit: int, warp: int) -> None:
    found = scale_mem_bound(size, limit, warp)
    assert found.threads >= warp
    assert found.threads % warp == 0
    assert 1 <= found.items <= MOST_ITEMS
    assert found.fits is (found.shared_bytes <= limit)
    assert found.fits or found.threads == warp


@given(st.integers(1, 128), st.integers(1, 2**18), st.integers(0, 2**16))
def test_more_shared_memory_never_means_fewer_threads(size: int, limit: int, more: int) -> None:
    assert scale_mem_bound(size, limit + more, 64).threads >= scale_mem_bound(size, limit, 64).threads


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_sizes_below_one_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        scale_mem_bound(*wrong)
