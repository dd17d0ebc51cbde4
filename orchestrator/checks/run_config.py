"""The check of a run configuration: its shape, and the engine's own rules on the argument list (FACTS.md §7).

The rules are pure functions over a parsed argument list and the engine's figures; the figures are the target's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.reading import compiled, document_of, parsing, standing_alone
from orchestrator.checks.values import steps
from orchestrator.checks.verdict import Verdict, fails, holds
from orchestrator.code.patterns import find_matches
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.spec.run_config import EnvironmentVariable, RunConfig
from orchestrator.spec.validate import misread, validated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orchestrator.checks.view import View
    from orchestrator.spec.document import Document

_SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "q": "quantization"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
_INTEGER = re.compile(r"[+-]?\d+(?:_\d+)*\Z")  # what `int()` takes, which is what the engine calls
_TRUTH = {"true": True, "false": False}

BATCHED = "max-num-batched-tokens"
LENGTH = "max-model-len"
SEQUENCES = "max-num-seqs"
STEPS = "num-scheduler-steps"
CHUNKED = "enable-chunked-prefill"


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
class Context:
    """What a rule needs besides the flags: the engine, the kind of model, and who decides about chunked prefill."""

    engine: Engine
    multimodal: bool = False
    chunks_by_itself: bool = False


Flags = dict[str, str | None]
"""Option without dashes → its value, None for a bare one."""


def parse_argv(argv: Sequence[str]) -> Flags:
    """Return the options of an argument list: `--a v`, `--a=v`, `-tp 4`; underscores are dashes, the last one wins."""
    flags: Flags = {}
    i = 0
    while i < len(argv):
        word, i = argv[i], i + 1
        if not word.startswith("-") or word in ("-", "--") or _NUMBER.match(word):
            continue
        name, equals, value = word.partition("=")
        short = not name.startswith("--")
        name = name.lstrip("-")
        key = _SHORT.get(name, name) if short else name.replace("_", "-")
        if equals:
            flags[key] = value
        elif i < len(argv) and (not argv[i].startswith("-") or _NUMBER.match(argv[i])):
            flags[key], i = argv[i], i + 1
        else:
            flags[key] = None
    return flags


def number(flags: Flags, name: str) -> int | None:
    """Return an option's whole number, None where it is absent; raise `Rejected` (E532) if it is no whole number."""
    if name not in flags:
        return None
    text = flags[name]
    if text is None or not _INTEGER.match(text.strip()):
        shown = "no value" if text is None else f"{text!r}, which is no whole number"
        raise Rejected(Diagnostic("E532", f"--{name} has {shown}", help="Give it a whole number, in quotes."))
    return int(text)


def chunked(flags: Flags, context: Context) -> bool:
    """Return whether prefill is chunked: as the flag says, else as the engine decides; `Rejected` (E532) if unclear."""
    if CHUNKED in flags:
        text = flags[CHUNKED]
        if text is None:
            return True
        if text.lower() not in _TRUTH:
            raise Rejected(
                Diagnostic("E532", f"--{CHUNKED} has {text!r}, neither true nor false", help="Leave it bare.")
            )
        return _TRUTH[text.lower()]
    if not context.chunks_by_itself or context.multimodal:
        return False
    alone = not any(name in flags for name in ("enable-lora", "speculative-model"))
    return alone and (length(flags, context) or 0) > context.engine.chunked_above


def length(flags: Flags, context: Context) -> int | None:
    """Return the context length that the engine will use, None where neither flag nor model says it."""
    given = number(flags, LENGTH)
    return context.engine.positions if given is None else given


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


def positive_numbers(flags: Flags, context: Context) -> str:
    """Every count is a whole number of at least 1; rule 2 says so of the scheduler steps."""
    del context
    for name in (LENGTH, BATCHED, SEQUENCES, STEPS):
        value = number(flags, name)
        if value is not None and value < 1:
            rule = "rule 2: " if name == STEPS else ""
            return f"{rule}--{name} {value} must be at least 1, the smallest legal value"
    return ""


