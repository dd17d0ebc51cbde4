"""The part of docs/budgets.md about one target's memory: tokens, the fit to its runs, and what fits which setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.device.budget import Budget, Cache, Setting, accounting, budget, measured_fit
from orchestrator.device.kv_cache import sequences_in
from orchestrator.device.quantity import Known, Unknown, derive, figure
from orchestrator.emit.cells import prose, scaled, table, unscaled
from orchestrator.spec.target import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.device.quantity import Figures
    from orchestrator.spec.target import Target

GIGABYTE, KILO = 10**9, 1000


@dataclass(frozen=True)
class Case:
    """A configuration to judge: its name, and what decides about its memory."""

    name: str
    setting: Setting


def token_lines(target: Target, figures: Figures) -> Iterator[str]:
    """Yield what a token takes, by both accountings, and what is stated of it."""
    ranks = figure(figures, "model.tensor_parallel")
    count = int(ranks.value) if isinstance(ranks, Known) else 1
    rows = []
    for name, key in (("every layer", "model.layers"), ("attention layers alone", "model.attention_layers")):
        layers, size, block = accounting(figures, key, count)
        token = derive(lambda size, block: size / block, size, block)
        whole = derive(lambda token: token * count, token)
        rows.append([name, *(unscaled(q) for q in (layers, size)), unscaled(token), unscaled(whole)])
    yield from prose(
        "The published engine counts every layer of the model; right is to count those with attention, "
        "which alone have paged keys and values."
    )
    yield ""
    yield from table(["counted", "layers", "B a block", "B a token, one rank", f"B a token, {count} ranks"], rows)
    yield from _disputed(target, "kv_bytes_per_token")


def _disputed(target: Target, key: str) -> Iterator[str]:
    """Yield what is stated of a disputed figure of the model or the engine."""
    entry = target.model.get(key, target.engine.get(key))
    if isinstance(entry, Figure):
        yield ""
        yield f"Disputed, `{key}`: {', '.join(f'{value:,}' for value in entry.values)} B ({entry.source})."


def peak_lines(target: Target, figures: Figures) -> Iterator[str]:
    """Yield the fit of the peak to the measured runs, with its residuals."""
    fit = measured_fit(figures, target.memory_runs)
    if isinstance(fit, Unknown):
        yield f"*unknown*, for want of {', '.join(fit.missing)}"
        return
    line = f"{fit.constant_bytes / GIGABYTE:.2f} GB + {fit.bytes_per_token / KILO:.1f} kB a batched token"
    yield from prose(
        "Each measured start tells its peak: `memory * utilisation - blocks * bytes of a block`. The line "
        f"through them by least squares is **{line}**. The constant holds the weights and all else that does "
        "not grow with the batch; the runs do not tell these apart."
    )
    yield ""
    rows = [
        [
            *(str(run.utilisation), f"{run.batched_tokens:,}", str(run.layers), f"{run.blocks:,}"),
            *(f"{point.peak_bytes / GIGABYTE:.2f}", f"{fit.peak_bytes(point.batched_tokens) / GIGABYTE:.2f}"),
            f"{residual / GIGABYTE:+.2f}",
        ]
        for run, point, residual in zip(target.memory_runs, fit.points, fit.residuals_bytes, strict=True)
    ]
    heads = ["utilisation", "batched tokens", "layers", "blocks", "peak, GB", "fitted, GB", "residual, GB"]
    yield from table(heads, rows)
    yield from _disputed(target, "weight_bytes_per_rank")
    yield from _disputed(target, "activation_bytes_at_32768_tokens")


def case_lines(target: Target, figures: Figures, cases: Sequence[Case], contexts: Sequence[int]) -> Iterator[str]:
    """Yield how each case comes out, by both accountings and by what somebody states."""
    yield from prose(
        "Parameters and variants of `pipeline.yaml`, per rank. *Starts* says whether one sequence of the "
        "context length fits, which is what the engine asks; the last columns are how many sequences fit at "
        "a time."
    )
    yield ""
    rows = []
    for case in cases:
        made = budget(figures, target.memory_runs, case.setting)
        rows += [_case(case, made, cache, contexts) for cache in made.caches]
    heads = [
        "configuration",
        "share",
        "batched",
        "sequences",
        "context",
        "counted",
        "KV cache, GB",
        "tokens",
        "known",
        "starts",
    ]
    yield from table([*heads, *(f"of {context:,}" for context in contexts)], rows)
    yield from _all_sequences(target, figures, cases, min(contexts))
    yield from _as_stated(target, figures, cases)


def _case(case: Case, made: Budget, cache: Cache, contexts: Sequence[int]) -> list[str]:
    setting = case.setting
    cells = [case.name, str(setting.utilisation), f"{setting.batched_tokens:,}", f"{setting.sequences:,}"]
    cells += [
        f"{setting.context_tokens:,}",
        cache.accounting,
        scaled(made.cache_bytes, GIGABYTE),
        unscaled(cache.tokens),
    ]
    cells += [cache.basis, _starts(setting, cache)]
    block = derive(lambda tokens, blocks: tokens / blocks, cache.tokens, cache.blocks)
    fitting = (
        derive(lambda blocks, block, c=context: sequences_in(int(blocks), int(block), c), cache.blocks, block)
        for context in contexts
    )
    return [*cells, *(unscaled(count) for count in fitting)]


def _starts(setting: Setting, cache: Cache) -> str:
    if isinstance(cache.tokens, Unknown):
        return "*unknown*"
    return "yes" if setting.context_tokens <= cache.tokens.value else "no"


def _all_sequences(target: Target, figures: Figures, cases: Sequence[Case], context: int) -> Iterator[str]:
    """Yield what all sequences of an average length take, by every stated size of a token, beside what there is."""
    size = figure(figures, "model.kv_bytes_per_token")
    if isinstance(size, Unknown):
        return
    rows = []
    for case in cases:
        setting = case.setting
        taken = [value * setting.sequences * context for value in size.values]
        have = derive(
            lambda left, ranks=setting.ranks: left * ranks, budget(figures, target.memory_runs, setting).cache_bytes
        )
        fits = ["*unknown*" if isinstance(have, Unknown) else "yes" if b <= have.value else "no" for b in taken]
        cells = (f"{b / GIGABYTE:,.1f} ({fit})" for b, fit in zip(taken, fits, strict=True))
        rows.append([case.name, f"{setting.sequences:,}", *cells, scaled(have, GIGABYTE)])
    yield ""
    yield from prose(
        f"KV cache of all sequences at an average context of {context:,} tokens, all ranks together, by every stated "
        "size of a token, and whether it fits what there is:"
    )
    yield ""
    heads = [f"GB at {value:,} B a token" for value in size.values]
    yield from table(["configuration", "sequences", *heads, "there is, GB"], rows)


def _as_stated(target: Target, figures: Figures, cases: Sequence[Case]) -> Iterator[str]:
    """Yield what the seeds' own estimates say of the configurations with that batch, beside the arithmetic."""
    weights = figure(figures, "model.weight_bytes_per_rank")
    rows = []
    for case in cases:
        made = budget(figures, target.memory_runs, case.setting)
        stated = figures.get(f"engine.activation_bytes_at_{case.setting.batched_tokens}_tokens")
        for value in stated.values if isinstance(stated, Known) else ():
            left = derive(lambda given, weights, value=value: given - weights - value, made.given, weights)
            rows.append([case.name, scaled(Known(value), GIGABYTE), scaled(left, GIGABYTE)])
    if not rows:
        return
    yield ""
    yield from prose(
        "With activations as somebody states them, what the weights (every stated value) leave for the "
        "cache of a rank; less than nothing means that the server would not start:"
    )
    yield ""
    yield from table(["configuration", "activations stated, GB", "left, GB"], rows)
