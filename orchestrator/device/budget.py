"""The memory of one rank by use: given to the engine, taken by weights and activations, left for the KV cache.

Every number is a quantity: where a figure is missing, what needs it says so. Where a run with the same utilisation,
batch was measured, its blocks and its peak are taken; otherwise the peak is the fit to all measured runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.device.kv_cache import Accounting, blocks_in, cache_bytes, sequences_in, tokens_in
from orchestrator.device.peak import PeakFit, Point, fit_peak, peak_of_run
from orchestrator.device.quantity import Known, Quantity, Unknown, derive, figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.device.quantity import Figures
    from orchestrator.spec.serving import MemoryRun

MEMORY = "device.memory_bytes"
WEIGHTS = "model.weight_bytes_per_rank"
RUNS = "memory_runs"
GRAPHS = "engine.graph_capture_bytes"
STOCK, RIGHT = "every layer", "attention layers"


@dataclass(frozen=True)
class Setting:
    """What decides about memory: share of it for the engine, tokens of a batch, context, sequences, ranks.

    `eager` says whether no graphs are captured; None where that is not known.
    """

    utilisation: float
    batched_tokens: int
    context_tokens: int
    sequences: int
    ranks: int
    eager: bool | None = None


@dataclass(frozen=True)
class Cache:
    """The KV cache by one accounting: bytes, blocks, tokens, and how that is known."""

    accounting: str
    layers: Quantity
    block_bytes: Quantity
    blocks: Quantity
    tokens: Quantity
    sequences: Quantity
    """Sequences of the whole context length that fit at a time."""
    basis: str
    """`measured`, `derived` from the peak of a measured run, `fitted` to all of them, or `unknown`."""
    tokens_spread: Quantity
    """How many tokens the largest residual of the fit is worth; 0 for a measured run."""


@dataclass(frozen=True)
class Budget:
    """The memory of one rank, by use, in bytes."""

    setting: Setting
    memory: Quantity
    given: Quantity
    peak: Quantity
    weights: Quantity
    activation: Quantity
    """What the peak has beyond the weights: activations, and all else that the runs do not tell apart from them."""
    cache_bytes: Quantity
    graphs: Quantity
    reserve: Quantity
    caches: tuple[Cache, ...]


def accounting(figures: Figures, layers_figure: str, ranks: int) -> tuple[Quantity, Quantity, Quantity]:
    """Return layers, bytes of a block and tokens of a block where `layers_figure` counts the layers."""
    layers, block = figure(figures, layers_figure), figure(figures, "engine.block_size")
    heads = derive(lambda heads: max(1, heads // ranks), figure(figures, "model.kv_heads"))
    needed = (layers, heads, figure(figures, "model.head_dim"), block, figure(figures, "engine.cache_element_bytes"))
    size = derive(lambda *numbers: Accounting(*numbers).block_bytes, *needed)
    return layers, size, block


def measured_fit(figures: Figures, runs: Sequence[MemoryRun]) -> PeakFit | Unknown:
    """Return the fit to the target's measured runs; unknown without two batch sizes, or without a figure it needs.

    The runs are those of the target's own tensor parallelism (`model.tensor_parallel`).
    """
    memory, ranks = figure(figures, MEMORY), figure(figures, "model.tensor_parallel")
    if isinstance(memory, Unknown) or isinstance(ranks, Unknown):
        return Unknown(tuple(name for q in (memory, ranks) if isinstance(q, Unknown) for name in q.missing))
    _, size, _ = accounting(figures, "model.layers", int(ranks.value))
    one = derive(lambda size, layers: size / layers, size, figure(figures, "model.layers"))
    if isinstance(one, Unknown):
        return one
    points = [
        Point(run.batched_tokens, peak_of_run(memory.value, run.utilisation, run.blocks, round(one.value * run.layers)))
        for run in runs
    ]
    return fit_peak(points) or Unknown((RUNS,))


def budget(figures: Figures, runs: Sequence[MemoryRun], setting: Setting) -> Budget:
    """Return the memory of one rank under `setting`, with the cache by both accountings."""
    memory = figure(figures, MEMORY)
    fit = measured_fit(figures, runs)
    other_ranks = figure(figures, "model.tensor_parallel") != Known(setting.ranks)
    if other_ranks:
        fit = Unknown((f"{RUNS} at tensor parallel {setting.ranks}",))
    weights = Unknown((f"{WEIGHTS} at tensor parallel {setting.ranks}",)) if other_ranks else figure(figures, WEIGHTS)
    usable = [] if other_ranks else [run for run in runs if _alike(run, setting)]
    peak = _peak(figures, usable, setting, fit)
    caches = tuple(
        _cache(_Counting(figures, setting, name, layers), usable, derive(_left_under(setting), memory, peak), fit)
        for name, layers in ((STOCK, "model.layers"), (RIGHT, "model.attention_layers"))
    )
    return Budget(
        setting,
        memory,
        derive(lambda memory: memory * setting.utilisation, memory),
        peak,
        weights,
        derive(lambda peak, weights: peak - weights, peak, weights),
        derive(_left_under(setting), memory, peak),
        Known(0) if setting.eager else figure(figures, GRAPHS),
        derive(lambda memory: memory * (1 - setting.utilisation), memory),
        caches,
    )


def _peak(figures: Figures, usable: Sequence[MemoryRun], setting: Setting, fit: PeakFit | Unknown) -> Quantity:
    """Return the peak of a run that was measured like this, else the fitted one."""
    if usable:
        _, size, _ = accounting(figures, "model.layers", setting.ranks)
        return derive(
            lambda memory, size, layers: peak_of_run(
                memory, setting.utilisation, usable[0].blocks, size // layers * usable[0].layers
            ),
            figure(figures, MEMORY),
            size,
            figure(figures, "model.layers"),
        )
    return fit if isinstance(fit, Unknown) else Known(fit.peak_bytes(setting.batched_tokens))


def _alike(run: MemoryRun, setting: Setting) -> bool:
    return (run.utilisation, run.batched_tokens) == (setting.utilisation, setting.batched_tokens)


def _left_under(setting: Setting) -> Callable[[float, float], int]:
    return lambda memory, peak: cache_bytes(memory, setting.utilisation, peak)


@dataclass(frozen=True)
class _Counting:
    """Which layers are counted, by the name of the accounting and the figure that says how many they are."""

    figures: Figures
    setting: Setting
    name: str
    layers: str


def _cache(counting: _Counting, runs: Sequence[MemoryRun], left: Quantity, fit: PeakFit | Unknown) -> Cache:
    """Return the cache in `left` bytes; `runs` are those measured under this setting, with whatever layers counted."""
    layers, size, block = accounting(counting.figures, counting.layers, counting.setting.ranks)
    run = next((run for run in runs if layers == Known(run.layers)), None)
    blocks: Quantity = derive(blocks_in, left, size) if run is None else Known(run.blocks)
    off: Quantity = Known(0) if runs else fit if isinstance(fit, Unknown) else Known(fit.uncertainty_bytes)
    basis = "measured" if run else "derived" if runs else "fitted"
    context = counting.setting.context_tokens
    return Cache(
        counting.name,
        layers,
        size,
        blocks,
        tokens=derive(tokens_in, blocks, block),
        sequences=derive(lambda blocks, block: sequences_in(blocks, block, context), blocks, block),
        basis="unknown" if isinstance(blocks, Unknown) else basis,
        tokens_spread=derive(lambda off, size, block: int(off // size) * block, off, size, block),
    )
