"""Which statements of a file can never run in this target, and by which gate.

A gate is a condition that the facts decide, or a statement that nothing gets past. A local name that a function
binds once, by a plain assignment, stands for what it is given.
"""

from __future__ import annotations

import ast
import copy
import operator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from orchestrator.checks.house.edited_lines import meet
from orchestrator.checks.house.scoping import hidden, scope_names
from orchestrator.code.anatomy import anatomy, every
from orchestrator.code.scopes import first_line
from orchestrator.code.symbols import declared_outside, parameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.checks.house.truth import Known, Truth
    from orchestrator.code.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DEEPEST = 5


@dataclass(frozen=True)
class Gate:
    """Why a statement never runs: the statement that decides it, and what it says, in words."""

    statement: ast.stmt
    says: str
    because: tuple[str, ...] = ()
    for_checkers: bool = False
    """Whether it is `TYPE_CHECKING`: what stands there is written for tools alone."""


def gates(source: Source, truth: Truth, lines: Sequence[range]) -> dict[ast.stmt, Gate]:
    """Return the statements of a file that can never run, each with its outermost gate.

    Definitions that have none of `lines` are not looked into.
    """
    walk = _Walk(source, truth, lines)
    walk.block(source.tree.body, (), None)
    return walk.dead


def decided(test: ast.expr, source: Source, truth: Truth, scopes: Sequence[ast.AST]) -> Known | None:
    """Return what the facts say of a condition inside these definitions, None where they say nothing."""
    function = scopes[-1] if scopes and isinstance(scopes[-1], _FUNCTIONS) else None
    if function is not None:
        test = _written_out(test, function)
    return truth.known(test, source, hidden(scopes))


def _written_out(test: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr:
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    if names.isdisjoint(scope_names(function)):
        return test
    once = _bound_once(function)
    for _ in range(_DEEPEST):
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name) and n.id in once}
        names = {name for name in names if once[name].lineno < getattr(test, "lineno", 0)}
        if not names:
            break
        line = test.lineno
        written = _with_values(test, {name: once[name].value for name in names})
        test = cast("ast.expr", copy.copy(written))
        test.lineno = line
    return test


def _with_values(node: ast.AST, values: Mapping[str, ast.expr]) -> ast.AST:
    """Return an expression with what names stand for in their place; what has none of them is shared."""
    if isinstance(node, ast.Name):
        return values.get(node.id, node)
    changed: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            new: Any = _with_values(value, values)
        elif isinstance(value, list):
            new = [_with_values(item, values) if isinstance(item, ast.AST) else item for item in value]
            new = value if all(map(operator.is_, new, value)) else new
        else:
            continue
        if new is not value:
            changed[name] = new
    if not changed:
        return node
    node = copy.copy(node)
    vars(node).update(changed)
    return node


@lru_cache(maxsize=1_024)
def _bound_once(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.Assign]:
    """Return the locals that one plain assignment binds and nothing else."""
    counts: dict[str, int] = dict.fromkeys(parameters(function) | declared_outside(function), 2)
    found: dict[str, ast.Assign] = {}
    for statement in every(function.body):
        own = anatomy(statement)
        for name in own.bound | own.handled:
            counts[name] = counts.get(name, 0) + 1
        if isinstance(statement, _DEFINITIONS):
            inner = (node for node in ast.walk(statement) if isinstance(node, ast.Nonlocal))
            counts.update((name, 2) for node in inner for name in node.names)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = statement
    return {name: statement for name, statement in found.items() if counts[name] == 1}


