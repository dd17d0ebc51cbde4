"""Which names a piece of code binds and reads. A function's locals are the names that it binds anywhere."""

from __future__ import annotations

import ast
import builtins
import itertools
from typing import TYPE_CHECKING, Any

from orchestrator.code.nodes import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from orchestrator.code.source import Source

BUILTINS = frozenset(dir(builtins)) | {
    "__file__",
    "__name__",
    "__doc__",
    "__package__",
    "__spec__",
    "__path__",
    "__class__",
    "__module__",
    "__qualname__",
    "__annotations__",
    "__builtins__",
    "__loader__",
    "__cached__",
}

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_NESTED = (ast.stmt, ast.ExceptHandler)
_OWN_SCOPE = (*_DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def imported_name(alias: ast.alias, *, from_import: bool) -> str:
    """Return the name that one entry of an import statement binds."""
    if alias.asname:
        return alias.asname
    return alias.name if from_import else alias.name.partition(".")[0]


def has_walrus(source: Source) -> bool:
    """Tell whether a file may have a `:=`: most have none, and then only targets bind names."""
    return ":=" in source.text


def bound_by(statement: ast.stmt, *, walrus: bool = True) -> set[str]:
    """Return the names that a statement binds itself: not in the statements nested in it.

    Without `walrus` there is no `:=` in the file, so that most expressions need not be looked into.
    """
    names: set[str] = set()
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            names.add(name)
        case ast.Import(names=aliases):
            names.update(imported_name(alias, from_import=False) for alias in aliases)
        case ast.ImportFrom(names=aliases):
            names.update(imported_name(alias, from_import=True) for alias in aliases)
        case ast.AnnAssign(target=ast.Name(), value=None):
            pass
        case _:
            names.update(_stored(statement, walrus=walrus))
            return names
    if walrus and isinstance(statement, _DEFINITIONS):
        names.update(_stored(statement))  # a walrus in a decorator or a default
    return names


def _stored(statement: ast.stmt, *, walrus: bool = True) -> Iterator[str]:
    targets = None if walrus else _TARGETS.get(type(statement))
    parts = own_expressions(statement) if targets is None else targets(statement)
    return itertools.chain.from_iterable(map(bindings, parts))


_TARGETS: dict[type[ast.stmt], Callable[[Any], Iterable[ast.AST]]] = {
    ast.Assign: lambda statement: statement.targets,
    **dict.fromkeys((ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor), lambda statement: (statement.target,)),
    **dict.fromkeys((ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.If, ast.While), lambda _: ()),
}
"""What a statement binds names with, where expressions bind none; any other kind is looked at as a whole."""


def bindings(part: ast.AST) -> Iterator[str]:
    """Yield the names that a target, a pattern or an expression binds in the scope around it.

    What a comprehension binds for itself, and whatever a lambda binds, is not of that scope.
    """
    pending = [part]
    while pending:
        node = pending.pop()
        kind = type(node)
        if kind is ast.Name:
            if type(node.ctx) is ast.Store:  # type: ignore[attr-defined]  # it is a Name
                yield node.id  # type: ignore[attr-defined]
            continue
        if kind is ast.Constant:
            continue
        if kind in _NAMED_PATTERNS and (name := getattr(node, "rest" if kind is ast.MatchMapping else "name")):
            yield name
        pending += parts_of(node, _BINDING_FIELDS.get(kind))


_NAMED_PATTERNS = (ast.MatchAs, ast.MatchStar, ast.MatchMapping)
_BINDING_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Lambda: ("args",),
    ast.arguments: ("defaults", "kw_defaults"),
    ast.comprehension: ("iter", "ifs"),
}
"""Where only some fields of a node are evaluated in the scope around it: those."""


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions (and patterns) of a statement that are evaluated in its own scope.

    Nested statements are left out; of a function only decorators, defaults and annotations count, of a
    class its decorators and bases.
    """
    match statement:
        case ast.Expr() | ast.Assign() | ast.Return() | ast.AugAssign():  # most statements: all is their own
            yield from parts_of(statement)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            arguments = statement.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [a for a in (arguments.vararg, arguments.kwarg) if a]
            yield from statement.decorator_list
            yield from (default for default in [*arguments.defaults, *arguments.kw_defaults] if default)
            yield from (arg.annotation for arg in every if arg.annotation)
            if statement.returns:
                yield statement.returns
        case ast.ClassDef():
            yield from statement.decorator_list
            yield from statement.bases
            yield from (keyword.value for keyword in statement.keywords)
        case ast.Match():
            yield statement.subject
            for case in statement.cases:
                yield case.pattern
                if case.guard:
                    yield case.guard
        case ast.Try() | ast.TryStar():
            yield from (handler.type for handler in statement.handlers if handler.type)
        case _:
            yield from (part for part in parts_of(statement) if not isinstance(part, _NESTED))


def inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements directly inside a compound statement; none for functions and classes."""
    if isinstance(statement, _DEFINITIONS):
        return
    for field in ("body", "orelse", "finalbody"):
        yield from getattr(statement, field, [])
    for holder in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield from holder.body


def all_bound(body: Iterable[ast.stmt], *, walrus: bool = True) -> set[str]:
    """Return every name that a body of one scope binds on some path; `walrus` as for `bound_by`."""
    names: set[str] = set()
    pending = list(body)
    while pending:
        statement = pending.pop()
        names |= bound_by(statement, walrus=walrus)
        names.update(h.name for h in getattr(statement, "handlers", []) if h.name)
        pending.extend(inner_statements(statement))
    return names


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Return the names of a function's parameters."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {a.arg for a in [*every, *(a for a in (arguments.vararg, arguments.kwarg) if a)]}


def declared_outside(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names that a function declares `global` or `nonlocal`."""
    names: set[str] = set()
    pending: list[ast.stmt] = list(function.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.Global | ast.Nonlocal):
            names.update(statement.names)
        pending.extend(inner_statements(statement))
    return names


def reads(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that an expression reads from the scope it stands in.

    What lambdas and comprehensions bind for themselves is left out; bodies of nested functions are not entered.
    """
    pending: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset())]
    while pending:
        part, hidden = pending.pop()
        if isinstance(part, ast.Name):
            if isinstance(part.ctx, ast.Load | ast.Del) and part.id not in hidden:
                yield part
            continue
        if isinstance(part, ast.Lambda):
            inner = hidden | parameters(part)
            defaults = [d for d in [*part.args.defaults, *part.args.kw_defaults] if d]
            pending.extend((d, hidden) for d in defaults)
            pending.append((part.body, inner))
            continue
        if isinstance(part, _COMPREHENSIONS):
            targets = {n.id for g in part.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            pending.append((part.generators[0].iter, hidden))
            inner = hidden | targets
            pending.extend((child, inner) for child in _comprehension_parts(part))
            continue
        pending.extend((child, hidden) for child in ast.iter_child_nodes(part))


def _comprehension_parts(part: ast.expr) -> Iterator[ast.AST]:
    for field in ("elt", "key", "value"):
        value = getattr(part, field, None)
        if value is not None:
            yield value
    for i, generator in enumerate(getattr(part, "generators", [])):
        if i:
            yield generator.iter
        yield from generator.ifs
