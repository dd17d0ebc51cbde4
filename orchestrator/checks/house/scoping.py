"""Python's own scoping: which names a definition, lambda or comprehension hides from what is around it."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from orchestrator.code.imports import guarded
from orchestrator.code.symbols import all_bound, parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@lru_cache(maxsize=4096)
def scope_names(scope: ast.AST) -> frozenset[str]:
    """Return the names that a definition, lambda or comprehension hides from what is around it."""
    generic = {parameter.name for parameter in getattr(scope, "type_params", [])}
    match scope:
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            return frozenset(all_bound(body) | _only_declared(body) | parameters(scope) | generic)
        case ast.ClassDef(body=body):
            return frozenset(all_bound(body) | generic)
        case ast.Lambda():
            return frozenset(parameters(scope))
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            targets = (node for g in scope.generators for node in ast.walk(g.target))
            return frozenset(node.id for node in targets if isinstance(node, ast.Name))
        case _:
            return frozenset()


def _only_declared(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that `x: int` or `del x` make local without binding them."""
    names: set[str] = set()
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Delete(targets=targets):
                names.update(t.id for t in targets if isinstance(t, ast.Name))
            case _ if not isinstance(node, (*_DEFINITIONS, ast.expr)):
                pending.extend(ast.iter_child_nodes(node))
    return names


def hidden(scopes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that are not the module's inside these scopes."""
    return frozenset().union(*(scope_names(scope) for scope in scopes))


@lru_cache(maxsize=4096)
def _globals(scope: ast.AST) -> frozenset[str]:
    """Return what a definition declares `global`."""
    names: set[str] = set()
    if isinstance(scope, _DEFINITIONS):
        for statement, _ in guarded(scope.body, nested=False):
            if isinstance(statement, ast.Global):
                names.update(statement.names)
    return frozenset(names)


def owner_of(name: str, scopes: Sequence[ast.AST]) -> int | None:
    """Return which of these scopes (outermost first) binds `name` as seen from the innermost, None: the module."""
    innermost = True
    for number in reversed(range(len(scopes))):
        scope = scopes[number]
        if name in _globals(scope):
            return None
        if isinstance(scope, ast.ClassDef) and not innermost:
            continue  # what a class binds is not seen from its methods
        if name in scope_names(scope):
            return number
        # A comprehension in a class body does not see the class either, except through its first iterable.
        innermost = False
    return None


def is_module_level(name: str, scopes: Sequence[ast.AST]) -> bool:
    """Tell whether `name` is looked up in the module from inside these scopes."""
    return owner_of(name, scopes) is None
