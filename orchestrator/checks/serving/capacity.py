"""Whether the context fits the KV cache that the engine will make: before the server finds out when it starts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.serving.argv import Flags, number, share
from orchestrator.checks.serving.effective import (
    EAGER,
    LENGTH,
    OVERRIDE,
    RANKS,
    UTILISATION,
    Context,
    Forcing,
    batched,
    length,
    sequences,
)
from orchestrator.checks.serving.options import defines
from orchestrator.core.diagnostics import Diagnostic
from orchestrator.device.budget import RIGHT, STOCK, Budget, Cache, Setting, budget
from orchestrator.device.quantity import Known, Unknown, figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.checks.serving.facts import Serving
    from orchestrator.checks.view import View
    from orchestrator.core.diagnostics import Place


# Options that change weights, activations or the cache so that no measured start speaks of them, with the values that
# do not.
_UNMEASURED: Mapping[str, tuple[str, ...]] = {
    "kv-cache-dtype": ("auto",),
    "dtype": ("auto", "half", "float16", "bfloat16"),
    "quantization": (),
    "pipeline-parallel-size": ("1",),
    "cpu-offload-gb": ("0",),
    "enable-lora": (),
    "enable-prompt-adapter": (),
    "speculative-model": (),
}


def setting_of(flags: Flags, context: Context, forced: Sequence[Forcing], serving: Serving) -> Setting | Unknown:
    """Return what decides about memory, with the engine's defaults; unknown where one of these is."""
    tokens, _ = batched(flags, context)
    longest = length(flags, context)
    utilisation = share(flags, UTILISATION)
    if utilisation is None:
        default = figure(serving.figures, "engine.default_gpu_memory_utilisation")
        utilisation = default.value if isinstance(default, Known) else None
    absent = (
        (tokens, "--max-num-batched-tokens"),
        (longest, "--max-model-len, or model.max_positions"),
        (utilisation, "--gpu-memory-utilization, or engine.default_gpu_memory_utilisation"),
    )
    missing = tuple(name for value, name in absent if value is None)
    other = [name for name, same in _UNMEASURED.items() if name in flags and flags[name] not in same]
    if other:
        return Unknown(tuple(f"measured start with --{name}" for name in other))
    if tokens is None or longest is None or utilisation is None:
        return Unknown(missing)
    decided = next((bool(forcing.value) for forcing in forced if forcing.option == EAGER), None)
    eager = EAGER in flags if decided is None else decided
    return Setting(utilisation, tokens, longest, sequences(flags, context)[0], number(flags, RANKS) or 1, eager=eager)


def counts_attention_layers_alone(view: View) -> bool:
    """Return whether the engine in the tree counts the cache for attention layers alone: one of the signs is there."""
    server = view.facts.serving.server
    return server is not None and any(defines(view, sign.under, sign.name) for sign in server.attention_layers_alone)


def cache_in_effect(view: View, made: Budget) -> Cache:
    """Return the cache by the accounting that the engine in the tree has."""
    name = RIGHT if counts_attention_layers_alone(view) else STOCK
    return next(cache for cache in made.caches if cache.accounting == name)


def context_fits(view: View, flags: Flags, setting: Setting, place: Place) -> Iterator[Diagnostic]:
    """Yield a fault (E542) where the context is longer than the tokens that the cache holds.

    A fitted number of blocks refuses only what lies beyond the fit's largest residual too; nothing is refused where
    a figure is missing.
    """
    serving = view.facts.serving
    made = budget(serving.figures, serving.memory_runs, setting)
    cache = cache_in_effect(view, made)
    override = number(flags, OVERRIDE)
    block = figure(serving.figures, "engine.block_size")
    if override is not None and isinstance(block, Known):
        held = override * int(block.value)
        cache = dataclasses.replace(
            cache, blocks=Known(override), tokens=Known(held), basis=f"--{OVERRIDE}", tokens_spread=Known(0)
        )
    match cache.tokens, cache.tokens_spread:
        case Known(value=int() as tokens), Known(value=spread) if setting.context_tokens > tokens + spread:
            yield Diagnostic("E542", _too_long(setting, cache, tokens), place, _advice(made, tokens))


def _too_long(setting: Setting, cache: Cache, tokens: int) -> str:
    blocks = cache.blocks.value if isinstance(cache.blocks, Known) else 0
    layers = cache.layers.value if isinstance(cache.layers, Known) else "?"
    return (
        f"capacity: --{LENGTH} {setting.context_tokens} is longer than the KV cache: {blocks:,} blocks "
        f"({cache.basis}) hold {tokens:,} tokens with --gpu-memory-utilization {setting.utilisation}, "
        f"{setting.batched_tokens:,} batched tokens and {layers} layers counted; "
        f"the largest legal --{LENGTH} is {tokens}"
    )


def _advice(made: Budget, tokens: int) -> str:
    right = next(cache for cache in made.caches if cache.accounting == RIGHT)
    if isinstance(right.tokens, Known) and right.tokens.value > tokens:
        return f"Counted for attention layers alone ({right.basis}) it would hold {right.tokens.value:,} tokens."
    return "Lower --max-num-batched-tokens with chunked prefill, or raise --gpu-memory-utilization."


def capacity_in_words(view: View, setting: Setting | Unknown) -> str:
    """Return the capacity as evidence: tokens and how they are known, or what is missing."""
    if isinstance(setting, Unknown):
        return f"KV capacity unknown: no {', '.join(setting.missing)}"
    serving = view.facts.serving
    cache = cache_in_effect(view, budget(serving.figures, serving.memory_runs, setting))
    match cache.tokens:
        case Known(value=tokens):
            return f"KV cache of {tokens:,} tokens ({cache.basis}) for a context of {setting.context_tokens:,}"
        case Unknown(missing=missing):
            return f"KV capacity unknown: no {', '.join(missing)}"
