"""What an argument list comes to: the engine's defaults filled in, and what the engine sets by itself.

Sources: `SchedulerConfig` in `vllm/config.py` and `EngineArgs` in `vllm/engine/arg_utils.py`, 0.6.3.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.checks.reading import compiled, parsing
from orchestrator.checks.serving.argv import Flags, number, truth
from orchestrator.code.patterns import find_matches
from orchestrator.code.scopes import named
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.checks.view import View
    from orchestrator.spec.serving import Forced, Server

BATCHED = "max-num-batched-tokens"
LENGTH = "max-model-len"
SEQUENCES = "max-num-seqs"
STEPS = "num-scheduler-steps"
CHUNKED = "enable-chunked-prefill"
PREFIX = "enable-prefix-caching"
UTILISATION = "gpu-memory-utilization"
RANKS = "tensor-parallel-size"
BLOCK = "block-size"
EAGER = "enforce-eager"
CAPTURE = "max-seq-len-to-capture"
OVERRIDE = "num-gpu-blocks-override"


@dataclass(frozen=True)
class Engine:
    """What the engine fills in where a flag is absent; tokens and sequences."""

    batched_chunked: int
    batched_floor: int
    batched_multimodal: int
    sequences: int
    chunked_above: int
    positions: int | None = None
    """The model's own context length: what the engine takes where `--max-model-len` is absent."""


@dataclass(frozen=True)
class Forcing:
    """An option that code in the tree sets whatever the command line says; `idle` options then do nothing."""

    option: str
    value: object
    place: Place
    idle: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What a rule needs besides the flags: the engine, the model's kind, the tree's own decisions.

    `backend` is the attention backend, None where it is not known; `answers` how many parallel answers clients ask for.
    """

    engine: Engine
    multimodal: bool = False
    chunks_by_itself: bool = False
    backend: str | None = None
    multi_step: tuple[str, ...] = ()
    chunked_multi_step: tuple[str, ...] = ()
    answers: int = 1
    block_tokens: int | None = None
    chunking_stages: tuple[str, ...] = ()
    """Stages that edit the code in which the engine may turn chunked prefill on, where nothing turns it on."""


def chunked(flags: Flags, context: Context) -> bool:
    """Return whether prefill is chunked: as the flag says, else as the engine decides; `Rejected` (E532) if unclear."""
    given = truth(flags, CHUNKED)
    if given is not None:
        return given
    if not context.chunks_by_itself or context.multimodal:
        return False
    alone = not any(name in flags for name in ("enable-lora", "enable-prompt-adapter", "speculative-model"))
    return alone and (length(flags, context) or 0) > context.engine.chunked_above


def length(flags: Flags, context: Context) -> int | None:
    """Return the context length that the engine will use, None where neither flag nor model says it."""
    given = number(flags, LENGTH)
    return context.engine.positions if given is None else given


def sequences(flags: Flags, context: Context) -> tuple[int, str]:
    """Return how many sequences the engine will run at a time, and in words where that comes from."""
    given = number(flags, SEQUENCES)
    if given is not None:
        return given, f"--{SEQUENCES} {given}"
    default = context.engine.sequences
    return default, f"the engine's default of {default} sequences"


def batched(flags: Flags, context: Context) -> tuple[int | None, str]:
    """Return the batched tokens that the engine will use, and in words where they come from; None is not known."""
    given = number(flags, BATCHED)
    if given is not None:
        return given, f"--{BATCHED} {given}"
    engine = context.engine
    longest = length(flags, context)
    scheduled = number(flags, STEPS) or 1
    if chunked(flags, context) and scheduled == 1:
        default = engine.batched_chunked
    elif longest is None:
        return None, ""
    else:
        default = max(longest, engine.batched_floor)
    if context.multimodal:
        default = max(default, engine.batched_multimodal)
    return default, f"the engine's default of {default} batched tokens"


# --- what the tree decides ---


def turns_chunking_on(view: View) -> bool:
    """Return whether the engine in the tree turns chunked prefill on by itself: whether that code is still there.

    The target says which code that is (`engine.chunks_by_itself_file`, `engine.chunks_by_itself_code`). Where it does
    not, or where the tree has no such file, the engine leaves the choice to the flag.
    """
    values = view.facts.values
    file, code = (values.get(f"engine.chunks_by_itself_{what}") for what in ("file", "code"))
    source = view.source(file) if isinstance(file, str) else None
    if source is None or not isinstance(code, str):
        return False
    pattern = compiled(code, values, "engine.chunks_by_itself_code")
    return any(True for _ in find_matches(pattern, parsing(source).tree))


def forcings(view: View, server: Server | None) -> tuple[Forcing, ...]:
    """Return the options that the engine in the tree sets by itself: those for which its code has a constant."""
    found = []
    for forced in server.forced if server else ():
        source = view.source(forced.file)
        scopes = named(parsing(source), forced.within) if source is not None else []
        constant = next((c for scope in scopes for c in _constants(scope, forced)), None)
        if source is not None and constant is not None:
            idle = tuple(forced.idle) if constant.value else ()
            found.append(Forcing(forced.option, constant.value, source.place(constant), idle))
    return tuple(found)


def _constants(scope: ast.AST, forced: Forced) -> Iterator[ast.Constant]:
    for call in ast.walk(scope):
        match call:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords) if name == forced.call:
                values = (keyword.value for keyword in keywords if keyword.arg == forced.keyword)
                yield from (value for value in values if isinstance(value, ast.Constant))


def engine_of(values: Mapping[str, Any]) -> Engine:
    """Return the engine's figures from the target's facts; raise `Rejected` (E531) where one is missing."""
    return Engine(
        batched_chunked=_figure(values, "engine.default_batched_tokens_chunked"),
        batched_floor=_figure(values, "engine.default_batched_tokens_floor"),
        batched_multimodal=_figure(values, "engine.multimodal_batched_tokens"),
        sequences=_figure(values, "engine.default_max_num_seqs"),
        chunked_above=_figure(values, "engine.chunked_prefill_above"),
        positions=_figure(values, "model.max_positions") if "model.max_positions" in values else None,
    )


def _figure(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"the target has no usable figure `{key}`" + (f": {value!r}" if value is not None else "")
        raise Rejected(Diagnostic("E531", message, help="Add it to the target."))
    return value
