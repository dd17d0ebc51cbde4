"""The proof that an edit did what it says and nothing else.

Two syntax trees are walked side by side: the one before, with what was replaced, and the one after. They
must agree everywhere, and at each site the new tree must hold exactly the replacement. A statement whose lines
no splice touches has the same text before and after: where a statement of its kind stands at the same place,
moved by the lines that were added, it is the same statement.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from orchestrator.code.patterns import TELLING, Matcher, same_constant
from orchestrator.code.scopes import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

Replacements = dict[int, tuple[int, tuple[ast.AST, ...]]]
"""id of the first replaced node → (how many nodes in a row are replaced, what stands there now)."""


class _Proof:
    """Compares two trees; at a replaced node it compares with the replacement instead."""

    def __init__(self, replaced: Replacements, touched: range, added: int) -> None:
        self.replaced = replaced
        self.touched = touched
        self.added = added

    def same(self, old: Any, new: Any) -> bool:  # noqa: ANN401 - nodes, lists and constants alike
        if isinstance(old, ast.AST):
            return isinstance(new, ast.AST) and self._same_node(old, new)
        if isinstance(old, list):
            return isinstance(new, list) and self._same_list(old, new)
        return same_constant(old, new)

    def _same_node(self, old: ast.AST, new: ast.AST) -> bool:
        if id(old) in self.replaced:
            count, brought = self.replaced[id(old)]
            return count == 1 and len(brought) == 1 and Matcher().same(brought[0], new)
        if type(old) is not type(new):
            return False
        if isinstance(old, ast.stmt) and isinstance(new, ast.stmt):
            moved = self._moved(old)
            if moved is not None:
                return _position(old, moved) == _position(new, 0)
        return all(self.same(getattr(old, field, None), getattr(new, field, None)) for field in TELLING[type(old)])

    def _moved(self, statement: ast.stmt) -> int | None:
        """Return by how many lines an untouched statement moved, None for one that a splice may have touched."""
        if (statement.end_lineno or statement.lineno) < self.touched.start:
            return 0
        return self.added if first_line(statement) >= self.touched.stop else None

    def _same_list(self, old: Sequence[Any], new: Sequence[Any]) -> bool:
        if not any(id(item) in self.replaced for item in old):
            return len(old) == len(new) and all(map(self.same, old, new))
        here, there = 0, 0
        while here < len(old):
            count, brought = self.replaced.get(id(old[here]), (0, ()))
            if not count and not brought:
                if there >= len(new) or not self.same(old[here], new[there]):
                    return False
                here, there = here + 1, there + 1
                continue
            if not Matcher().same(list(brought), list(new[there : there + len(brought)])):
                return False
            here, there = here + count, there + len(brought)
        return there == len(new)


def _position(statement: ast.stmt, moved: int) -> tuple[int, int, int, int | None]:
    end = statement.end_lineno or statement.lineno
    return (statement.lineno + moved, statement.col_offset, end + moved, statement.end_col_offset)


def proved(before: ast.Module, after: ast.Module, replaced: Replacements, touched: range, added: int) -> bool:
    """Tell whether `after` is `before` with exactly these replacements.

    `touched` are the lines of `before` that the edit spans, `added` is by how many lines those below moved.
    """
    return _Proof(replaced, touched, added).same(before.body, after.body)
