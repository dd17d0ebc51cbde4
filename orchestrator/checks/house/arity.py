"""E507: calls of a changed definition bind to it, wherever they stand, and so do the calls in changed code."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks.house.changes import changes_of
from orchestrator.checks.house.constructors import callees
from orchestrator.checks.house.elsewhere import Elsewhere
from orchestrator.checks.house.expressions import guard_of, standing, terminal
from orchestrator.checks.house.indirect import may_be_indirect, meant, terminals
from orchestrator.checks.house.names import Names
from orchestrator.checks.house.things import UNKNOWN, Class, External, Function, Instance, Spot
from orchestrator.code.imports import module_names
from orchestrator.code.signature import call_fault
from orchestrator.code.spotting import lines_with, may_call
from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.changes import Changes
    from orchestrator.checks.house.things import Callee
    from orchestrator.checks.house.world import World
    from orchestrator.code.source import Source
    from orchestrator.core.diagnostics import Place

_CAUGHT = frozenset({"TypeError", "Exception", "BaseException"})


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each call that cannot bind; a warning for one that could not in the base tree either."""
    changes = {path: found for path in sorted(touched) if (found := changes_of(path, world.view)) is not None}
    calls = _Calls(world, changes)
    for change in changes.values():
        yield from calls.in_changed(change)
    yield from calls.of_changed()


@dataclass(frozen=True)
class _Misfit:
    """A call that fits none of the signatures that it may meet, and why it does not fit the first."""

    call: ast.Call
    callee: Callee
    fault: str


class _Calls:
    """Judges the calls of one patched tree."""

    def __init__(self, world: World, changes: dict[str, Changes]) -> None:
        self.world = world
        self.elsewhere = Elsewhere.of(world)
        self.changes = changes
        self.lenient = Names.of_world(world)
        self.strict = Names(world, self.elsewhere, strict=True)
        self.signed = frozenset(module.partition(".")[0] for module in world.view.facts.vendor_signatures)
        self.before = Names.of_world(world.before)
        self.seen: set[ast.Call] = set()

    def in_changed(self, change: Changes) -> Iterator[Diagnostic]:
        """Yield what is wrong with the calls that stand in definitions that the run changed."""
        for node, statement, scopes in change.accesses:
            if isinstance(node, ast.Call):
                yield from self.judged(node, statement, scopes, change.source)

    def of_changed(self) -> Iterator[Diagnostic]:
        """Yield what is wrong with calls, in any file, of definitions that look different since the run."""
        start = {
            (path, name)
            for path, change in self.changes.items()
            for name in change.names
            if self._can_be_called(name, change.source)
        }
        members, any_call = self._of_classes(start)
        for path, names in sorted(self.elsewhere.reaching(start).items()):
            if path in self.changes and self.changes[path].definitions is None:
                continue  # all of the file is new, and judged
            words = None if names & any_call else frozenset(names | members)
            yield from self._among(path, words)

    def _can_be_called(self, name: str, source: Source) -> bool:
        """Tell whether a name of a module stands for something whose signature is known."""
        found = self.lenient.in_module(source, name)
        return bool(found) and all(isinstance(thing, Function | Class | Instance) for thing in found)

    def _of_classes(self, start: set[tuple[str, str]]) -> tuple[frozenset[str], frozenset[str]]:
        """Add the families of changed classes to `start`; return the members that look different.

        The second part is the classes that calls may reach without naming a member, such as a constructor.
        """
        members: set[str] = set()
        any_call: set[str] = set()
        for path, change in self.changes.items():
            own = {cls for cls, _ in change.members} | (change.names & _classes(change.source))
            for cls in own:
                family = {(path, cls), *self.elsewhere.descendants(path, cls)}
                start |= family
                if cls in change.classes | change.names:
                    any_call |= {name for _, name in family}
            members |= {member for _, member in change.members}
        return frozenset(members), frozenset(any_call)

    def _among(self, path: str, words: frozenset[str] | None) -> Iterator[Diagnostic]:
        """Yield what is wrong with calls in a file, only of what has one of these names if given."""
        source = self.world.view.source(path)
        if source is None or not (words is None or may_call(source.raw, words) or may_be_indirect(source.raw)):
            return
        try:
            if not source.tree:
                return
        except Rejected:
            return  # for a touched file rule E501 has said so
        for call, statement, scopes in _calls(source, words):
            yield from self.judged(call, statement, scopes, source)

    def judged(
        self, call: ast.Call, statement: ast.stmt, scopes: tuple[ast.AST, ...], source: Source
    ) -> Iterator[Diagnostic]:
        """Yield the finding on one call, once."""
        if call in self.seen:
            return
        self.seen.add(call)
        spot = Spot(source, scopes)
        if (len(terminals(call)) == 1 and self.leads_outside(call, spot)) or misfit(call, spot, self.lenient) is None:
            return
        found = misfit(call, spot, self.strict)
        guard = guard_of(call, statement, source)
        if found is None or _CAUGHT & guard.caught or self.lenient.truth.refuted(guard.tests, source):
            return
        finding = self.finding(found, source)
        if not self.known_before(call, source):
            yield finding
        elif source.path in self.changes:
            note = "the base tree has the same call, and it does not fit there either"
            yield dataclasses.replace(finding, severity=Severity.WARNING, notes=(*finding.notes, note))

    def leads_outside(self, call: ast.Call, spot: Spot) -> bool:
        """Tell by its first name alone whether a call may reach what nobody has a signature of: most do."""
        things = self.lenient.of_root(call.func, spot)
        return things is not None and any(
            thing == UNKNOWN or (isinstance(thing, External) and thing.name.partition(".")[0] not in self.signed)
            for thing in things
        )

    def known_before(self, call: ast.Call, source: Source) -> bool:
        """Tell whether the same call stood in the base tree and did not fit there either."""
        before = self.world.view.base_source(source.path)
        if before is None:
            return False
        text, word = ast.unparse(call), terminal(call.func)
        try:
            same = [
                misfit(other, Spot(before, scopes), self.before)
                for other, _, scopes in _calls(before, frozenset({word}) if word else None)
                if ast.unparse(other) == text
            ]
        except Rejected:
            return False
        return any(same)

    def finding(self, found: _Misfit, source: Source) -> Diagnostic:
        """Return the finding: at the call or, where the call's file is as it was, at the changed definition."""
        here, there = source.place(found.call), _defined(found.callee)
        of = f"defined at {there}" if there else "listed in the target's `vendor_modules`"
        name = ast.unparse(found.call.func)
        message = f"the call of `{name}` does not fit: {found.fault}, {of}"
        place = here
        if source.path not in self.changes and there is not None and there.file in self.changes:
            place, message = there, f"the call of `{name}` at {here} does not fit: {found.fault}, defined here"
        return Diagnostic(
            "E507",
            message,
            place,
            help="Change the call, or give the definition the parameters that its callers pass.",
            notes=(f"called at {here}: {_one_line(found.call)}",),
        )


