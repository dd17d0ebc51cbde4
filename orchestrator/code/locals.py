"""Rule 3's second half: what inserted code reads is bound on every path before it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.code.symbols import (
    BUILTINS,
    all_bound,
    bound_on_entry,
    declared_outside,
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
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


def read_at(source: Source, lines: Sequence[range]) -> frozenset[str]:
    """Return the names that the statements in `lines` read: what an edit finds there is not its own doing."""
    return frozenset(
        name.id
        for statement in ast.walk(source.tree)
        if isinstance(statement, ast.stmt) and not isinstance(statement, _DEFINITIONS) and _in(statement, lines)
        for name in _reads(statement)
    )


def unbound_reads(source: Source, lines: Sequence[range], known: frozenset[str] = frozenset()) -> list[Diagnostic]:
    """Return E407 for each name that a statement in `lines` reads and that may be unbound there.

    A local must be bound on every path before the statement; any other name must be bound somewhere in an
    enclosing function, in the module, or be a builtin. `known` names were read there before the edit.
    """
    module = source.tree
    if any(isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names) for n in module.body):
        return []
    outer = all_bound(module.body) | _declared_global(module)
    found: list[Diagnostic] = []
    _look(source, module.body, lines, outer, found)
    return [d for d in found if d.message.split("`")[1] not in known]


def _declared_global(module: ast.Module) -> set[str]:
    return {name for node in ast.walk(module) if isinstance(node, ast.Global) for name in node.names}


def _look(
    source: Source, body: list[ast.stmt], lines: Sequence[range], outer: set[str], found: list[Diagnostic]
) -> None:
    """Check the statements of one scope that are neither locals of a function nor definitions, then go inside."""
    for statement in _statements(body):
        if not _in(statement, lines):
            continue
        unknown = [name for name in _reads(statement) if name.id not in outer and name.id not in BUILTINS]
        found.extend(_unbound(source, name, outer) for name in unknown)
        if isinstance(statement, _FUNCTIONS):
            _function(source, statement, lines, outer, found)
        elif isinstance(statement, ast.ClassDef):
            _look(source, statement.body, lines, outer | all_bound(statement.body), found)


def _function(
    source: Source,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    lines: Sequence[range],
    outer: set[str],
    found: list[Diagnostic],
) -> None:
    own = (all_bound(function.body) | parameters(function)) - declared_outside(function)
    entry = bound_on_entry(function.body, parameters(function))
    visible = outer | own
    for statement in _statements(function.body):
        if not _in(statement, lines):
            continue
        bound = entry.get(statement, frozenset())
        for name in _reads(statement):
            if name.id in own and name.id not in bound and not _bound_by_itself(statement, name):
                message = f"`{name.id}` may be unbound here: not every path to this line assigns it"
                help_ = "Read something that is bound earlier, or move the code down."
                found.append(Diagnostic("E407", message, source.place(name), help=help_))
            elif name.id not in visible and name.id not in BUILTINS:
                found.append(_unbound(source, name, visible))
        if isinstance(statement, _FUNCTIONS):
            _function(source, statement, lines, visible, found)
        elif isinstance(statement, ast.ClassDef):
            _look(source, statement.body, lines, visible | all_bound(statement.body), found)


def _bound_by_itself(statement: ast.stmt, name: ast.Name) -> bool:
    """A loop's target or a walrus is bound by the statement before the part that reads it."""
    walrus = {
        n.target.id for n in ast.walk(statement) if isinstance(n, ast.NamedExpr) and isinstance(n.target, ast.Name)
    }
    return name.id in walrus


def _unbound(source: Source, name: ast.Name, visible: set[str]) -> Diagnostic:
    help_ = did_you_mean(name.id, visible)
    if not help_.startswith("did you mean"):
        help_ = "Import or define it first."
    return Diagnostic(
        "E407", f"nothing binds `{name.id}`, which the inserted code reads", source.place(name), help=help_
    )


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of one scope, nested ones too, definitions not entered."""
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        yield statement
        pending.extend(reversed(list(inner_statements(statement))))


def _in(statement: ast.stmt, lines: Sequence[range]) -> bool:
    end = statement.end_lineno or statement.lineno
    return any(part.start <= end and statement.lineno < part.stop for part in lines)


def _reads(statement: ast.stmt) -> Iterator[ast.Name]:
    for part in own_expressions(statement):
        yield from reads(part)
