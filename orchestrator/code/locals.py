"""Rule 3's second half: what inserted code reads is bound on every path before it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.code.flow import bound_on_entry
from orchestrator.code.scopes import first_line
from orchestrator.code.source import not_too_deep
from orchestrator.code.symbols import (
    BUILTINS,
    all_bound,
    bound_by,
    declared_outside,
    has_walrus,
    inner_statements,
    own_expressions,
    parameters,
    reads,
)
from orchestrator.core.diagnostics import Diagnostic, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.code.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GLOBAL = re.compile(r"global[ \t\f\\]+[A-Za-z_]")


def newly_unbound(
    before: Source, old_lines: Sequence[range], after: Source, new_lines: Sequence[range]
) -> list[Diagnostic]:
    """Return E407 for each name that code in `new_lines` of `after` reads and that may be unbound there.

    A local must be bound on every path before the statement; what a module or a class reads must be bound
    above it; any other name must be bound somewhere in an enclosing function, in the module, or be a builtin.
    A name that was as little bound in `old_lines` of `before`, the place that the edit changed, is not the
    edit's own doing.
    """
    with not_too_deep(after.path):
        found = _unbound_in(after, new_lines)
        old = {unbound.name.id for unbound in _unbound_in(before, old_lines)} if found else set()
    return [_diagnostic(after, unbound) for unbound in found if unbound.name.id not in old]


@dataclass(frozen=True)
class _Unbound:
    """A read that may fail: `why` is empty where nothing binds the name; `visible` are the names it might mean."""

    name: ast.Name
    why: str
    visible: frozenset[str]


def _diagnostic(source: Source, unbound: _Unbound) -> Diagnostic:
    name, place = unbound.name.id, source.place(unbound.name)
    if unbound.why:
        message = f"`{name}` may be unbound here: {unbound.why}"
        return Diagnostic("E407", message, place, help="Read something that is bound earlier, or move the code down.")
    help_ = did_you_mean(name, unbound.visible)
    if not help_.startswith("did you mean"):
        help_ = "Import or define it first."
    return Diagnostic("E407", f"nothing binds `{name}`, which the inserted code reads", place, help=help_)


def _unbound_in(source: Source, lines: Sequence[range]) -> list[_Unbound]:
    body = source.tree.body
    if any(isinstance(s, ast.ImportFrom) and s.names[0].name == "*" for s in _statements(body)):
        return []
    look = _Look(lines, walrus=has_walrus(source))
    look.in_order(body, source.derived(_declared_global))
    return look.found


def _declared_global(source: Source) -> frozenset[str]:
    if "global" not in source.text or not _GLOBAL.search(source.text):
        return frozenset()
    return frozenset(n for node in ast.walk(source.tree) if isinstance(node, ast.Global) for n in node.names)


@dataclass
class _Look:
    """Looks through the scopes that `lines` touch and keeps the reads that may fail."""

    lines: Sequence[range]
    found: list[_Unbound] = field(default_factory=list)
    walrus: bool = True

    def in_order(self, body: Sequence[ast.stmt], outer: frozenset[str], inner: frozenset[str] | None = None) -> None:
        """Check the body of a module or a class, which runs once from top to bottom.

        `outer` are the names that it sees besides its own, `inner` those that functions inside of it see:
        what it sees itself if absent.
        """
        own = all_bound(body, walrus=self.walrus)
        visible = outer | own
        for statement in self.touched(body):
            for name in _reads(statement):
                if name.id not in visible:
                    self.missing(name, visible)
                elif name.id not in outer and self.further_down(name, statement, body):
                    self.found.append(_Unbound(name, "it is bound only further down", visible))
            self.inside(statement, visible if inner is None else inner)

    def further_down(self, name: ast.Name, statement: ast.stmt, body: Sequence[ast.stmt]) -> bool:
        """Tell whether every statement of a body that binds `name` stands below `statement`, or is it."""
        if name.id in BUILTINS or self.excused(name, statement):
            return False
        here = (statement.lineno, statement.col_offset)
        return all((s.lineno, s.col_offset) >= here for s in _statements(body) if name.id in self.binds(s))

    def binds(self, statement: ast.stmt) -> set[str]:
        """Return what a statement binds itself, its except clauses included."""
        handlers = {h.name for h in getattr(statement, "handlers", []) if h.name}
        return bound_by(statement, walrus=self.walrus) | handlers

    def function(self, function: ast.FunctionDef | ast.AsyncFunctionDef, outer: frozenset[str]) -> None:
        """Check the body of a function: its locals must be bound on every path to where they are read."""
        given = parameters(function)
        own = (all_bound(function.body, walrus=self.walrus) | given) - declared_outside(function)
        visible = outer | own
        entry = bound_on_entry(function.body, given, walrus=self.walrus)
        for statement in self.touched(function.body):
            bound = entry[statement]
            for name in _reads(statement):
                if name.id not in visible:
                    self.missing(name, visible)
                elif name.id in own and name.id not in bound and not self.excused(name, statement):
                    self.found.append(_Unbound(name, "not every path to this line assigns it", visible))
            self.inside(statement, visible)

    @staticmethod
    def excused(name: ast.Name, statement: ast.stmt) -> bool:
        return name.id in _bound_by_itself(statement) or _is_deferred(statement, name)

    def inside(self, statement: ast.stmt, outer: frozenset[str]) -> None:
        """Check the body of a definition. A class's names are seen in its own body only, not in its methods."""
        outer |= _type_parameters(statement)
        if isinstance(statement, _FUNCTIONS):
            self.function(statement, outer)
        elif isinstance(statement, ast.ClassDef):
            self.in_order(statement.body, outer, outer)

    def missing(self, name: ast.Name, visible: frozenset[str]) -> None:
        if name.id not in BUILTINS:
            self.found.append(_Unbound(name, "", visible))

    def touched(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield the statements of one scope that lie in the lines, nested ones too, definitions not entered."""
        pending = list(reversed(body))
        while pending:
            statement = pending.pop()
            start, end = first_line(statement), statement.end_lineno or statement.lineno
            if any(part.start <= end and start < part.stop for part in self.lines):
                yield statement
                pending.extend(reversed(list(inner_statements(statement))))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of one scope, nested ones too, definitions not entered."""
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        yield statement
        pending.extend(reversed(list(inner_statements(statement))))


def _bound_by_itself(statement: ast.stmt) -> set[str]:
    """Return what a statement binds before other parts of it read: a walrus, an item of a `with`, a match's capture."""
    if isinstance(statement, ast.With | ast.AsyncWith | ast.Match):
        return bound_by(statement)
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return set(_type_parameters(statement))
    return {
        n.target.id
        for part in own_expressions(statement)
        for n in ast.walk(part)
        if isinstance(n, ast.NamedExpr) and isinstance(n.target, ast.Name)
    }


def _is_deferred(statement: ast.stmt, name: ast.Name) -> bool:
    """Tell whether a name is read later or never: in the body of a lambda, or in an annotation."""
    if any(inner is name for part in _annotations(statement) for inner in ast.walk(part)):
        return True
    lambdas = (n for part in own_expressions(statement) for n in ast.walk(part) if isinstance(n, ast.Lambda))
    return any(inner is name for each in lambdas for inner in ast.walk(each.body))


def _annotations(statement: ast.stmt) -> Iterator[ast.expr]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            every = (node for node in ast.walk(statement.args) if isinstance(node, ast.arg))
            yield from (arg.annotation for arg in every if arg.annotation)
            if statement.returns:
                yield statement.returns
        case ast.AnnAssign():
            yield statement.annotation


def _type_parameters(statement: ast.stmt) -> frozenset[str]:
    return frozenset(parameter.name for parameter in getattr(statement, "type_params", []))


def _reads(statement: ast.stmt) -> Iterator[ast.Name]:
    hidden = _type_parameters(statement)
    for part in own_expressions(statement):
        yield from (name for name in reads(part) if name.id not in hidden)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target