def misfit(call: ast.Call, spot: Spot, names: Names) -> _Misfit | None:
    """Return why a call fits none of the definitions it may reach, None where one fits or not all are known."""
    try:
        return _misfit(call, spot, names)
    except Rejected:
        return None  # a file on the way does not parse


def _misfit(call: ast.Call, spot: Spot, names: Names) -> _Misfit | None:
    first: _Misfit | None = None
    call = meant(call, spot, names)
    for thing in names.of(call.func, spot):
        met = None if thing == UNKNOWN else callees(thing, names)
        if met is None:
            return None
        for callee in met:
            fault = call_fault(call, callee.name, callee.parameters, callee.implicit)
            if not fault:
                return None
            first = first or _Misfit(call, callee, fault)
    return first


def _classes(source: Source) -> frozenset[str]:
    bound = module_names(source).bindings.items()
    return frozenset(name for name, several in bound if any(isinstance(b.statement, ast.ClassDef) for b in several))


def _calls(source: Source, words: frozenset[str] | None) -> Iterator[tuple[ast.Call, ast.stmt, tuple[ast.AST, ...]]]:
    lines = None if words is None else lines_with(source, words)
    for node, statement, scopes in standing(source, lines):
        if isinstance(node, ast.Call) and (words is None or not words.isdisjoint(terminals(node))):
            yield node, statement, scopes


def _defined(callee: Callee) -> Place | None:
    if callee.spot is None or callee.node is None:
        return None
    place = callee.spot.source.place(callee.node)
    return dataclasses.replace(place, line=callee.node.lineno)


_LONGEST = 100


def _one_line(call: ast.Call) -> str:
    text = " ".join(ast.unparse(call).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
