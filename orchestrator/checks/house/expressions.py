"""Every call and attribute access of a file, with the conditions and scopes around it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.checks.house.reads import inner_parts
from orchestrator.code.imports import statements_in
from orchestrator.code.nodes import LEAVES, parts_of
from orchestrator.code.scopes import first_line
from orchestrator.code.spotting import spans
from orchestrator.code.symbols import own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.code.imports import Guard
    from orchestrator.code.source import Source

Accessed = ast.Call | ast.Attribute
_WITH_A_MEANING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)
"""What adds a scope or a condition to what stands in it."""
_WITH_A_SCOPE = frozenset({ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp})


def accesses(source: Source, lines: Sequence[int] | None = None) -> Iterator[tuple[Accessed, ast.stmt, Guard]]:
    """Yield each call and each attribute access, its statement, and what stands around it.

    With `lines` (sorted) only statements that span one of them are looked into. Annotations count as well.
    """
    for statement, guard in statements_in(source):
        if lines is not None and not spans(statement, lines):
            continue
        for part in reversed(list(own_expressions(statement))):
            yield from ((node, statement, around) for node, around in _inside(part, guard))


Standing = tuple[Accessed, ast.stmt, tuple[ast.AST, ...]]
"""A call or an attribute access, the statement that it is in, and the scopes around it."""


def standing(source: Source, lines: Sequence[int] | None = None) -> Iterator[Standing]:
    """Yield what `accesses` does, with the scopes but without the conditions: those are needed of few.

    See `guard_of` for one's conditions.
    """
    for statement, guard in statements_in(source):
        if lines is not None and not spans(statement, lines):
            continue
        scopes = guard.scopes
        pending = list(own_expressions(statement))
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind in LEAVES:
                continue
            if kind is ast.Call or kind is ast.Attribute:
                yield node, statement, scopes  # type: ignore[misc]  # it is one of the two
            if kind in _WITH_A_SCOPE:
                for part, inside in reversed(list(inner_parts(node, guard))):
                    yield from ((each, statement, around.scopes) for each, around in _inside(part, inside))
            else:
                pending += parts_of(node)


def guard_of(node: Accessed, statement: ast.stmt, source: Source) -> Guard:
    """Return what stands around a call or an attribute access that stands in a statement."""
    return next(guard for other, _, guard in accesses(source, [first_line(statement)]) if other is node)


def _inside(root: ast.AST, guard: Guard) -> Iterator[tuple[Accessed, Guard]]:
    pending = [(root, guard)]
    while pending:
        node, around = pending.pop()
        if isinstance(node, Accessed):
            yield node, around
        if isinstance(node, _WITH_A_MEANING):
            pending.extend(inner_parts(node, around))
        else:
            pending.extend([(part, around) for part in parts_of(node)])


def terminal(function: ast.expr) -> str:
    """Return the last identifier of what is called: `f` of `f(…)`, `m.f(…)` and `super().f(…)`."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
