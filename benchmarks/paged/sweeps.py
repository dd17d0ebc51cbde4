"""Two questions beside the tables: is there a step between batch sizes, and does time follow the real length."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.paged import cells, ours
from benchmarks.paged.clock import measure
from benchmarks.paged.data import Paged, Step, error_of, sets_for
from benchmarks.paged.machine import l2_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_MS = 8.0


def steps(kernels: ours.Kernels) -> dict[str, dict[str, float]]:
    """Return, for each kind of heads, the microseconds of every batch size from 1 on."""
    module = kernels.module(ours.DECODE)
    found: dict[str, dict[str, float]] = {}
    for heads in cells.STEP_HEADS:
        most = cells.STEP_BATCHES
        step = Step.of(Paged(heads, [cells.STEP_TOKENS] * most, "cuda"))
        batches = range(1, most + 1)
        found[str(heads)] = {str(batch): _of_batch(step, batch, module) for batch in batches}
        torch.cuda.empty_cache()
    return found


def _of_batch(step: Step, batch: int, module: Any) -> float:  # noqa: ANN401 - a module known at run time
    """Time `batch` of the sequences; calls rotate over the others, so that the data is cold."""
    calls = [
        ours.decode_call(_part(step, first, batch), module) for first in range(0, cells.STEP_BATCHES - batch + 1, batch)
    ]

    def call(index: int) -> torch.Tensor:
        return calls[index](0)

    return float(f"{measure(call, len(calls), device='cuda', budget_ms=STEP_MS).us:.4g}")


def _part(step: Step, first: int, batch: int) -> Step:
    """Return some of the sequences of a step, on the same caches."""
    paged = step.paged
    some = Paged(paged.heads, [1] * batch, paged.device)
    some.lengths, some.table, some.caches = (
        [cells.STEP_TOKENS] * batch,
        paged.table[first : first + batch],
        paged.caches,
    )
    return replace(step, paged=some, query=step.query[first : first + batch])


def bounds(kernels: ours.Kernels) -> list[dict[str, Any]]:
    """Return how long sequences far below the bound take: with that bound, with their own, and as long as the bound."""
    module = kernels.module(ours.DECODE)
    real, bound = cells.BOUNDS
    found = []
    for heads, batch in ((cells.QWEN_RANK, 1), (cells.QWEN_RANK, 8), (cells.LLAMA, 1)):
        times: dict[str, Any] = {"heads": str(heads), "batch": batch, "real": real, "bound": bound}
        for name, length, told in (("bounded us", real, bound), ("exact us", real, real), ("full us", bound, bound)):
            sets = sets_for(2 * batch * length * heads.kv * heads.size * cells.HALF_BYTES, l2_bytes(), most=16)
            paged = Paged(heads, [length] * batch, "cuda", sets)
            if told > length:  # the table of a captured graph is as wide as the bound
                wide = paged.table.new_zeros(batch, -(-told // cells.PAGE))
                wide[:, : paged.width] = paged.table
                paged.table = wide
            step = Step.of(paged, told)
            call: Callable[[int], torch.Tensor] = ours.decode_call(step, module)
            times[name] = float(f"{measure(call, sets, device='cuda').us:.4g}")
            times[name.replace("us", "error")] = float(f"{error_of(call(0), step):.2g}")
            torch.cuda.empty_cache()
        found.append(times)
    return found
