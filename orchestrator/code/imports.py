"""What a module imports and what it binds at top level, each with the conditions that it stands under.

Everything here looks at one syntax tree; which modules exist is the business of the caller.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.code.symbols import bound_by, imported_name, own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from orchestrator.code.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_SIMPLE = frozenset({
    *(ast.Expr, ast.Assign, ast.Return, ast.AnnAssign, ast.AugAssign, ast.Raise, ast.Import, ast.ImportFrom),
    *(ast.Pass, ast.Break, ast.Continue, ast.Delete, ast.Global, ast.Nonlocal),
})  # fmt: skip
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_EVERY_EXCEPTION = frozenset({"BaseException"})
_TAKING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex"})
"""Context managers that take the exceptions they are given: `contextlib`'s, and those of tests."""

ANYTHING = "*"
"""The name that a star import asks for."""


@dataclass(frozen=True)
class Test:
    """A condition on the way to a statement: `expression` has the truth value `wanted` there.

    `scopes` are the definitions, lambdas and comprehensions around it, outermost first.
    """

    __test__ = False  # pytest takes a class of this name for one of its own

    expression: ast.expr
    wanted: bool
    scopes: tuple[ast.AST, ...] = ()


@dataclass(frozen=True)
class Guard:
    """What stands around a statement.

    `tests` must all hold for it to run, `caught` are the exceptions that a `try` or `suppress` around it takes,
    `certain` is False where a loop, a `try` or a `match` decides whether it runs.
    """

    tests: tuple[Test, ...] = ()
    caught: frozenset[str] = frozenset()
    certain: bool = True
    scopes: tuple[ast.AST, ...] = ()

    def under(self, expression: ast.expr, *, wanted: bool) -> Guard:
        """Return this guard with one more condition."""
        tests = (*self.tests, Test(expression, wanted, self.scopes))
        return Guard(tests, self.caught, self.certain, self.scopes)

    def catching(self, names: frozenset[str]) -> Guard:
        """Return this guard for code whose exceptions of these names are caught."""
        return Guard(self.tests, self.caught | names, False, self.scopes)

    def inside(self, scope: ast.AST) -> Guard:
        """Return this guard for what stands in an inner scope; a `try` around a function does not catch in it."""
        caught = self.caught if isinstance(scope, ast.ClassDef) else frozenset()
        return Guard(self.tests, caught, self.certain, (*self.scopes, scope))

    @property
    def uncertain(self) -> Guard:
        """This guard for code that may not run."""
        return Guard(self.tests, self.caught, False, self.scopes) if self.certain else self


OPEN = Guard()
"""The guard of a statement that nothing stands around."""


def guarded(body: Sequence[ast.stmt], *, nested: bool = True) -> Iterator[tuple[ast.stmt, Guard]]:
    """Yield every statement with its guard; those of functions and classes too if `nested`."""
    pending: list[tuple[Sequence[ast.stmt], Guard]] = [(body, OPEN)]
    while pending:
        block, guard = pending.pop()
        for statement in block:
            yield statement, guard
            if type(statement) in _SIMPLE:
                continue  # most statements: nothing in them, nothing follows from them
            if isinstance(statement, _DEFINITIONS):
                if nested:
                    pending.append((statement.body, guard.inside(statement)))
            else:
                pending.extend(_blocks(statement, guard))
                guard = _onwards(statement, guard)


def statements_in(source: Source) -> tuple[tuple[ast.stmt, Guard], ...]:
    """Return what `guarded` yields for the whole of a source, nested statements too, found once."""
    return source.derived(_statements_in)


def _statements_in(source: Source) -> tuple[tuple[ast.stmt, Guard], ...]:
    return tuple(guarded(source.tree.body))


def _blocks(statement: ast.stmt, guard: Guard) -> Iterator[tuple[Sequence[ast.stmt], Guard]]:
    """Yield the blocks inside a compound statement, each with its guard."""
    match statement:
        case ast.If(test=test):
            yield statement.body, guard.under(test, wanted=True)
            yield statement.orelse, guard.under(test, wanted=False)
        case ast.While(test=test):
            yield statement.body, guard.uncertain.under(test, wanted=True)
            yield statement.orelse, guard.uncertain
        case ast.For() | ast.AsyncFor():
            yield statement.body, guard.uncertain
            yield statement.orelse, guard.uncertain
        case ast.With() | ast.AsyncWith():
            caught = _suppressed(statement)
            yield statement.body, guard.catching(caught) if caught else guard
        case ast.Try() | ast.TryStar():
            yield statement.body, guard.catching(_handled(statement))
            for handler in statement.handlers:
                yield handler.body, guard.uncertain
            yield statement.orelse, guard.uncertain
            yield statement.finalbody, guard
        case ast.Match():
            for case in statement.cases:
                yield case.body, guard.uncertain


def _onwards(statement: ast.stmt, guard: Guard) -> Guard:
    """Return the guard of what follows: code behind `if T: return` runs only where T is false."""
    match statement:
        case ast.Assert(test=test):
            return guard.under(test, wanted=True)
        case ast.If(test=test, body=body, orelse=orelse):
            if _leaves(body):
                return guard.under(test, wanted=False)
            return guard.under(test, wanted=True) if _leaves(orelse) else guard
        case _:
            return guard


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVES)


def _handled(statement: ast.Try | ast.TryStar) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for handler in statement.handlers:
        names |= _EVERY_EXCEPTION if handler.type is None else _exceptions([handler.type])
    return names


def _suppressed(statement: ast.With | ast.AsyncWith) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for item in statement.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and _last_name(call.func) in _TAKING:
            names |= _exceptions(call.args)
    return names


