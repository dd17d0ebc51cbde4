"""Whole lines put above or below a statement, in the statement's own indentation and line ends."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.code.source import Source, Span, Splice
from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from orchestrator.code.template import Filled


def above_line(source: Source, statement: ast.stmt, filled: Filled, previous: ast.stmt | None) -> Splice:
    """Return the splice that puts whole lines above a statement and the comment that belongs to it.

    The comment above the first statement of a body, which has no `previous`, may belong to the body: it stays above.
    """
    if not starts_line(source, statement):
        raise Rejected(shares_line(source, statement))
    line = source.line_of(source.span(statement).start)
    indent, newline = source.indent_of(line), source.newline_at(line)
    floor = previous.end_lineno or previous.lineno if previous else line
    while line - 1 > floor and source.lines[line - 2].startswith(f"{indent}#"):
        line -= 1
    start = source.line_span(line).start
    return Splice(Span(start, start), f"{_lines(source, filled, indent, newline)}{newline}")


def below_line(source: Source, statement: ast.stmt, filled: Filled) -> Splice:
    """Return the splice that puts whole lines below a statement; a file keeps its missing last line end."""
    span = source.span(statement)
    last = source.line_of(max(span.end - 1, 0))
    end = source.line_span(last).end
    behind = source.text[span.end : end].strip()
    if not starts_line(source, statement) or (behind and not behind.startswith("#")):
        raise Rejected(shares_line(source, statement))
    indent, newline = source.indent_of(source.line_of(span.start)), source.newline_at(last)
    text = _lines(source, filled, indent, newline)
    complete = source.lines[last - 1].endswith(("\n", "\r"))
    return Splice(Span(end, end), f"{text}{newline}" if complete else f"{newline}{text}")


def _lines(source: Source, filled: Filled, indent: str, newline: str) -> str:
    above, below = newline * filled.blank_above, newline * filled.blank_below
    return f"{above}{indent}{filled.indented(indent, newline, source.indent_unit)}{below}"


def starts_line(source: Source, statement: ast.stmt) -> bool:
    """Tell whether a statement starts its line: nothing but blanks before it, and it is no `elif` of another one."""
    start = source.span(statement).start
    return not is_elif(source, statement) and not source.text[
        source.line_span(source.line_of(start)).start : start
    ].strip(" \t\f")


def shares_line(source: Source, statement: ast.stmt) -> Diagnostic:
    """Return E410 for a statement beside which no line can be put."""
    message = "the body stands in one line with its header or with other statements"
    return Diagnostic("E410", message, source.place(statement), help="Replace the whole statement instead.")


def is_elif(source: Source, statement: ast.AST) -> bool:
    """Tell whether a statement is the `elif` of the `if` around it: `ast` sees an `if` in its `else`."""
    return isinstance(statement, ast.If) and source.text.startswith("elif", source.span(statement).start)
