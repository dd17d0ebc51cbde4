"""Which names a piece of code binds and reads, and where a name is certainly bound.

The analysis is Python's own scoping: a function's locals are the names that it binds anywhere; a read of a
local is safe where every path from the function's start has bound it.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
_OWN_SCOPE = (*_DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def imported_name(alias: ast.alias, *, from_import: bool) -> str:
    """Return the name that one entry of an import statement binds."""
    if alias.asname:
        return alias.asname
    return alias.name if from_import else alias.name.partition(".")[0]


def bound_by(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds itself: not in the statements nested in it."""
    names: set[str] = set()
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            names.add(name)
        case ast.Import(names=aliases):
            names.update(imported_name(alias, from_import=False) for alias in aliases)
        case ast.ImportFrom(names=aliases):
            names.update(imported_name(alias, from_import=True) for alias in aliases)
        case ast.AnnAssign(target=ast.Name(id=name), value=None):
            pass
        case _:
            names.update(_stored(statement))
    names.update(_walrus(statement))
    return names


def _stored(statement: ast.stmt) -> Iterator[str]:
    for part in own_expressions(statement):
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not _in_comprehension(part, node):
                yield node.id
            elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
                yield node.name
            elif isinstance(node, ast.MatchMapping) and node.rest:
                yield node.rest


def _in_comprehension(root: ast.AST, wanted: ast.Name) -> bool:
    for node in ast.walk(root):
        if isinstance(node, _COMPREHENSIONS):
            for generator in node.generators:
                if any(part is wanted for part in ast.walk(generator.target)):
                    return True
    return False


def _walrus(statement: ast.stmt) -> Iterator[str]:
    for part in own_expressions(statement):
        for node in ast.walk(part):
            if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
                yield node.target.id


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions (and patterns) of a statement that are evaluated in its own scope.

    Nested statements are left out; of a function only decorators, defaults and annotations count, of a
    class its decorators and bases.
    """
    match statement:
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
            for _, value in ast.iter_fields(statement):
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, ast.AST) and not isinstance(part, ast.stmt | ast.ExceptHandler):
                        yield part


def inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements directly inside a compound statement; none for functions and classes."""
    if isinstance(statement, _DEFINITIONS):
        return
    for field in ("body", "orelse", "finalbody"):
        yield from getattr(statement, field, [])
    for holder in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield from holder.body


def all_bound(body: Iterable[ast.stmt]) -> set[str]:
    """Return every name that a body of one scope binds on some path."""
    names: set[str] = set()
    pending = list(body)
    while pending:
        statement = pending.pop()
        names |= bound_by(statement)
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


def bound_on_entry(body: list[ast.stmt], start: Iterable[str]) -> dict[ast.stmt, frozenset[str]]:
    """Return, for every statement of one scope, the names bound on every path that reaches it.

    Loops may run zero times, any statement of a `try` may raise, a branch that cannot go on does not count.
    """
    flow = _Flow()
    flow.run(body, frozenset(start))
    return flow.entry


class _Flow:
    """Walks a scope's statements in execution order with the set of names bound so far; None is "never gets here"."""

    def __init__(self) -> None:
        self.entry: dict[ast.stmt, frozenset[str]] = {}

    def run(self, body: list[ast.stmt], bound: frozenset[str] | None) -> frozenset[str] | None:
        for statement in body:
            # Code after a `return` is never reached: everything is bound there as far as anyone can tell.
            self.entry[statement] = bound if bound is not None else frozenset(all_bound(body))
            bound = self.after(statement, self.entry[statement]) if bound is not None else None
        return bound

    def after(self, statement: ast.stmt, bound: frozenset[str]) -> frozenset[str] | None:
        here = bound | bound_by(statement)
        match statement:
            case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
                return None
            case ast.If():
                always = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
                then = self.run(statement.body, here)
                other = self.run(statement.orelse, here)
                return then if always and not statement.orelse else _both(then, other)
            case ast.For() | ast.AsyncFor() | ast.While():
                self.run(statement.body, here)
                start = bound | set(_walrus(statement))
                return self.run(statement.orelse, start) if statement.orelse else start
            case ast.With() | ast.AsyncWith():
                return self.run(statement.body, here)
            case ast.Try() | ast.TryStar():
                return self._try(statement, bound)
            case ast.Match():
                ends = [self.run(case.body, here) for case in statement.cases]
                return _every([*ends, bound])
            case ast.Delete():
                return here - {t.id for t in statement.targets if isinstance(t, ast.Name)}
            case _:
                return here

    def _try(self, statement: ast.Try | ast.TryStar, bound: frozenset[str]) -> frozenset[str] | None:
        end = self.run(statement.body, bound)
        if end is not None:
            end = self.run(statement.orelse, end)
        ends = [end]
        for handler in statement.handlers:
            named = bound | ({handler.name} if handler.name else set())
            after = self.run(handler.body, named)
            ends.append(after - {handler.name or ""} if after is not None else None)
        joined = _every(ends)
        if not statement.finalbody:
            return joined
        final = self.run(statement.finalbody, bound)
        return joined | final if joined is not None and final is not None else None


def _both(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _every(ends: list[frozenset[str] | None]) -> frozenset[str] | None:
    joined = ends[0]
    for end in ends[1:]:
        joined = _both(joined, end)
    return joined
