"""Where a symbol of the tree is used: names are resolved through scopes, imports, re-exports and module attributes.

Files are first searched for the identifier as bytes; only those that have it are parsed. What stands in strings,
comments and type-checker-only imports is no use, and neither is the definition itself.
"""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks.house.world import InTree, World
from orchestrator.code.imports import Import, imports_in
from orchestrator.code.spotting import lines_with, spans
from orchestrator.code.symbols import all_bound, declared_outside, parameters
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from orchestrator.checks.view import View
    from orchestrator.code.scopes import FunctionNode
    from orchestrator.code.source import Source
    from orchestrator.core.diagnostics import Place

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PROPERTIES = {"property", "cached_property"}


@dataclass(frozen=True)
class Use:
    """One use: its place, the qualified name of the definition around it (empty at module level), is it a call."""

    place: Place
    around: str
    is_call: bool

    def __str__(self) -> str:
        return f"{self.place} in `{self.around}`" if self.around else str(self.place)

    def within(self, by: str) -> bool:
        """Tell whether the use stands in `FILE` or `FILE:DEFINITION`."""
        file, _, name = by.partition(":")
        return self.place.file == file and (not name or self.around == name or self.around.startswith(f"{name}."))


class Uses:
    """Finds uses in one view, only those in the files of `among` if given, and in the file that binds a name."""

    def __init__(self, view: View, among: Collection[str] | None = None) -> None:
        self.view = view
        self.among = among
        self.world = World(view)

    def of_global(self, file: str, name: str) -> Iterator[Use]:
        """Yield the uses of a module-level name: in its own file first, then where it is imported, by path."""
        pending = deque([(file, name)])
        seen = {(file, name)}
        while pending:
            path, current = pending.popleft()
            own = self.view.source(path)
            if own is not None:
                yield from _bound_uses(own, current, None)
            for source in self._with_word(current):
                if source.path == path:
                    continue
                for found in self._imports_of(source, path, current):
                    where = _local_scope(found)
                    if where is None and (source.path, _binds(found, current)) not in seen:
                        seen.add((source.path, _binds(found, current)))
                        pending.append((source.path, _binds(found, current)))
                    elif where is not None:
                        yield from _bound_uses(source, _binds(found, current), where)
                yield from self._attribute_uses(source, path, current)

    def of_local(self, source: Source, scope: FunctionNode, name: str) -> Iterator[Use]:
        """Yield the uses of a function's local name."""
        yield from _bound_uses(source, name, scope)

    def of_attribute(self, name: str) -> Iterator[Use]:
        """Yield the uses of an attribute of this name on anything that is not a module."""
        for source in self._with_word(name):
            modules = {found.binds for found in imports_in(source) if found.name is None}
            found_reads, above = _reads(source, name)
            for node in found_reads:
                if isinstance(node, ast.Attribute):
                    used = ast.unparse(node.value).partition(".")[0] not in modules
                else:
                    used = isinstance(_scope_of(node, name, above), ast.ClassDef)
                if used and not _rebinds(node, name, above):
                    yield _use(source, node, above)

    def imports_of_module(self, file: str) -> Iterator[tuple[Source, Import]]:
        """Yield every import of a module by another file that really runs."""
        module = _dotted(file)
        for source in self._with_word(module.rpartition(".")[2]):
            if source.path == file:
                continue
            for found in imports_in(source):
                if _for_checkers(found):
                    continue
                whole = {found.module, f"{found.module}.{found.name}"}
                inside = file.endswith("/__init__.py") and str(found.module).startswith(f"{module}.")
                if module in whole or inside:
                    yield source, found

    def _with_word(self, name: str) -> Iterator[Source]:
        """Yield the files that have the identifier anywhere and that parse, by path."""
        for path in sorted(self.view.paths() if self.among is None else self.among):
            raw = self.view.tree.get(path, b"") if path.endswith(".py") else b""
            if not self.view.sources.has_word(raw, name):
                continue
            source = self.view.source(path)
            try:
                if source is not None and source.tree:
                    yield source
            except Rejected:
                continue  # a house rule of its own says that a file does not parse

    def _imports_of(self, source: Source, path: str, name: str) -> Iterator[Import]:
        for found in imports_in(source):
            if found.name in (name, "*") and self._means(found.module, path) and not _for_checkers(found):
                yield found

    def _attribute_uses(self, source: Source, path: str, name: str) -> Iterator[Use]:
        """Yield `module.name` for every name under which the module is in reach."""
        spelt = {found.alias.asname or found.alias.name for found in imports_in(source) if self._is(found, path)}
        whole = _dotted(path)
        plain = (found.alias.name for found in imports_in(source) if found.name is None and not found.alias.asname)
        spelt |= {whole for name_ in plain if whole.startswith(f"{name_}.")}  # `import vllm`, then `vllm.envs.X`
        if not spelt:
            return
        found_reads, above = _reads(source, name)
        for node in found_reads:
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in spelt:
                yield _use(source, node, above)

    def _is(self, found: Import, path: str) -> bool:
        return self._means(found.module if found.name is None else f"{found.module}.{found.name}", path)

    def _means(self, module: str | None, path: str) -> bool:
        """Tell whether a module's name stands for this file, not for a package of the same name beside it."""
        if module != _dotted(path):
            return False
        found = self.world.find(module)
        return isinstance(found, InTree) and found.source is not None and found.source.path == path


