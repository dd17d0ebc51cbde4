"""The engine's own rules on the argument list: numbers 1 to 5 and 7, as `SchedulerConfig` and the runners raise them.

Each is a function from flags and context to sentences, one for each way in which it is broken: rule, values and the
largest legal value. Rule 3 has no function: it says who decides about chunked prefill (`effective.chunked`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.checks.serving.argv import Flags, number, share
from orchestrator.checks.serving.effective import (
    BATCHED,
    BLOCK,
    CAPTURE,
    LENGTH,
    OVERRIDE,
    RANKS,
    SEQUENCES,
    STEPS,
    UTILISATION,
    Context,
    batched,
    chunked,
    length,
    sequences,
)
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIMITS = "limit-mm-per-prompt"


def positive_numbers(flags: Flags, context: Context) -> str:
    """Every count is a whole number of at least 1; rule 2 says so of the scheduler steps."""
    del context
    for name in (LENGTH, BATCHED, SEQUENCES, STEPS, RANKS, CAPTURE, OVERRIDE):
        value = number(flags, name)
        if value is not None and value < 1:
            rule = "rule 2: " if name == STEPS else ""
            return f"{rule}--{name} {value} must be at least 1, the smallest legal value"
    return ""


def utilisation_is_a_share(flags: Flags, context: Context) -> str:
    """The share of the memory is one."""
    del context
    share(flags, UTILISATION)
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
        f"{_who_decides(context, longest)}"
    )


def _who_decides(context: Context, longest: int) -> str:
    """Return rule 3 in words where it would apply, but for a stage."""
    if not context.chunking_stages or context.multimodal or longest <= context.engine.chunked_above:
        return ""
    stages = ", ".join(f"'{stage}'" for stage in context.chunking_stages)
    above = context.engine.chunked_above
    return f"; rule 3: above {above} the published engine chunks by itself, and here stage {stages} edits that choice"


def batch_fits_sequences(flags: Flags, context: Context) -> str:
    """Rule 2: `max_num_batched_tokens ≥ max_num_seqs`."""
    tokens, origin = batched(flags, context)
    count, shown = sequences(flags, context)
    if tokens is None or tokens >= count:
        return ""
    return (
        f"rule 2: {origin} must be at least {shown}; "
        f"the smallest legal --{BATCHED} is {count}, the largest legal --{SEQUENCES} is {tokens}"
    )


def steps_fit_backend(flags: Flags, context: Context) -> str:
    """Rule 4: several scheduler steps need a backend that takes them, fewer do with chunked prefill."""
    scheduled = number(flags, STEPS) or 1
    if scheduled <= 1 or context.backend is None:
        return ""
    in_chunks = chunked(flags, context)
    able = context.chunked_multi_step if in_chunks else context.multi_step
    if context.backend in able:
        return ""
    with_ = " with chunked prefill" if in_chunks else ""
    return (
        f"rule 4: --{STEPS} {scheduled}{with_} needs the attention backend {' or '.join(able) or 'that nobody has'}, "
        f"this image has {context.backend}; the largest legal --{STEPS} is 1"
    )


def limits_need_a_multimodal_model(flags: Flags, context: Context) -> str:
    """Rule 5: the limits of a multimodal model are refused for one that takes text alone."""
    if LIMITS not in flags or context.multimodal:
        return ""
    given = flags[LIMITS]
    shown = f"--{LIMITS} {given}" if given else f"--{LIMITS}"
    return f"rule 5: {shown} is refused for a model that takes text alone; leave it out"


def answers_fit_sequences(flags: Flags, context: Context) -> str:
    """Rule 7: `n` parallel answers need `max_num_seqs ≥ n`."""
    count, shown = sequences(flags, context)
    if context.answers <= max(count, 1):
        return ""
    return (
        f"rule 7: {context.answers} parallel answers need as many sequences, and {shown} is fewer; "
        f"the smallest legal --{SEQUENCES} is {context.answers}, the largest legal n is {count}"
    )


def blocks_are_the_cache_s(flags: Flags, context: Context) -> str:
    """The cache of this image has blocks of one size."""
    given = number(flags, BLOCK)
    if given is None or context.block_tokens is None or given == context.block_tokens:
        return ""
    return f"--{BLOCK} {given}: the cache of this image has blocks of {context.block_tokens}, the only legal value"


RULES: Mapping[str, Callable[[Flags, Context], str]] = {
    "counts": positive_numbers,
    "share": utilisation_is_a_share,
    "1": length_fits_batch,
    "2": batch_fits_sequences,
    "4": steps_fit_backend,
    "5": limits_need_a_multimodal_model,
    "7": answers_fit_sequences,
    "blocks": blocks_are_the_cache_s,
}


def broken_rules(flags: Flags, context: Context) -> list[str]:
    """Return a sentence for every rule that an argument list breaks; a value that is no number is one too."""
    found: list[str] = []
    for rule in RULES.values():
        try:
            sentence = rule(flags, context)
        except Rejected as error:
            sentence = error.diagnostics[0].message
        if sentence and sentence not in found:
            found.append(sentence)
    return found
