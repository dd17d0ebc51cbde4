"""Where a pattern matches in a file, to be shown while it is written."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.code.edits import Replace
from orchestrator.code.patterns import find_matches
from orchestrator.code.rewrite import apply, examine, scope_of
from orchestrator.code.scopes import enclosing
from orchestrator.code.sites import Pending, gone
from orchestrator.code.source import not_too_deep
from orchestrator.code.template import own_result
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from orchestrator.code.patterns import Captured, Match, Pattern
    from orchestrator.code.source import Source
    from orchestrator.code.template import Template


@dataclass(frozen=True)
class Seen:
    """One match: where it starts and how many lines it has, the definition around it, its text, what holes took."""

    place: Place
    lines: int
    scope: str
    code: str
    captures: tuple[tuple[str, tuple[str, ...]], ...]

    def record(self) -> dict[str, Any]:
        """Return plain data; a hole that takes any number of nodes has a list."""
        return {
            "event": "site",
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "lines": self.lines,
            "scope": self.scope,
            "code": self.code,
            "captures": {name: list(texts) for name, texts in self.captures},
        }


def look(pattern: Pattern, source: Source, within: str | None) -> tuple[Seen, ...]:
    """Return every match in a definition, in source order; raise `Rejected` where there is no one definition."""
    with not_too_deep(source.path):
        return tuple(_seen(source, match) for match in find_matches(pattern, scope_of(source, within)))


def nearest(pattern: Pattern, source: Source, within: str | None) -> Diagnostic:
    """Return what to say where nothing matches: the code that is most like the pattern."""
    with not_too_deep(source.path):
        return gone(pattern, source, scope_of(source, within))


def replaced(pattern: Pattern, template: Template, source: Source, within: str | None, count: int) -> Source:
    """Return the source with every match replaced, as an edit would; raise `Rejected` where the edit would be refused.

    An edit whose pattern matches its own result is refused (E406), also where the file has no match.
    """
    again = own_result(pattern, template)
    if again is not None:
        help_ = "Make the pattern narrower than the replacement, so that it cannot match what it wrote."
        message = f"not closed: the pattern matches its own result: {again}"
        raise Rejected(Diagnostic("E406", message, help=help_))
    if not count:
        return source
    edit = Replace(pattern, template, count)
    state = examine(edit, source, within)
    return apply(edit, source, within, state).source if isinstance(state, Pending) else source


def _seen(source: Source, match: Match) -> Seen:
    span = match.span(source)
    place = source.place_of(span.start)
    text = source.text[span.start : span.end]
    first = text.splitlines()[0] if text else ""
    lines = source.line_of(max(span.start, span.end - 1)) - place.line + 1
    place = Place(place.file, place.line, place.column, max(1, len(first)))
    captures = tuple((name, _texts(source, found)) for name, found in sorted(match.captures.items()))
    return Seen(place, lines, enclosing(source.tree, place.line), text, captures)


def _texts(source: Source, found: Captured) -> tuple[str, ...]:
    if isinstance(found, str):
        return (found,)
    nodes = found if isinstance(found, tuple) else (found,)
    return tuple(_text(source, node) for node in nodes)


def _text(source: Source, node: ast.AST) -> str:
    """Return the text of a captured node; a bare `*` or `/` among parameters has no place of its own."""
    if hasattr(node, "lineno"):
        return source.segment(node)
    return str(node.value) if isinstance(node, ast.Constant) else ""
