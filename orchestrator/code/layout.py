"""Whole lines put above or below a statement, in the statement's own indentation and line ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.code.source import Source, Span, Splice
from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    import ast

    from orchestrator.code.template import Filled


def above_line(source: Source, statement: ast.stmt, filled: Filled, *, first: bool) -> Splice:
    """Return the splice that puts whole lines above a statement and the comment that belongs to it.

    The comment above the `first` statement of a body may belong to the body: it stays above.
    """
    if not starts_line(source, statement):
        raise Rejected(shares_line(source, statement))
    line = source.line_of(source.span(statement).start)
    indent, newline = source.indent_of(line), source.newline_at(line)
    while not first and line > 1 and source.lines[line - 2].startswith(f"{indent}#"):
        line -= 1
    start = source.line_span(line).start
    return Splice(Span(start, start), f"{indent}{filled.indented(indent, newline)}{newline}")


def below_line(source: Source, statement: ast.stmt, filled: Filled) -> Splice:
    """Return the splice that puts whole lines below a statement; a file keeps its missing last line end."""
    span = source.span(statement)
    last = source.line_of(max(span.end - 1, 0))
    end = source.line_span(last).end
    behind = source.text[span.end : end].strip()
    if not starts_line(source, statement) or (behind and not behind.startswith("#")):
        raise Rejected(shares_line(source, statement))
    indent, newline = source.indent_of(source.line_of(span.start)), source.newline_at(last)
    text = f"{indent}{filled.indented(indent, newline)}"
    complete = source.lines[last - 1].endswith(("\n", "\r"))
    return Splice(Span(end, end), f"{text}{newline}" if complete else f"{newline}{text}")


def starts_line(source: Source, statement: ast.stmt) -> bool:
    """Tell whether nothing but blanks stands before a statement in its line."""
    start = source.span(statement).start
    return not source.text[source.line_span(source.line_of(start)).start : start].strip(" \t\f")


def shares_line(source: Source, statement: ast.stmt) -> Diagnostic:
    """Return E410 for a statement beside which no line can be put."""
    message = "the body stands in one line with its header or with other statements"
    return Diagnostic("E410", message, source.place(statement), help="Replace the whole statement instead.")
