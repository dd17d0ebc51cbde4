"""Every call and attribute access of a file, with the conditions and scopes around it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.checks.house.reads import inner_parts
from orchestrator.code.imports import guarded
from orchestrator.code.nodes import parts_of
from orchestrator.code.spotting import spans
from orchestrator.code.symbols import own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.code.imports import Guard
    from orchestrator.code.source import Source

Accessed = ast.Call | ast.Attribute
_WITH_A_MEANING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)
"""What adds a scope or a condition to what stands in it."""


def accesses(source: Source, lines: Sequence[int] | None = None) -> Iterator[tuple[Accessed, ast.stmt, Guard]]:
    """Yield each call and each attribute access, its statement, and what stands around it.

    With `lines` (sorted) only statements that span one of them are looked into. Annotations count as well.
    """
    for statement, guard in guarded(source.tree.body):
        if lines is not None and not spans(statement, lines):
            continue
        pending = [(part, guard) for part in own_expressions(statement)]
        while pending:
            node, around = pending.pop()
            if isinstance(node, Accessed):
                yield node, statement, around
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
