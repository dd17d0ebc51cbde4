"""Which fields each kind of syntax node has, told once: whoever walks a tree asks for every node."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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


_QUICK: dict[type[ast.AST], Callable[[Any], list[ast.AST]]] = {
    **dict.fromkeys(LEAVES, lambda _: []),
    **dict.fromkeys((ast.Attribute, ast.Expr, ast.Starred, ast.keyword), lambda node: [node.value]),
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), lambda node: node.elts),
    ast.Call: lambda node: [node.func, *node.args, *node.keywords],
    ast.Subscript: lambda node: [node.value, node.slice],
    ast.BinOp: lambda node: [node.left, node.right],
    ast.BoolOp: lambda node: node.values,
    ast.UnaryOp: lambda node: [node.operand],
    ast.Compare: lambda node: [node.left, *node.comparators],
    ast.Assign: lambda node: [*node.targets, node.value],
    ast.AugAssign: lambda node: [node.target, node.value],
}
"""The parts of the kinds that most nodes are of."""


def fields_among(names: Iterable[str]) -> dict[type[ast.AST], tuple[str, ...]]:
    """Return for each kind of node which of these fields it has, in this order."""
    wanted = tuple(names)
    return {kind: tuple(name for name in wanted if name in kind._fields) for kind in KINDS}


def parts_of(node: ast.AST, fields: Iterable[str] | None = None) -> list[ast.AST]:
    """Return the nodes directly in a node, of these fields or of all, without contexts and operators.

    The list may be the tree's own: it is not to be changed.
    """
    if fields is None and (quick := _QUICK.get(type(node))) is not None:
        return quick(node)
    found: list[ast.AST] = []
    for field in _PARTS[type(node)] if fields is None else fields:
        value = getattr(node, field, None)
        if type(value) is list:
            if value:
                found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found