def length_fits_batch(flags: Flags, context: Context) -> str:
    """Rule 1: without chunked prefill, `max_num_batched_tokens ≥ max_model_len`."""
    longest = length(flags, context)
    tokens, origin = batched(flags, context)
    if chunked(flags, context) or longest is None or tokens is None or tokens >= longest:
        return ""
    source = "" if LENGTH in flags else " (the model's own length)"
    return (
        f"rule 1: without chunked prefill, {origin} must be at least the context length {longest}{source}; "
        f"the smallest legal --{BATCHED} is {longest}, the largest legal --{LENGTH} is {tokens}"
    )


def batch_fits_sequences(flags: Flags, context: Context) -> str:
    """Rule 2: `max_num_batched_tokens ≥ max_num_seqs`."""
    tokens, origin = batched(flags, context)
    given = number(flags, SEQUENCES)
    sequences = context.engine.sequences if given is None else given
    if tokens is None or tokens >= sequences:
        return ""
    shown = f"the engine's default of {sequences} sequences" if given is None else f"--{SEQUENCES} {sequences}"
    return (
        f"rule 2: {origin} must be at least {shown}; "
        f"the smallest legal --{BATCHED} is {sequences}, the largest legal --{SEQUENCES} is {tokens}"
    )


RULES: tuple[Callable[[Flags, Context], str], ...] = (positive_numbers, length_fits_batch, batch_fits_sequences)


def broken_rules(flags: Flags, context: Context) -> list[str]:
    """Return a sentence for every rule that an argument list breaks; a value that is no number is one too."""
    found: list[str] = []
    for rule in RULES:
        try:
            sentence = rule(flags, context)
        except Rejected as error:
            sentence = error.diagnostics[0].message
        if sentence and sentence not in found:
            found.append(sentence)
    return found


class RunConfigFits(Check):
    """A run configuration has the platform's shape, and the engine will take its argument list."""

    check: Literal["run_config"]
    file: Annotated[str, Field(min_length=1, description="name of the artefact")]
    argv_from: Annotated[str, Field(min_length=1, description="path of the argument list in it")] = "command"
    multimodal: Annotated[bool, Field(description="whether the model takes more than text")] = False
    chunks_by_itself: Annotated[
        bool | None,
        Field(description="whether the engine turns chunked prefill on for long contexts; read in the tree if absent"),
    ] = None

    def look(self, view: View) -> Verdict:
        """Return whether shape and rules hold; every fault is named."""
        document = document_of(view, self.file)
        config = _config(document)
        argv = _argv(config, self.argv_from)
        if argv is None:
            return fails(f"`{self.argv_from}` of {self.file} is no argument list", Place(self.file))
        place = document.place(tuple(steps(self.argv_from)))
        flags = parse_argv(argv)
        context = Context(engine_of(view.facts.values), self.multimodal, self._by_itself(view, flags))
        faults = broken_rules(flags, context)
        if faults:
            return fails(f"{place}: {'; '.join(faults)}", place)
        tokens, origin = batched(flags, context)
        counted = f", with {origin}" if tokens is not None else ""
        return holds(f"{self.file} has the run configuration's shape and keeps engine rules 1 and 2{counted}", place)

    def _by_itself(self, view: View, flags: Flags) -> bool:
        """Return whether the engine decides; where the flag does, the engine's code need not be read."""
        if self.chunks_by_itself is not None or CHUNKED in flags:
            return bool(self.chunks_by_itself)
        return turns_chunking_on(view)


def _config(document: Document) -> RunConfig:
    """Return the configuration; raise `Rejected` with one diagnostic that names every fault and its place."""
    found = misread(document)
    try:
        if not found:
            return validated(RunConfig, document.data, document, {"env": EnvironmentVariable})
    except Rejected as error:
        raise Rejected(standing_alone(error, document.name)) from None
    raise Rejected(standing_alone(Rejected(found), document.name))


def _argv(config: RunConfig, path: str) -> list[str] | None:
    data: Any = config.model_dump()
    for step in steps(path):
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data if isinstance(data, list) and all(isinstance(word, str) for word in data) else None


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
