"""What follows from the device's figures and the table of configurations by arithmetic alone; nothing here was run.

The target's figures are read from its file, the rows from `kernels/muh_dispatch.py`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.paged.report import short, table
from kernels import muh_dispatch
from orchestrator.spec.target import Figure, load_target

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TARGET = "bi100"
LATENCIES_US = (0.5, 0.8, 1.2)
"""Assumed times from asking for memory to having it, loaded; nobody has measured it on the target."""

LATENCY_US = 0.8
HALF = "float16"
GROUP_ROWS = 16
SIZES = (64, 128, 256)


def target_figures() -> dict[str, float]:
    """Return the figures of the device that the derivation uses."""
    path = f"targets/{TARGET}.yaml"
    target = load_target(path, (ROOT / path).read_bytes(), lambda file: (ROOT / file).read_bytes())
    found = {name: figure.value if isinstance(figure, Figure) else figure for name, figure in target.device.items()}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def in_flight(seconds: float, figures: dict[str, float]) -> float:
    """Return the bytes that one multiprocessor must have under way: its share of the bandwidth times the latency."""
    return figures["memory_bandwidth_bytes_per_s"] / figures["sm_count"] * seconds


def littles_law() -> str:
    """Return what Little's law asks of one multiprocessor, for the bandwidth on paper and the one of a copy."""
    figures = target_figures()
    lines = []
    for name, key in (
        ("on paper", "memory_bandwidth_bytes_per_s"),
        ("of a measured copy", "copy_bandwidth_bytes_per_s"),
    ):
        each = figures[key] / figures["sm_count"]
        wanted = [f"{each * us / 1e6 / 1024:.0f} KiB" for us in LATENCIES_US]
        lines.append((f"{name}: {figures[key] / 1e9:.0f} GB/s", f"{each / 1e9:.1f} GB/s", *wanted))
    return table(("bandwidth", "of one multiprocessor", *(f"at {us} µs" for us in LATENCIES_US)), lines)


def threads(row: Any) -> int:  # noqa: ANN401 - a row of either operation
    """Return the threads of a block."""
    return int(row.num_warps * muh_dispatch.DEVICES[row.device].warp)


def registers(row: Any, rows_of_output: int) -> int:  # noqa: ANN401 - the same
    """Return the least 32-bit registers a thread: sums of the output, scores, and a tile of keys and one of values.

    With a pipeline the tiles lie in shared memory. Addresses, the query, statistics and copies for the second product
    come on top: the compiled kernels need two to four times as many.
    """
    output = rows_of_output * row.head_size
    scores = rows_of_output * row.block_n
    tiles = row.block_n * row.head_size if row.num_stages == 1 else 0  # two tiles of two bytes: a register an element
    return int(-(-(output + scores + tiles) // threads(row)))


def _rows_of(known: Any, size: int) -> Iterator[Any]:  # noqa: ANN401 - a table of either operation
    for row in known.values():
        first = row.operation == "prefix_prefill" or row.block_m == GROUP_ROWS
        if first and (row.device, row.dtype, row.head_size) == (TARGET, HALF, size):
            yield row


def decode_rows() -> str:
    """Return the target's rows of decode: what a block takes, and how many of them Little's law asks for."""
    figures = target_figures()
    wanted = in_flight(LATENCY_US / 1e6, figures)
    lines = []
    for row in itertools.chain.from_iterable(_rows_of(muh_dispatch.DECODE, size) for size in SIZES):
        under_way = 2 * row.block_n * row.head_size * 2
        by_threads = int(figures["threads_per_sm"] // threads(row))
        alone = int(figures["shared_memory_per_block_bytes"] // row.shared_bytes)
        lines.append(
            (
                f"d{row.head_size}, {row.block_n} tokens",
                f"{row.num_warps} of {int(figures['warp_size'])}",
                f"{row.shared_bytes:,}",
                registers(row, row.block_m),
                f"{by_threads} / {alone}",
                f"{under_way / 1024:.0f} KiB",
                f"{wanted / under_way:.1f}",
                f"{min(1.0, alone * under_way / wanted):.0%}",
            )
        )
    head = (
        "row",
        "warps",
        "shared memory, B",
        "registers, at least",
        "blocks by threads / by 48 KB",
        "under way a block",
        f"blocks for {LATENCY_US} µs",
        "of the bandwidth with the blocks of 48 KB",
    )
    return table(head, lines)


def prefill_rows() -> str:
    """Return the target's rows of prefill: what a block takes, and whether memory or arithmetic bounds it."""
    figures = target_figures()
    ridge = figures["fp16_tflops"] * 1e12 / figures["memory_bandwidth_bytes_per_s"]
    lines = []
    for row in itertools.chain.from_iterable(_rows_of(muh_dispatch.PREFILL, size) for size in SIZES):
        # Both products of a tile are 4·M·N·D operations on 2·N·D elements of two bytes: M operations a byte.
        bound = min(1.0, row.block_m / ridge) * figures["fp16_tflops"]
        lines.append(
            (
                f"d{row.head_size}, {row.block_m} by {row.block_n}",
                f"{row.num_warps} of {int(figures['warp_size'])}",
                f"{row.shared_bytes:,}",
                registers(row, row.block_m),
                int(figures["shared_memory_per_block_bytes"] // row.shared_bytes),
                f"{row.block_m} of {ridge:.0f}",
                f"{bound:.0f}",
            )
        )
    head = (
        "row",
        "warps",
        "shared memory, B",
        "registers, at least",
        "blocks by 48 KB",
        "operations a byte, of those needed",
        "TFLOP/s if every tile came from memory",
    )
    return table(head, lines)


def every_row() -> str:
    """Return the rows of half precision for the two larger head sizes, with reason and evidence."""
    lines = []
    every: list[Any] = [*muh_dispatch.DECODE.values(), *muh_dispatch.PREFILL.values()]
    for row in every:
        decode = row.operation != "prefix_prefill"
        if row.dtype != HALF or row.head_size not in SIZES[1:] or (decode and row.block_m != GROUP_ROWS):
            continue
        tile = f"{row.block_m} by {row.block_n}, {row.num_warps} warps, {row.num_stages} stages"
        name = f"{row.operation}, {row.device}, d{row.head_size}"
        lines.append((name, tile, f"{row.shared_bytes:,}", row.reason, row.evidence))
    return table(("row", "tile", "shared memory, B", "reason", "evidence"), lines, words=True)


def floor() -> str:
    """Return the time that reading one layer's keys and values takes at least on the target, one KV head of 256."""
    figures = target_figures()
    lines = []
    for tokens in (2, 8, 32, 100):
        size = 2 * tokens * 1024 * 256 * 2
        paper, copy = (1e6 * size / figures[f"{kind}_bandwidth_bytes_per_s"] for kind in ("memory", "copy"))
        launches = 2 * figures["kernel_launch_us"]
        lines.append((f"{tokens}K", f"{size / 2**20:.0f} MiB", short(paper), short(copy), short(launches)))
    return table(
        ("tokens", "keys and values", "at the paper's bandwidth, µs", "at a copy's, µs", "two launches, µs"), lines
    )
