"""Rule 6 and its kin: options that the server in the tree does not know, and options that do nothing there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.checks.serving.effective import CAPTURE, EAGER, PREFIX
from orchestrator.checks.serving.options import registered
from orchestrator.core.diagnostics import Diagnostic, Severity, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from orchestrator.checks.serving.argv import Word
    from orchestrator.checks.serving.effective import Forcing
    from orchestrator.checks.serving.options import Option, Parser
    from orchestrator.checks.view import View
    from orchestrator.core.diagnostics import Place
    from orchestrator.spec.serving import Server

_STAGE = "a stage that brings it is off, or not there"


def unknown_options(
    found: Sequence[Word], parser: Parser, at: Callable[[int], Place], providers: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Yield a fault (E541) for each option that the parser in the tree refuses: unknown, or given another shape.

    Where code makes the names of some options, none is called unknown. `providers` are the stages that provide options,
    whether or not they are on.
    """
    options = {option.name: option for option in parser.options.values()}
    before: Option | None = None
    for word in found:
        option, many = options.get(word.name), before is not None and before.takes == "many"
        before = option if word.name else before
        if not word.name:
            if parser.whole and not parser.positional and not many:
                message = f"{word.written!r} is no option, and the option before it does not take it"
                yield Diagnostic("E541", message, at(word.index), "Remove it, or name the option that it is for.")
        elif option is None:
            if parser.whole:
                yield _unknown(word, parser.options, at(word.index), providers.get(word.name))
        elif option.takes == "none" and word.value is not None:
            message = f"{word.written} takes no value, and is given {word.value!r} ({option.place})"
            yield Diagnostic("E541", message, at(word.index), "Leave it bare.")
        elif option.takes == "one" and word.value is None:
            message = f"{word.written} takes a value and has none ({option.place})"
            yield Diagnostic("E541", message, at(word.index), "Give it a value, as text.")
        elif option.choices and word.value is not None and word.value not in option.choices:
            message = f"{word.written} {word.value}: the server takes {', '.join(option.choices)} ({option.place})"
            yield Diagnostic("E541", message, at(word.index), did_you_mean(word.value, option.choices))


def _unknown(word: Word, known: Mapping[str, Option], place: Place, provider: str | None) -> Diagnostic:
    spelling = word.written if not word.written.startswith("--") else f"--{word.name}"
    several = sorted({option.name for text, option in known.items() if text.startswith(spelling)})
    if len(several) > 1 and spelling.startswith("--"):
        message = f"{word.written} may be {', '.join(f'--{name}' for name in several)}"
        return Diagnostic("E541", message, place, "Write the option out.")
    near = did_you_mean(spelling, known)
    hint = f"; {near}" if near.startswith("did you") else f"; {_STAGE}"
    if provider:
        hint = f"; stage '{provider}' provides it, and what that brings is not in the tree"
    message = f"rule 6: the server in the patched tree knows no {word.written}{hint}"
    return Diagnostic("E541", message, place, "Correct it, or let the stage that brings it provide it.")


def unregistered_values(
    view: View, server: Server, found: Sequence[Word], at: Callable[[int], Place]
) -> Iterator[Diagnostic]:
    """Yield a fault (E541) for each value that code has to register, and that none in the tree does."""
    given = {word.name: word for word in found}
    for registry in server.registries:
        word = given.get(registry.option)
        if word is None or word.value is None or registry.plugin in given:
            continue
        found_at = registered(view, registry, word.value)
        if found_at is not None and word.value not in found_at:
            names = registered(view, registry) or {}
            near = did_you_mean(word.value, names)
            hint = near if near.startswith("did you") else _STAGE
            provider = view.facts.serving.providers.get(registry.option)
            if provider:
                hint = f"stage '{provider}' provides the option, and what that brings is not in the tree"
            message = f"rule 6: nothing in {registry.under} registers {word.written} {word.value}; {hint}"
            help_ = f"Registered are: {', '.join(sorted(names)) or 'none'}."
            yield Diagnostic("E541", message, at(word.index), help_)


def idle_options(
    found: Sequence[Word], forced: Sequence[Forcing], at: Callable[[int], Place], *, multimodal: bool
) -> Iterator[Diagnostic]:
    """Yield a warning (W540) for each option that has no effect, with the place that overrides it."""
    given = {word.name: word for word in found}
    for forcing in forced:
        for name in (forcing.option, *forcing.idle):
            if name in given:
                by = (
                    "sets it whatever the command line says" if name == forcing.option else f"forces --{forcing.option}"
                )
                yield _idle(given[name], f"{forcing.place} {by}", at)
    if EAGER in given and CAPTURE in given and EAGER not in {forcing.option for forcing in forced}:
        yield _idle(given[CAPTURE], f"--{EAGER} stands beside it", at)
    if multimodal and PREFIX in given:
        yield _idle(given[PREFIX], "rule 5: the engine turns prefix caching off for a multimodal model", at)


def _idle(word: Word, why: str, at: Callable[[int], Place]) -> Diagnostic:
    shown = word.written if word.value is None or "=" in word.written else f"{word.written} {word.value}"
    message = f"{shown} has no effect here: {why}"
    help_ = "Leave it out, or add a stage that takes the override away."
    return Diagnostic("W540", message, at(word.index), help_, severity=Severity.WARNING)
