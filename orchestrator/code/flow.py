"""Where a name is certainly bound: a read of a local is safe where every path from the function's start binds it."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from orchestrator.code.symbols import all_bound, bindings, bound_by, inner_statements

if TYPE_CHECKING:
    from collections.abc import Iterable


def bound_on_entry(
    body: list[ast.stmt], start: Iterable[str], *, walrus: bool = True
) -> dict[ast.stmt, frozenset[str]]:
    """Return, for every statement of one scope, the names bound on every path that reaches it.

    `walrus` is as for `bound_by`.

    Loops may run zero times, any statement of a `try` may raise, a branch that cannot go on does not count.
    """
    flow = _Flow(walrus=walrus)
    flow.run(body, frozenset(start))
    return flow.entry


class _Flow:
    """Walks a scope's statements in execution order with the set of names bound so far; None is "never gets here"."""

    def __init__(self, *, walrus: bool) -> None:
        self.walrus = walrus
        self.entry: dict[ast.stmt, frozenset[str]] = {}
        self.breaks: list[list[frozenset[str]]] = []
        """For each loop around the present statement: what is bound where it is left by `break`."""

    def run(self, body: list[ast.stmt], bound: frozenset[str] | None) -> frozenset[str] | None:
        for statement in body:
            # Code after a `return` is never reached: everything is bound there as far as anyone can tell.
            self.entry[statement] = bound if bound is not None else frozenset(all_bound(body, walrus=self.walrus))
            if bound is not None:
                bound = self.after(statement, bound)
            else:
                self._unreached(statement)
        return bound

    def _unreached(self, statement: ast.stmt) -> None:
        everything = self.entry[statement] | all_bound([statement], walrus=self.walrus)
        pending = list(inner_statements(statement))
        while pending:
            inner = pending.pop()
            self.entry[inner] = everything
            pending.extend(inner_statements(inner))

    def after(self, statement: ast.stmt, bound: frozenset[str]) -> frozenset[str] | None:
        match statement:
            case ast.Return() | ast.Raise() | ast.Continue():
                return None
            case ast.Break():
                if self.breaks:
                    self.breaks[-1].append(bound)
                return None
            case ast.If():
                return self._if(statement, bound)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(statement, bound)
            case ast.With() | ast.AsyncWith():
                return self.run(statement.body, bound | bound_by(statement, walrus=self.walrus))
            case ast.Try() | ast.TryStar():
                return self._try(statement, bound)
            case ast.Match():
                return self._match(statement, bound)
            case ast.Delete():
                return bound - {t.id for t in statement.targets if isinstance(t, ast.Name)}
            case ast.Expr(value=value):
                return bound | self._sure_of(statement, value, None)
            case _:
                return bound | bound_by(statement, walrus=self.walrus)

    def _sure_of(self, statement: ast.stmt, part: ast.expr, outcome: bool | None) -> frozenset[str]:  # noqa: FBT001 - see _sure
        """Return what a statement's expression certainly binds; most statements bind nothing that way."""
        return _sure(part, outcome) if self.walrus and bound_by(statement) else frozenset()

    def _if(self, statement: ast.If, bound: frozenset[str]) -> frozenset[str] | None:
        always = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
        then = self.run(statement.body, bound | self._sure_of(statement, statement.test, True))
        other = self.run(statement.orelse, bound | self._sure_of(statement, statement.test, False))
        return then if always else _both(then, other)

    def _loop(self, statement: ast.For | ast.AsyncFor | ast.While, bound: frozenset[str]) -> frozenset[str] | None:
        self.breaks.append([])
        if isinstance(statement, ast.While):
            self.run(statement.body, bound | self._sure_of(statement, statement.test, True))
            forever = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
            done = None if forever else bound | self._sure_of(statement, statement.test, False)
        else:
            self.run(statement.body, bound | bound_by(statement, walrus=self.walrus))
            done = bound | _sure(statement.iter, None)
        left = self.breaks.pop()
        return _every([self.run(statement.orelse, done), *left])

    def _match(self, statement: ast.Match, bound: frozenset[str]) -> frozenset[str] | None:
        bound |= _sure(statement.subject, None)
        ends = []
        for case in statement.cases:
            guard = _sure(case.guard, True) if case.guard else frozenset()
            ends.append(self.run(case.body, bound.union(bindings(case.pattern), guard)))
        last = statement.cases[-1]
        irrefutable = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
        return _every(ends if irrefutable else [*ends, bound])

    def _try(self, statement: ast.Try | ast.TryStar, bound: frozenset[str]) -> frozenset[str] | None:
        end = self.run(statement.body, bound)
        if end is not None or statement.orelse:
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


def _sure(part: ast.expr, outcome: bool | None) -> frozenset[str]:  # noqa: FBT001 - true, false, or either
    """Return the names that evaluating an expression certainly binds, given whether it came out true or false."""
    match part:
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            return _sure(value, outcome) | {name}
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _sure(operand, None if outcome is None else not outcome)
        case ast.BoolOp(op=op, values=values):
            whole = isinstance(op, ast.And) is outcome if outcome is not None else False
            return frozenset().union(*(_sure(v, outcome) for v in values)) if whole else _sure(values[0], None)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _sure(test, None) | (_sure(body, outcome) & _sure(orelse, outcome))
        case ast.Compare(left=left, comparators=[first, *_]):
            return _sure(left, None) | _sure(first, None)
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return frozenset()
        case _:
            children = (child for child in ast.iter_child_nodes(part) if isinstance(child, ast.expr))
            return frozenset().union(*(_sure(child, None) for child in children))


def _both(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _every(ends: list[frozenset[str] | None]) -> frozenset[str] | None:
    return functools.reduce(_both, ends)
