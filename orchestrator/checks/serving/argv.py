"""The argument list as the engine's parser takes it apart."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.checks.serving.options import Option

_SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "q": "quantization"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
_INTEGER = re.compile(r"[+-]?\d+(?:_\d+)*\Z")  # what `int()` takes, which is what the engine calls
_TRUTH = {"true": True, "false": False}

Flags = dict[str, str | None]
"""Option without dashes → its value, None for a bare one."""


@dataclass(frozen=True)
class Word:
    """One option of an argument list: its name without dashes, its value, and where it stands in the list.

    A word that belongs to no option before it has no name.
    """

    name: str
    value: str | None
    index: int
    written: str


def start_of(argv: Sequence[str], module: str) -> int | None:
    """Return where the arguments of a server begin that is started as `-m module`; None where it is not."""
    starts = (i + 2 for i, pair in enumerate(itertools.pairwise(argv)) if pair == ("-m", module))
    return next(starts, None)


def words(argv: Sequence[str], known: Mapping[str, Option] | None = None, start: int = 0) -> Iterator[Word]:
    """Yield the words of an argument list from `start` on: `--a v`, `--a=v`, `-tp 4`; underscores are dashes.

    With the parser's options `known` (spelling with dashes → option), other spellings of one are that option: short
    ones, and beginnings that are those of one option alone.
    """
    i = start
    while i < len(argv):
        word, index, i = argv[i], i, i + 1
        if not word.startswith("-") or word in ("-", "--") or _NUMBER.match(word):
            yield Word("", None, index, word)
            continue
        written, equals, value = word.partition("=")
        name = _name(written, known or {})
        if equals:
            yield Word(name, value, index, written)
        elif i < len(argv) and (not argv[i].startswith("-") or _NUMBER.match(argv[i])):
            yield Word(name, argv[i], index, written)
            i += 1
        else:
            yield Word(name, None, index, written)


def _name(written: str, known: Mapping[str, Option]) -> str:
    bare = written.lstrip("-")
    short = not written.startswith("--")
    spelling = written if short else f"--{bare.replace('_', '-')}"
    if spelling in known:
        return known[spelling].name
    longer = {option.name for text, option in known.items() if text.startswith(spelling)} if not short else set()
    if len(longer) == 1:
        return longer.pop()
    return _SHORT.get(bare, bare) if short else bare.replace("_", "-")


def parse_argv(argv: Sequence[str], known: Mapping[str, Option] | None = None, start: int = 0) -> Flags:
    """Return the options of an argument list (see `words`); the last one wins."""
    return {word.name: word.value for word in words(argv, known, start) if word.name}


def number(flags: Flags, name: str) -> int | None:
    """Return an option's whole number, None where it is absent; raise `Rejected` (E532) if it is no whole number."""
    if name not in flags:
        return None
    text = flags[name]
    if text is None or not _INTEGER.match(text.strip()):
        shown = "no value" if text is None else f"{text!r}, which is no whole number"
        raise Rejected(Diagnostic("E532", f"--{name} has {shown}", help="Give it a whole number, in quotes."))
    return int(text)


def share(flags: Flags, name: str) -> float | None:
    """Return an option's share, above 0 and up to 1; None where it is absent; raise `Rejected` (E532) if it is none."""
    if name not in flags:
        return None
    text = flags[name]
    try:
        value = float(text or "")
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        shown = "no value" if text is None else f"{text!r}, which is no share above 0 and up to 1"
        raise Rejected(Diagnostic("E532", f"--{name} has {shown}", help="Give it a number such as 0.9, in quotes."))
    return value


def truth(flags: Flags, name: str) -> bool | None:
    """Return a switch that may have a value, None where it is absent; raise `Rejected` (E532) for another value."""
    if name not in flags:
        return None
    text = flags[name]
    if text is None:
        return True
    if text.lower() not in _TRUTH:
        raise Rejected(Diagnostic("E532", f"--{name} has {text!r}, neither true nor false", help="Leave it bare."))
    return _TRUTH[text.lower()]