def _exceptions(expressions: Sequence[ast.expr]) -> frozenset[str]:
    flat = [part for e in expressions for part in (e.elts if isinstance(e, ast.Tuple) else [e])]
    return frozenset(_last_name(part) for part in flat)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


@dataclass(frozen=True)
class Import:
    """One entry of an import statement.

    `module` is the absolute dotted name, None where the dots lead out of the top package; `name` is what is
    taken from it, None for `import MODULE`.
    """

    node: ast.Import | ast.ImportFrom
    alias: ast.alias
    module: str | None
    name: str | None
    guard: Guard

    @property
    def binds(self) -> str:
        """The name that the entry binds."""
        return imported_name(self.alias, from_import=self.name is not None)


def module_name(path: str) -> str:
    """Return the dotted name of a file: `vllm/worker/__init__.py` is `vllm.worker`."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@lru_cache(maxsize=4096)
def package_of(path: str) -> str:
    """Return the dotted name of the package that a file's relative imports start from, empty at the top."""
    return ".".join(PurePosixPath(path).parent.parts)


def absolute(module: str | None, level: int, package: str) -> str | None:
    """Return the absolute name of `from ..module import x` in `package`, None where it leads out of the top."""
    if not level:
        return module or ""
    parts = package.split(".") if package else []
    if level > len(parts):
        return None
    return ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])


def imports(tree: ast.Module, path: str) -> Iterator[Import]:
    """Return every entry of every import statement of a file, wherever it stands."""
    return _entries(guarded(tree.body), path)


def _entries(statements: Iterable[tuple[ast.stmt, Guard]], path: str) -> Iterator[Import]:
    package = package_of(path)
    for statement, guard in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from imports_of(statement, guard, package)


def imports_in(source: Source) -> tuple[Import, ...]:
    """Return every entry of every import statement of a source, found once; raise `Rejected` if it does not parse."""
    return source.derived(_imports_in)


def _imports_in(source: Source) -> tuple[Import, ...]:
    return tuple(_entries(statements_in(source), source.path))


def imports_of(statement: ast.stmt, guard: Guard, package: str) -> Iterator[Import]:
    """Yield the entries of one statement, none if it is no import."""
    match statement:
        case ast.Import(names=aliases):
            for alias in aliases:
                yield Import(statement, alias, alias.name, None, guard)
        case ast.ImportFrom(names=aliases, module=module, level=level):
            for alias in aliases:
                yield Import(statement, alias, absolute(module, level, package), alias.name, guard)


@dataclass(frozen=True)
class Binding:
    """One place where a module gives a name a value.

    `value` is the expression of a plain assignment, `imported` the import that binds it; both None otherwise.
    """

    name: str
    statement: ast.stmt
    guard: Guard
    value: ast.expr | None = None
    imported: Import | None = None


@dataclass(frozen=True)
class ModuleNames:
    """What a module binds at top level, in the order of its statements, and its star imports."""

    bindings: Mapping[str, tuple[Binding, ...]]
    stars: tuple[Import, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.bindings


def module_names(source: Source) -> ModuleNames:
    """Return what a file binds at top level, found once; raise `Rejected` where it does not parse."""
    return source.derived(_module_names)


def _module_names(source: Source) -> ModuleNames:
    found: dict[str, list[Binding]] = {}
    stars: list[Import] = []
    package = package_of(source.path)
    has_walrus = ":=" in source.text
    for statement, guard in guarded(source.tree.body, nested=False):
        for binding in bindings_of(statement, guard, package, walrus=has_walrus):
            if binding.name == ANYTHING and binding.imported:
                stars.append(binding.imported)
            else:
                found.setdefault(binding.name, []).append(binding)
        for name in _inside(statement) if has_walrus else ():
            found.setdefault(name, []).append(Binding(name, statement, guard))
    return ModuleNames({name: tuple(_in_order(several)) for name, several in found.items()}, tuple(stars))


def _in_order(several: list[Binding]) -> list[Binding]:
    return sorted(several, key=lambda b: (b.statement.lineno, b.statement.col_offset))


def bindings_of(statement: ast.stmt, guard: Guard, package: str, *, walrus: bool = True) -> Iterator[Binding]:
    """Yield what a statement binds itself; a star import binds `*`. `walrus` as for `bound_by`."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield Binding(name, statement, guard)
        case ast.Import() | ast.ImportFrom():
            for entry in imports_of(statement, guard, package):
                yield Binding(entry.binds, statement, guard, imported=entry)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            yield Binding(name, statement, guard, value=value)
        case _:
            handlers = {handler.name for handler in getattr(statement, "handlers", []) if handler.name}
            for name in sorted(bound_by(statement, walrus=walrus) | handlers):
                yield Binding(name, statement, guard)


def _inside(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that `:=` binds inside a statement whose own binding is plain."""
    if isinstance(statement, (*_DEFINITIONS, ast.Assign, ast.AnnAssign)):
        for part in own_expressions(statement):
            for node in ast.walk(part):
                if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
                    yield node.target.id


def declared_global(tree: ast.Module) -> frozenset[str]:
    """Return the names that functions of the module declare `global`: they may bind them at any time."""
    return _declared_global(guarded(tree.body))


def _declared_global(statements: Iterable[tuple[ast.stmt, Guard]]) -> frozenset[str]:
    names: set[str] = set()
    for statement, guard in statements:
        if guard.scopes and isinstance(statement, ast.Global):
            names.update(statement.names)
    return frozenset(names)


def globals_in(source: Source) -> frozenset[str]:
    """Return what `declared_global` says of a source, found once; nothing without the word is looked at."""
    return source.derived(_globals_in)


def _globals_in(source: Source) -> frozenset[str]:
    return _declared_global(statements_in(source)) if "global" in source.text else frozenset()
