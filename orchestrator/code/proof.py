"""The proof that an edit did what it says and nothing else.

Two syntax trees are walked side by side: the one before, with what was replaced, and the one after. They
must agree everywhere, and at each site the new tree must hold exactly the replacement. A statement whose lines
no splice touches has the same text before and after: where a statement of its kind stands at the same place,
moved by the lines that were added, it is the same statement.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from orchestrator.code.patterns import Matcher
from orchestrator.code.scopes import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

Replacements = dict[int, tuple[int, tuple[ast.AST, ...]]]
"""id of the first replaced node → (how many nodes in a row are replaced, what stands there now)."""


class _Proof(Matcher):
    """Compares two trees without holes; at a replaced node it compares with the replacement instead."""

    def __init__(self, replaced: Replacements, touched: range, added: int) -> None:
        super().__init__()
        self.replaced = replaced
        self.touched = touched
        self.added = added

    def same(self, pattern: Any, node: Any) -> bool:  # noqa: ANN401 - nodes, lists and constants alike
        if isinstance(pattern, ast.AST) and id(pattern) in self.replaced:
            count, new = self.replaced[id(pattern)]
            return count == 1 and len(new) == 1 and Matcher().same(new[0], node)
        if isinstance(pattern, ast.stmt) and isinstance(node, ast.stmt):
            moved = self._moved(pattern)
            if moved is not None:
                return type(pattern) is type(node) and _position(pattern, moved) == _position(node, 0)
        return super().same(pattern, node)

    def _moved(self, statement: ast.stmt) -> int | None:
        """Return by how many lines an untouched statement moved, None for one that a splice may have touched."""
        if (statement.end_lineno or statement.lineno) < self.touched.start:
            return 0
        return self.added if first_line(statement) >= self.touched.stop else None

    def _same_list(self, pattern: Sequence[Any], nodes: Sequence[Any]) -> bool:
        if not any(id(item) in self.replaced for item in pattern):
            return super()._same_list(pattern, nodes)
        old, new = 0, 0
        while old < len(pattern):
            count, inserted = self.replaced.get(id(pattern[old]), (0, ()))
            if not count and not inserted:
                if new >= len(nodes) or not self.same(pattern[old], nodes[new]):
                    return False
                old, new = old + 1, new + 1
                continue
            if not Matcher().same(list(inserted), list(nodes[new : new + len(inserted)])):
                return False
            old, new = old + count, new + len(inserted)
        return new == len(nodes)


def _position(statement: ast.stmt, moved: int) -> tuple[int, int, int, int | None]:
    end = statement.end_lineno or statement.lineno
    return (statement.lineno + moved, statement.col_offset, end + moved, statement.end_col_offset)


def proved(before: ast.Module, after: ast.Module, replaced: Replacements, touched: range, added: int) -> bool:
    """Tell whether `after` is `before` with exactly these replacements.

    `touched` are the lines of `before` that the edit spans, `added` is by how many lines those below moved.
    """
    return _Proof(replaced, touched, added).same(before.body, after.body)