def _dotted(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _binds(found: Import, name: str) -> str:
    return name if found.name == "*" else found.binds


def _local_scope(found: Import) -> ast.AST | None:
    return found.guard.scopes[-1] if found.guard.scopes else None


def _for_checkers(found: Import) -> bool:
    return any(t.wanted and ast.unparse(t.expression).endswith("TYPE_CHECKING") for t in found.guard.tests)


Parents = dict[ast.AST, ast.AST]


def _reads(source: Source, name: str) -> tuple[list[ast.Name | ast.Attribute], Parents]:
    """Return every read of the identifier, as a name or as an attribute, and what stands around each node on the way.

    The order is that of `ast.walk`. Only what spans a line with the identifier is entered.
    """
    lines = lines_with(source, [name])
    above: Parents = {}
    found: list[ast.Name | ast.Attribute] = []
    misplaced: set[ast.AST] = set()
    pending: list[ast.AST] = [source.tree]
    for node in pending:  # grows as it is walked
        match node:
            case ast.Name(id=read, ctx=ast.Load()) | ast.Attribute(attr=read, ctx=ast.Load()) if read == name:
                found.append(node)
        # Before Python 3.12 `ast` misplaces what stands in some f-strings.
        anywhere = isinstance(node, ast.JoinedStr) or node in misplaced
        for child in ast.iter_child_nodes(node):
            if anywhere:
                misplaced.add(child)
            elif not spans(child, lines):
                continue
            above[child] = node
            pending.append(child)
    return found, above


def _bound_uses(source: Source, name: str, scope: ast.AST | None) -> Iterator[Use]:
    """Yield the reads of `name` that mean the one bound in `scope` (None: the module), without its own rebinding."""
    found, above = _reads(source, name)
    for node in found:
        plain = isinstance(node, ast.Name) and _scope_of(node, name, above) is scope
        if plain and not _rebinds(node, name, above):
            yield _use(source, node, above)


def _scope_of(node: ast.AST, name: str, above: Mapping[ast.AST, ast.AST]) -> ast.AST | None:
    """Return the function, class, lambda or comprehension that binds `name` as seen from `node`, None: the module."""
    innermost = True
    while node in above:
        outer = above[node]
        match outer:
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body) if node in body:
                if name in (parameters(outer) | all_bound(body)) - declared_outside(outer):
                    return outer
                innermost = False
            case ast.ClassDef(body=body) if node in body:
                if innermost and name in all_bound(body):
                    return outer
                innermost = False
            case ast.Lambda(body=inner) if node is inner and name in parameters(outer):
                return outer
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                targets = [part for g in outer.generators for part in ast.walk(g.target)]
                if any(isinstance(part, ast.Name) and part.id == name for part in targets):
                    return outer
        node = outer
    return None


def _rebinds(node: ast.AST, name: str, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Tell whether the read stands in a statement that gives the name its next value, as in `X = X + 1`."""
    while not isinstance(node, ast.stmt):
        node = above[node]
    return isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and name in {
        ast.unparse(t).rpartition(".")[2] for t in _targets(node)
    }


def _targets(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _use(source: Source, node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> Use:
    return Use(source.place(node), _around(node, above), _is_call(node, above))


def _around(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> str:
    names: list[str] = []
    while node in above:
        outer = above[node]
        if isinstance(outer, _DEFINITIONS) and node in outer.body:
            names.append(outer.name)
        node = outer
    return ".".join(reversed(names))


def _is_call(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> bool:
    """Tell whether a read is called: `f(...)`, the launch `f[grid](...)`, the decorator `@f`."""
    outer = above.get(node)
    if isinstance(outer, ast.Subscript) and outer.value is node:
        node, outer = outer, above.get(outer)
    if isinstance(outer, _DEFINITIONS):
        return node in outer.decorator_list
    return isinstance(outer, ast.Call) and outer.func is node


def is_property(node: ast.AST) -> bool:
    """Tell whether reading a method is calling it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return any(ast.unparse(d).rpartition(".")[2] in _PROPERTIES for d in decorators)
