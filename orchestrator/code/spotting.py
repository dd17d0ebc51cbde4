"""Which lines of a file may have an identifier: what does not span one of them need not be looked into."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from orchestrator.code.scopes import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from orchestrator.code.source import Source


_FEW = 16
"""So many names are rather searched one by one: an expression of several goes character by character."""


def _starts(text: str, name: str) -> Iterator[int]:
    """Yield where a text that is not empty stands in another."""
    start = text.find(name)
    while start >= 0:
        yield start
        start = text.find(name, start + len(name))


def lines_with(source: Source, names: Iterable[str]) -> list[int]:
    """Return the numbers, from 1, of the lines that may have one of the identifiers.

    A line outside of ASCII always may: there an identifier has several spellings (PEP 3131).
    """
    several = [name for name in names if name]
    if source.text.isascii() and len(several) <= _FEW:
        return sorted({source.line_of(start) for name in several for start in _starts(source.text, name)})
    pattern = re.compile("|".join(map(re.escape, several)) or "$.")
    if source.text.isascii():
        return sorted({source.line_of(found.start()) for found in pattern.finditer(source.text)})
    has = pattern.search
    return [number for number, line in enumerate(source.lines, 1) if has(line) or not line.isascii()]


def may_call(raw: bytes, names: Iterable[str]) -> bool:
    """Tell whether a file may have a call `NAME(…)` of one of these names, by its bytes alone.

    What is not ASCII always may, see `lines_with`.
    """
    spelled = b"|".join(re.escape(name.encode()) for name in names) or rb"\Z."
    return not raw.isascii() or re.search(rb"(?:%b)(?:[\s\\)]|#[^\n]*\n)*\(" % spelled, raw) is not None


def has_word(raw: bytes, name: str) -> bool:
    """Tell whether a file has an identifier anywhere, strings and comments included, by its bytes alone."""
    spelled = name.encode()
    if spelled not in raw:
        return False
    # The name comes first in the expression: a search for what it begins with is quick.
    word = re.escape(spelled)
    return re.search(rb"%b(?<!\w%b)(?!\w)" % (word, word), raw) is not None


def spans(node: ast.AST, lines: Sequence[int]) -> bool:
    """Tell whether a node spans one of the lines (sorted); one without a place may.

    Not to be asked of what stands in an f-string: before Python 3.12 `ast` misplaces some of it.
    """
    end = getattr(node, "end_lineno", None)
    if end is None:
        return True
    start = first_line(node) if isinstance(node, ast.stmt) else node.lineno  # type: ignore[attr-defined]  # it has an end
    position = bisect_left(lines, start)
    return position < len(lines) and lines[position] <= end
