"""Python's own scoping: which names a definition, lambda or comprehension hides from what is around it."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.code.imports import guarded
from orchestrator.code.symbols import bound_by, parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchestrator.code.imports import Guard

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Contents(NamedTuple):
    """What a scope has: its own statements by each name that they bind, what it hides, what it declares `global`."""

    binding: Mapping[str, Sequence[tuple[ast.stmt, Guard]]]
    hidden: frozenset[str]
    outer: frozenset[str]


@lru_cache(maxsize=8192)
def contents(scope: ast.AST, *, walrus: bool) -> Contents:
    """Return what a definition, lambda or comprehension has, looked at once; `walrus` as for `bound_by`."""
    match scope:
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            return _of_definition(body, _generic(scope) | parameters(scope), declared=True, walrus=walrus)
        case ast.ClassDef(body=body):
            return _of_definition(body, _generic(scope), declared=False, walrus=walrus)
        case ast.Lambda():
            return Contents({}, frozenset(parameters(scope)), frozenset())
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            targets = (node for g in scope.generators for node in ast.walk(g.target))
            return Contents({}, frozenset(node.id for node in targets if isinstance(node, ast.Name)), frozenset())
        case _:
            return Contents({}, frozenset(_generic(scope)), frozenset())


def _generic(scope: ast.AST) -> set[str]:
    return {parameter.name for parameter in getattr(scope, "type_params", [])}


def _of_definition(body: Sequence[ast.stmt], given: set[str], *, declared: bool, walrus: bool) -> Contents:
    binding: dict[str, list[tuple[ast.stmt, Guard]]] = {}
    outer: set[str] = set()
    hidden = given
    for statement, guard in guarded(body, nested=False):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if not walrus:
                binding.setdefault(name, []).append((statement, guard))
                continue
            case ast.Global(names=names):
                outer.update(names)
            case ast.AnnAssign(target=ast.Name(id=name)) if declared:
                hidden.add(name)  # `x: int` and `del x` make a name local without binding it
            case ast.Delete(targets=targets) if declared:
                hidden.update(t.id for t in targets if isinstance(t, ast.Name))
        handled = {handler.name for handler in getattr(statement, "handlers", ()) if handler.name}
        for name in bound_by(statement, walrus=walrus) | handled:
            binding.setdefault(name, []).append((statement, guard))
    return Contents(binding, frozenset(hidden | binding.keys()), frozenset(outer))


def scope_names(scope: ast.AST) -> frozenset[str]:
    """Return the names that a definition, lambda or comprehension hides from what is around it."""
    return contents(scope, walrus=True).hidden


def hidden(scopes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that are not the module's inside these scopes."""
    return frozenset().union(*(scope_names(scope) for scope in scopes))


def owner_of(name: str, scopes: Sequence[ast.AST], *, walrus: bool = True) -> int | None:
    """Return which of these scopes (outermost first) binds `name` as seen from the innermost, None: the module.

    `walrus` as for `bound_by`.
    """
    innermost = True
    for number in reversed(range(len(scopes))):
        scope = scopes[number]
        has = contents(scope, walrus=walrus)
        if name in has.outer:
            return None
        if isinstance(scope, ast.ClassDef) and not innermost:
            continue  # what a class binds is not seen from its methods
        if name in has.hidden:
            return number
        # A comprehension in a class body does not see the class either, except through its first iterable.
        innermost = False
    return None


def is_module_level(name: str, scopes: Sequence[ast.AST]) -> bool:
    """Tell whether `name` is looked up in the module from inside these scopes."""
    return owner_of(name, scopes) is None
