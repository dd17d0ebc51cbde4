"""The check on the value that a name effectively has: its gates folded with the target's facts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.house.deadness import decided
from orchestrator.checks.house.truth import Truth
from orchestrator.checks.house.world import World
from orchestrator.checks.reading import compiled, owner, scope_of, source_of
from orchestrator.checks.values import constants_around, same
from orchestrator.checks.verdict import Verdict, fails, holds
from orchestrator.code.anatomy import anatomy, every
from orchestrator.code.constants import Unknown, text_of
from orchestrator.code.fold import observed, outside_names
from orchestrator.code.patterns import find_matches
from orchestrator.code.scopes import FunctionNode
from orchestrator.code.symbols import all_bound, parameters
from orchestrator.core.diagnostics import Place, did_you_mean
from orchestrator.spec.model import Code, Scalar, TargetPath

if TYPE_CHECKING:
    from orchestrator.checks.house.truth import Known
    from orchestrator.checks.view import View
    from orchestrator.code.fold import Seen
    from orchestrator.code.scopes import ScopeNode
    from orchestrator.code.source import Source


class EffectiveValue(Check):
    """A name has this value whichever way this target takes through the code, as far as facts and `given` decide it.

    Gates are folded with the target's constants, with flags that the tree assigns (also those that are imported),
    and with `given`. The value counts at the end of the scope, or before the statement that `before` names.
    """

    check: Literal["effective_value"]
    file: TargetPath
    within: Annotated[str | None, Field(min_length=1, description="function or class; the module if absent")] = None
    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", description="name of a variable there")]
    before: Annotated[Code | None, Field(description="code before which the value counts; the end if absent")] = None
    given: Annotated[
        dict[str, Scalar], Field(description="expression of the code → its value, such as `k.shape[-1]`")
    ] = {}
    equals: Annotated[Scalar | list[Scalar] | None, Field(description="the value it must have on every path")]

    def look(self, view: View) -> Verdict:
        """Return whether the value is the wanted one on every path, with the gates that decided it."""
        source = source_of(view, self.file)
        scope = scope_of(source, self.within)
        where = owner(self.file, self.within)
        bound = all_bound(scope.body) | (parameters(scope) if isinstance(scope, FunctionNode) else set())
        if self.name not in bound:
            near = did_you_mean(self.name, bound)
            hint = f"; {near}" if near.startswith("did you") else ""
            return fails(f"{where} does not bind `{self.name}`{hint}", Place(self.file))
        points = self._points(view, scope)
        place = source.place(points[0] or scope) if points and (points[0] or self.within) else Place(self.file)
        if not points:
            return fails(f"`before: {self.before}` matches nothing in {where}", place)
        constants, facts = _facts(view, source, scope)
        wanted: list[ast.expr] = [ast.Name(self.name, ast.Load())]
        seen = observed(scope, dict.fromkeys(points, wanted), self.given, constants)
        if not seen:
            what = f"`{self.before}` in {where}" if self.before else f"the end of {where}"
            return fails(f"no path that this target takes gets to {what}{_why(facts)}", place)
        return self._judged(seen, where, facts, source.place(seen[0].statement) if seen[0].statement else place)

    def _points(self, view: View, scope: ScopeNode) -> list[ast.stmt | None]:
        """Return the statements before which the value is asked for, None for the end of the scope."""
        if self.before is None:
            return [None]
        pattern = compiled(self.before, view.facts.values, "before")
        found: list[ast.stmt | None] = []
        for match in find_matches(pattern, scope):
            line = getattr(match.first, "lineno", 0)
            around = [s for s in every(scope.body) if s.lineno <= line <= (s.end_lineno or s.lineno)]
            found += [min(around, key=lambda s: (s.end_lineno or s.lineno) - s.lineno)] if around else []
        return found

    def _judged(self, seen: list[Seen], where: str, facts: list[Known], place: Place) -> Verdict:
        wanted = tuple(self.equals) if isinstance(self.equals, list) else self.equals
        for each in seen:
            value = each.values[0]
            if isinstance(value, Unknown) or not same(value, wanted):
                under = f" where {' and '.join(f'`{c}`' for c in each.conditions)}" if each.conditions else ""
                shown = f"unknown, because {value.reason}" if isinstance(value, Unknown) else repr(value)
                return fails(
                    f"`{self.name}` of {where} is effectively {shown}{under}, not {wanted!r}{_why(facts)}", place
                )
        return holds(f"`{self.name}` of {where} is effectively {wanted!r}{_why(facts)}", place)


def _why(facts: list[Known]) -> str:
    lines = dict.fromkeys(line for known in facts for line in known.because)
    return f"; {', '.join(lines)}" if lines else ""


def _facts(view: View, source: Source, scope: ScopeNode) -> tuple[dict[str, Any], list[Known]]:
    """Return what is known around a scope by the text of its expression, and the gates that the facts decide."""
    constants = constants_around(view, source.tree, scope)
    truth = Truth(World(view))
    used: list[Known] = []
    for name in sorted(outside_names(scope)):
        known = truth.flag(source, name)
        if known is not None and isinstance(known.value, bool | int | float | str | None):
            constants.setdefault(name, known.value)
    for statement in every(scope.body):
        own = anatomy(statement)
        tests = [statement.test] if isinstance(statement, ast.If | ast.While) else []
        for test in (*tests, *own.tests):
            parts = test.values if isinstance(test, ast.BoolOp) else [test]
            for part in parts:
                known = decided(part, source, truth, (scope,))
                if known is not None:
                    constants.setdefault(text_of(part), bool(known.value))
                    used.append(known)
    return constants, used
