"""The proof that an edit did what it says and nothing else.

Two syntax trees are walked side by side: the one before, with what was replaced, and the one after. They
must agree everywhere, and at each site the new tree must hold exactly the replacement.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from orchestrator.code.patterns import Matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

Replacements = dict[int, tuple[int, tuple[ast.AST, ...]]]
"""id of the first replaced node → (how many nodes in a row are replaced, what stands there now)."""


class _Proof(Matcher):
    """Compares two trees without holes; at a replaced node it compares with the replacement instead."""

    def __init__(self, replaced: Replacements) -> None:
        super().__init__()
        self.replaced = replaced

    def same(self, pattern: Any, node: Any) -> bool:  # noqa: ANN401 - nodes, lists and constants alike
        if isinstance(pattern, ast.AST) and id(pattern) in self.replaced:
            count, new = self.replaced[id(pattern)]
            return count == 1 and len(new) == 1 and Matcher().same(new[0], node)
        return super().same(pattern, node)

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


def proved(before: ast.Module, after: ast.Module, replaced: Replacements, touched: range) -> bool:
    """Tell whether `after` is `before` with exactly these replacements.

    `touched` are the lines of `before` that the edit spans: top-level statements outside of them kept their
    text, so only their number is compared.
    """
    top = _Proof(replaced)
    old = [s for s in before.body if _overlaps(s, touched)]
    first = before.body.index(old[0]) if old else len(before.body)
    after_part = after.body[first : len(after.body) - (len(before.body) - first - len(old))]
    return top.same(list(old), list(after_part))


def _overlaps(statement: ast.stmt, lines: range) -> bool:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    start = min([statement.lineno, *(d.lineno for d in decorators)])
    return start < lines.stop and (statement.end_lineno or start) >= lines.start
