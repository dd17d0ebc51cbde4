"""Which fields each kind of syntax node has, told once: whoever walks a tree asks for every node."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS: tuple[type[ast.AST], ...] = tuple(
    kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.AST)
)

_PLAIN = frozenset({
    *("ctx", "op", "ops", "type_comment", "type_ignores", "attr", "id", "kind"),
    *("arg", "asname", "module", "level", "conversion", "simple", "is_async", "rest", "kwd_attrs"),
})  # fmt: skip
_PARTS = {
    kind: () if kind is ast.Constant else tuple(field for field in kind._fields if field not in _PLAIN)
    for kind in KINDS
}
LEAVES = frozenset(kind for kind, fields in _PARTS.items() if not fields)
"""The kinds of nodes that have no nodes in them, but for contexts."""


def fields_among(names: Iterable[str]) -> dict[type[ast.AST], tuple[str, ...]]:
    """Return for each kind of node which of these fields it has, in this order."""
    wanted = tuple(names)
    return {kind: tuple(name for name in wanted if name in kind._fields) for kind in KINDS}


def parts_of(node: ast.AST, fields: Iterable[str] | None = None) -> list[ast.AST]:
    """Return the nodes directly in a node, of these fields or of all, without contexts and operators."""
    found: list[ast.AST] = []
    for field in _PARTS[type(node)] if fields is None else fields:
        value = getattr(node, field, None)
        if type(value) is list:
            if value:
                found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found
