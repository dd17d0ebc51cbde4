"""The parts of a definition that an edit may change, found with the standard library alone.

Nothing here knows the program's own idea of scopes and patterns: what is right is judged by a second opinion.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SIMPLE = (
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert, ast.Delete),
    *(ast.Import, ast.ImportFrom, ast.Pass, ast.Break, ast.Continue),
)
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


@dataclass(frozen=True)
class Part:
    """One part of a definition: what it says, its node, and the statement of the definition that it lies in."""

    says: str
    """Equal for two parts exactly if an edit of the one is the same edit of the other."""
    node: ast.AST
    statement: ast.stmt
    body: list[ast.stmt]

    @property
    def index(self) -> int:
        """Where the statement stands in its body."""
        return next(i for i, each in enumerate(self.body) if each is self.statement)


def scopes(tree: ast.Module) -> Iterator[tuple[str, Scope]]:
    """Yield the module (named "") and every definition under its qualified name, wherever it stands."""
    yield "", tree
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, DEFINITIONS):
                yield prefix + child.name, child
                pending.append((f"{prefix}{child.name}.", child))
            else:
                pending.append((prefix, child))


def own_statements(scope: Scope) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """Yield (statement, the list it stands in) of a definition's own code, nested definitions left out."""
    pending: list[ast.AST] = [scope]
    while pending:
        node = pending.pop()
        for value in vars(node).values():
            if not isinstance(value, list):
                continue
            for each in value:
                if isinstance(each, ast.stmt):
                    yield each, value
                if isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(
                    each, DEFINITIONS
                ):
                    pending.append(each)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without those of statements inside it."""
    pending: list[ast.AST] = [statement]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if isinstance(child, ast.expr | ast.keyword | ast.withitem | ast.comprehension):
                yield child
                pending.append(child)


def _whole(*kinds: type[ast.stmt]) -> Callable[[Scope], Iterator[Part]]:
    def found(scope: Scope) -> Iterator[Part]:
        for statement, body in own_statements(scope):
            if isinstance(statement, kinds):
                yield Part(ast.dump(statement), statement, statement, body)

    return found


def _conditions(scope: Scope) -> Iterator[Part]:
    for statement, body in own_statements(scope):
        if isinstance(statement, ast.If | ast.While):
            says = f"{type(statement).__name__} {ast.dump(statement.test)}"
            yield Part(says, statement, statement, body)


def _arguments(scope: Scope) -> Iterator[Part]:
    for statement, body in own_statements(scope):
        if isinstance(statement, DEFINITIONS):
            continue  # a default or a decorator belongs to the definition around it, but is read as the nested one's
        for node in _expressions(statement):
            for keyword in node.keywords if isinstance(node, ast.Call) else ():
                if keyword.arg:
                    assert isinstance(node, ast.Call)
                    says = f"{ast.dump(node.func)} {keyword.arg}={ast.dump(keyword.value)}"
                    yield Part(says, keyword, statement, body)


PARTS: dict[str, Callable[[Scope], Iterator[Part]]] = {
    "assignment": _whole(ast.Assign, ast.AnnAssign),
    "argument": _arguments,
    "condition": _conditions,
    "return": _whole(ast.Return),
    "raise": _whole(ast.Raise),
    "deletion": _whole(ast.Expr, ast.Assert, ast.AugAssign),
    "insertion": _whole(ast.Expr, ast.Assign, ast.AugAssign, ast.Assert),
}
"""Kind of edit → the parts of a definition that it may change. An import has no such part."""


def calls_of(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls in a statement's own expressions."""
    for node in _expressions(statement):
        if isinstance(node, ast.Call):
            yield node