@dataclass
class _Walk:
    source: Source
    truth: Truth
    lines: Sequence[range]
    dead: dict[ast.stmt, Gate] = field(default_factory=dict)

    def block(self, body: Sequence[ast.stmt], scopes: tuple[ast.AST, ...], gate: Gate | None) -> Gate | None:
        """Walk a block; return why what follows it never runs, None where something may get out at its end."""
        end: Gate | None = None
        for statement in body:
            inside = gate or end
            if inside is not None:
                self.dead[statement] = inside
            after = self.statement(statement, scopes, inside)
            end = end or after
        return end

    def statement(self, statement: ast.stmt, scopes: tuple[ast.AST, ...], gate: Gate | None) -> Gate | None:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                whole = range(first_line(statement), (statement.end_lineno or statement.lineno) + 1)
                if any(meet(whole, lines) for lines in self.lines):
                    self.block(statement.body, (*scopes, statement), gate)
                return None
            case ast.If():
                return self.choice(statement, scopes, gate)
            case ast.While():
                return self.loop(statement, scopes, gate)
            case ast.Try() | ast.TryStar():
                return self.guarded(statement, scopes, gate)
            case ast.Assert(test=test):
                known = self.known(test, scopes)
                return self.gate(statement, test, known) if known is not None and not known.value else None
            case _ if isinstance(statement, _LEAVES):
                return Gate(statement, f"nothing gets past `{type(statement).__name__.lower()}`")
            case ast.Match():
                for case in statement.cases:
                    self.block(case.body, scopes, gate)
                return None
            case _:  # a `with` may swallow what its body raises
                self.block(getattr(statement, "body", ()), scopes, gate)
                self.block(getattr(statement, "orelse", ()), scopes, gate)
                return None

    def known(self, test: ast.expr, scopes: tuple[ast.AST, ...]) -> Known | None:
        return decided(test, self.source, self.truth, scopes)

    def gate(self, statement: ast.stmt, test: ast.expr, known: Known) -> Gate:
        value = "true" if known.value else "false"
        for_checkers = any(line.startswith("TYPE_CHECKING is") for line in known.because)
        return Gate(statement, f"`{ast.unparse(test)}` is {value} in this target", known.because, for_checkers)

    def choice(self, statement: ast.If, scopes: tuple[ast.AST, ...], gate: Gate | None) -> Gate | None:
        known = self.known(statement.test, scopes)
        decides = None if known is None else self.gate(statement, statement.test, known)
        arms = ((statement.body, True), (statement.orelse, False))
        ends = [
            self.block(
                body, scopes, gate or (decides if known is not None and bool(known.value) is not wanted else None)
            )
            for body, wanted in arms
        ]
        if known is None:
            return ends[0] and ends[1]
        taken = ends[0] if known.value else ends[1]
        return taken and decides

    def loop(self, statement: ast.While, scopes: tuple[ast.AST, ...], gate: Gate | None) -> Gate | None:
        known = self.known(statement.test, scopes)
        decides = None if known is None else self.gate(statement, statement.test, known)
        never = known is not None and not known.value
        self.block(statement.body, scopes, gate or (decides if never else None))
        forever = known is not None and bool(known.value) and not _breaks(statement.body)
        self.block(statement.orelse, scopes, gate or (decides if forever else None))
        return decides if forever else None

    def guarded(self, statement: ast.Try | ast.TryStar, scopes: tuple[ast.AST, ...], gate: Gate | None) -> Gate | None:
        end = self.block(statement.body, scopes, gate)
        otherwise = self.block(statement.orelse, scopes, gate or end)
        handlers = [self.block(handler.body, scopes, gate) for handler in statement.handlers]
        final = self.block(statement.finalbody, scopes, gate)
        return final or ((end or otherwise) if all(handlers) else None)


def _breaks(body: Sequence[ast.stmt]) -> bool:
    """Tell whether a `break` leaves the loop whose body this is."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, _DEFINITIONS):
            continue
        # a `break` in an inner loop leaves that one
        blocks = [statement.orelse] if isinstance(statement, _LOOPS) else _blocks(statement)
        if any(_breaks(block) for block in blocks):
            return True
    return False


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    return blocks + [holder.body for name in ("handlers", "cases") for holder in getattr(statement, name, ())]
