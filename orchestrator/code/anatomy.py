"""What stands in one statement, looked at once: whoever executes a function asks again for every state.

Statements are compared by identity, so what is kept of one never speaks for another.
"""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.code.constants import text_of
from orchestrator.code.nodes import parts_of
from orchestrator.code.symbols import bound_by, inner_statements, own_expressions, reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPED = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
"""What binds names in a way of its own: `bound_by` and `reads` know it."""
_BINDS_OTHERWISE = (*_DEFINITIONS, ast.Import, ast.ImportFrom, ast.AnnAssign)


class Walrus(NamedTuple):
    """A `name := value`; `certain` if it is evaluated whenever its statement is."""

    name: str
    value: ast.expr
    certain: bool


class Anatomy(NamedTuple):
    """What a statement has in its own expressions, without the statements in it.

    `nodes` are all nodes of `parts`, breadth first, but contexts and operators. `bound` are the names that it binds,
    `unbound` those that it deletes, `handled` those of its except clauses, `stored` the attributes and items
    that it assigns, as text, and `tests` the conditions of its conditional expressions.
    """

    parts: tuple[ast.AST, ...]
    nodes: tuple[ast.AST, ...]
    inner: tuple[ast.stmt, ...]
    bound: frozenset[str]
    unbound: frozenset[str]
    handled: frozenset[str]
    read: frozenset[str]
    stored: tuple[str, ...]
    walruses: tuple[Walrus, ...]
    tests: tuple[ast.expr, ...]


@functools.lru_cache(maxsize=4_096)
def anatomy(statement: ast.stmt) -> Anatomy:
    """Return what stands in a statement."""
    parts = tuple(own_expressions(statement))
    by_part = [nodes_of(part) for part in parts]
    nodes = tuple(node for several in by_part for node in several)
    kinds = set(map(type, nodes))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    if kinds.isdisjoint(_SCOPED):
        read = {name.id for name in names if not isinstance(name.ctx, ast.Store)}
    else:
        read = {name.id for part in parts for name in reads(part)}
    if kinds.isdisjoint(_SCOPED) and not isinstance(statement, _BINDS_OTHERWISE):
        bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    else:
        bound = bound_by(statement)
    return Anatomy(
        parts,
        nodes,
        tuple(inner_statements(statement)),
        frozenset(bound),
        frozenset(t.id for t in getattr(statement, "targets", ()) if isinstance(statement, ast.Delete) and _named(t)),
        frozenset(handler.name for handler in getattr(statement, "handlers", ()) if handler.name),
        frozenset(read | bound if isinstance(statement, ast.AugAssign) else read),
        tuple(_stored(statement)),
        tuple(_walruses(parts, by_part)) if ast.NamedExpr in kinds else (),
        conditions(nodes) if ast.IfExp in kinds else (),
    )


def nodes_of(root: ast.AST) -> list[ast.AST]:
    """Return all nodes of an expression in the order of `ast.walk`, without contexts and operators."""
    found = [root]
    for node in found:  # grows as it is walked
        found += parts_of(node)
    return found


def conditions(nodes: Iterable[ast.AST]) -> tuple[ast.expr, ...]:
    """Return the conditions of the conditional expressions among the nodes."""
    return tuple(node.test for node in nodes if isinstance(node, ast.IfExp))


def every(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield every statement of a scope; nested functions and classes count as one."""
    for statement in body:
        yield statement
        yield from every(anatomy(statement).inner)


def _named(target: ast.AST) -> bool:
    return isinstance(target, ast.Name)


def _stored(statement: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    match statement:
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            targets = [target]
    yield from (text_of(part) for part in targets if isinstance(part, ast.Attribute | ast.Subscript))


def _walruses(parts: Iterable[ast.AST], by_part: Iterable[list[ast.AST]]) -> Iterator[Walrus]:
    for part, nodes in zip(parts, by_part, strict=True):
        certain = part.left if isinstance(part, ast.Compare) else part
        for node in nodes:
            if isinstance(node, ast.NamedExpr):
                yield Walrus(node.target.id, node.value, node is certain)
