"""States of the abstract interpreter in `fold`: what is known at one point of one path."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.constants import Unknown, Value, assumption, fold, key, positive, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PATHS = 200


@dataclass(frozen=True)
class State:
    """Variables, whole expressions whose value is known, and the conditions assumed on the way here."""

    names: Mapping[str, Value]
    known: Mapping[str, Value]
    conditions: tuple[str, ...] = ()

    def binding(self, name: str, value: Value) -> State:
        """Return the state in which `name` is `value`; what was known of expressions with it is forgotten."""
        known = {text: v for text, v in self.known.items() if name not in names_in(text)}
        return State({**self.names, name: value}, known, self.conditions)

    def assuming(self, test: ast.expr, holds: bool) -> State:  # noqa: FBT001 - a condition holds or does not
        """Return the state in which a condition that is unknown here is taken to hold, or not to."""
        shown = text_of(test) if holds else f"not ({text_of(test)})"
        return State(self.names, {**self.known, **_facts(test, holds)}, (*self.conditions, shown))


def _facts(test: ast.expr, holds: bool) -> dict[str, Value]:  # noqa: FBT001 - a condition holds or does not
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _facts(operand, not holds)
        case ast.BoolOp(op=op, values=parts) if isinstance(op, ast.And) is holds:
            return {text: value for part in parts for text, value in _facts(part, holds).items()}
        case ast.Compare():
            text, same = positive(test)
            return {text: holds is same}
        case _:
            return {assumption(test): holds}


@functools.lru_cache(maxsize=1_000)
def names_in(text: str) -> frozenset[str]:
    """Return the names that an expression, given as text, mentions."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return frozenset()
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def common(left: State, right: State) -> State:
    """Return the state that says what both say; a name on which they differ is unknown."""
    many = Unknown(f"there are more than {MAX_PATHS} paths to here")
    names = {
        name: value if name in right.names and key(value) == key(right.names[name]) else many
        for name, value in left.names.items()
    }
    known = {t: v for t, v in left.known.items() if t in right.known and key(v) == key(right.known[t])}
    return State(names, known, tuple(c for c in left.conditions if c in right.conditions))


def pairs(target: ast.expr, value: ast.expr, state: State) -> list[tuple[str, Value]]:
    """Return what an assignment to one target binds; the values are those before the assignment."""
    match target, value:
        case ast.Name(id=name), _:
            return [(name, fold(value, state.names, state.known))]
        case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(elts=values) | ast.List(elts=values) if len(
            targets
        ) == len(values) and not any(isinstance(t, ast.Starred) for t in [*targets, *values]):
            return [pair for t, v in zip(targets, values, strict=True) for pair in pairs(t, v, state)]
        case ast.Tuple() | ast.List() | ast.Starred(), _:
            return _unpacked(target, value, state)
        case _:
            return []


def _unpacked(target: ast.expr, value: ast.expr, state: State) -> list[tuple[str, Value]]:
    """Return what unpacking one value binds: the items of a known tuple, else nothing that is known."""
    found = fold(value, state.names, state.known)
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    if isinstance(found, tuple) and len(found) == len(parts) and all(isinstance(part, ast.Name) for part in parts):
        return [(part.id, item) for part, item in zip(parts, found, strict=True) if isinstance(part, ast.Name)]
    unknown = Unknown(f"`{text_of(value)}` is not known")
    names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [(name, unknown) for name in names]
