"""Which names a syntax tree looks up in its module: what `symtable` says of the text, without parsing it again."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.code.nodes import LEAVES, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False)
class _Scope:
    """What one scope reads and binds; `free` are the names that scopes in it read and do not bind.

    `holder` is where a `:=` binds: outside of comprehensions. `private` names are mangled, and so never the module's.
    """

    outer: _Scope | None = None
    is_class: bool = False
    private: bool = False
    read: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    module: set[str] = field(default_factory=set)
    nonlocal_: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)
    holder: _Scope | None = None


def module_lookups(tree: ast.Module, *, annotations: bool = True) -> frozenset[str]:
    """Return every name that some scope of a module looks up in the module or among the builtins.

    What is only declared `global` and assigned counts too. With `annotations` those count, evaluated or not.
    """
    reader = _Reader(annotations=annotations)
    top = _Scope()
    reader.read(top, tree.body)
    found: set[str] = set()
    for scope in reversed(reader.scopes):  # inner scopes come after outer ones
        local = scope.bound - scope.module - scope.nonlocal_
        names = (scope.read - local) | (scope.free if scope.is_class else scope.free - local)
        found |= (names | scope.bound) & scope.module
        names -= scope.module
        if scope.private:
            names = {name for name in names if not name.startswith("__") or name.endswith("__")}
        (scope.outer or top).free |= names
    return frozenset(found | top.read | top.free)


class _Reader:
    """Walks a tree once, scope by scope."""

    def __init__(self, *, annotations: bool) -> None:
        self.annotations = annotations
        self.scopes: list[_Scope] = []
        self.pending: list[ast.AST] = []
        self.special: dict[type[ast.AST], Callable[[_Scope, Any], None]] = {
            ast.FunctionDef: self.function,
            ast.AsyncFunctionDef: self.function,
            ast.ClassDef: self.class_,
            ast.Lambda: self.lambda_,
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), self.comprehension),
            ast.NamedExpr: self.walrus,
            ast.AnnAssign: self.annotated,
            **dict.fromkeys((ast.Import, ast.ImportFrom), self.import_),
            **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping), self.named),
            ast.Global: lambda scope, node: scope.module.update(node.names),
            ast.Nonlocal: lambda scope, node: scope.nonlocal_.update(node.names),
        }

    def read(self, scope: _Scope, roots: Iterable[ast.AST]) -> None:
        """Note what the scope reads and binds in these nodes."""
        before, self.pending = self.pending, list(roots)
        pending, special = self.pending, self.special
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind is ast.Name:
                (scope.read if type(node.ctx) is ast.Load else scope.bound).add(node.id)  # type: ignore[attr-defined]  # it is a Name
            elif kind is ast.Attribute:
                pending.append(node.value)  # type: ignore[attr-defined]  # it is an Attribute
            elif kind in special:
                special[kind](scope, node)
            elif kind not in LEAVES:
                pending += parts_of(node)
        self.pending = before

    def inner(self, outer: _Scope, *, is_class: bool = False) -> _Scope:
        """Return a new scope inside another."""
        scope = _Scope(outer, is_class=is_class, private=is_class)
        self.scopes.append(scope)
        return scope

    def generic(self, scope: _Scope, node: ast.AST) -> _Scope:
        """Return the scope of a definition's type parameters (PEP 695), the one around where it has none."""
        parameters: list[ast.AST] = getattr(node, "type_params", [])
        if not parameters:
            return scope
        scope = self.inner(scope)
        scope.bound.update(parameter.name for parameter in parameters)  # type: ignore[attr-defined]  # all have one
        for parameter in parameters:
            self.read(scope, ast.iter_child_nodes(parameter))
        return scope

    def function(self, scope: _Scope, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Read a function: decorators and defaults are evaluated around it."""
        scope.bound.add(node.name)
        self.pending += node.decorator_list
        around = self.generic(scope, node)
        inside = self.inner(around)
        annotations = self.arguments(inside, node.args) + ([node.returns] if node.returns else [])
        if self.annotations:
            self.read(around, annotations)
        self.read(inside, node.body)

    def arguments(self, inside: _Scope, arguments: ast.arguments) -> list[ast.expr]:
        """Bind the parameters in their function, leave the defaults to be read; return the annotations."""
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        there = [argument for argument in every if argument]
        inside.bound.update(argument.arg for argument in there)
        self.pending += [default for default in (*arguments.defaults, *arguments.kw_defaults) if default]
        return [argument.annotation for argument in there if argument.annotation]

    def lambda_(self, scope: _Scope, node: ast.Lambda) -> None:
        """Read a lambda."""
        inside = self.inner(scope)
        self.arguments(inside, node.args)
        self.read(inside, [node.body])

    def class_(self, scope: _Scope, node: ast.ClassDef) -> None:
        """Read a class: its methods do not see what it binds."""
        scope.bound.add(node.name)
        self.pending += node.decorator_list
        around = self.generic(scope, node)
        self.read(around, [*node.bases, *node.keywords])
        self.read(self.inner(around, is_class=True), node.body)

    def comprehension(self, scope: _Scope, node: _Comprehension) -> None:
        """Read a comprehension: only its first iterable is evaluated around it."""
        inside = self.inner(scope)
        inside.holder = scope.holder or scope
        first, *others = node.generators
        self.pending.append(first.iter)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.read(inside, [*parts, first.target, *first.ifs, *others])

    def walrus(self, scope: _Scope, node: ast.NamedExpr) -> None:
        """Read a `:=`: in a comprehension it binds outside of it."""
        (scope.holder or scope).bound.add(node.target.id)
        self.pending.append(node.value)

    def annotated(self, _: _Scope, node: ast.AnnAssign) -> None:
        """Read an annotated assignment."""
        self.pending += [node.target, *([node.value] if node.value else [])]
        self.pending += [node.annotation] if self.annotations else []

    def import_(self, scope: _Scope, node: ast.Import | ast.ImportFrom) -> None:
        """Bind what an import brings."""
        scope.bound.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)

    def named(self, scope: _Scope, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        """Bind the name of an except clause or a pattern, and read what is in it."""
        name: str | None = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name")
        if name:
            scope.bound.add(name)
        self.pending += parts_of(node)
