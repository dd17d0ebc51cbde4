"""E503 for modules: changed code takes from a module of the tree only what that module binds."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.house.changes import changes_of
from orchestrator.checks.house.elsewhere import Elsewhere
from orchestrator.checks.house.expressions import guard_of
from orchestrator.checks.house.names import Names
from orchestrator.checks.house.things import Module, Spot
from orchestrator.checks.house.world import InTree, World
from orchestrator.code.imports import imports_in, module_names
from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.changes import Changes
    from orchestrator.code.imports import Guard

_CAUGHT = frozenset({"AttributeError", "NameError", "Exception", "BaseException"})


def judge_members(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each `module.name` whose module of the tree has no such name."""
    judge = _Judge(world)
    for path in sorted(touched):
        holders = judge.holders(path)
        change = changes_of(path, world.view) if holders else None
        if change is not None:
            yield from judge.of_file(change, holders)


class _Judge:
    """Judges what is taken from modules in one patched tree."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.elsewhere = Elsewhere.of(world)
        self.names = Names.of_world(world)

    def holders(self, path: str) -> frozenset[str]:
        """Return the names by which a file may have a module of the tree: imported ones, and other names of those."""
        source = self.world.view.source(path) if path.endswith(".py") else None
        try:
            entries = imports_in(source) if source is not None else ()
            inside = (e for e in entries if str(e.module).partition(".")[0] in self.world.roots)
            found = {
                e.binds for e in inside if e.name is None or isinstance(self.world.find(f"{e.module}.{e.name}"), InTree)
            }
            for name, several in module_names(source).bindings.items() if source is not None and found else ():
                if any(b.value is not None and _root(b.value) in found for b in several):
                    found.add(name)
        except Rejected:
            return frozenset()  # rule E501 has said so
        return frozenset(found)

    def of_file(self, change: Changes, holders: frozenset[str]) -> Iterator[Diagnostic]:
        """Yield the findings on one file."""
        source = change.source
        told: set[tuple[int, str]] = set()
        for node, statement, scopes in change.accesses:
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            if _root(node) not in holders:
                continue
            module = self.lacking(node, Spot(source, scopes))
            if module is None:
                continue
            text = ast.unparse(node)
            if (node.lineno, text) in told or self.is_guarded(node, guard_of(node, statement, source), change):
                continue
            told.add((node.lineno, text))
            known = self.world.names(module) or frozenset()
            near = did_you_mean(node.attr, (name for name in known if not name.startswith("__")))
            help_ = near if near.startswith("did") else "Define it there, or take it from where it is."
            message = f"`{text}`: the module `{module.name}` binds no `{node.attr}`"
            found = Diagnostic("E503", message, source.place(node), help=help_)
            yield _known_before(found) if self.stood_before(node, module, change) else found

    def stood_before(self, node: ast.Attribute, module: InTree, change: Changes) -> bool:
        """Tell whether the base tree has the same access, and fails there as well."""
        before = self.world.view.base_source(change.source.path)
        base = self.world.before
        there = base.find(module.name)
        is_same = before is not None and ast.unparse(node) in before.text
        return is_same and isinstance(there, InTree) and not base.has(there, node.attr)

    def lacking(self, node: ast.Attribute, spot: Spot) -> InTree | None:
        """Return the module that an attribute is taken from in vain, None where it is there or cannot be known."""
        if not isinstance(node.value, ast.Name | ast.Attribute):
            return None
        match self.names.of(node.value, spot):
            case (Module(name=name),):
                found = self.world.find(name)
            case _:
                return None
        if not isinstance(found, InTree) or found.source is None or self.world.has(found, node.attr):
            return None
        wanted = f"{found.name}.{node.attr}"
        imported = (str(entry.module) for entry in imports_in(spot.source))
        if any(module == wanted or module.startswith(f"{wanted}.") for module in imported):
            return None  # a module: rule E502 has the say on it
        return None if self.elsewhere.is_set(node.attr) else found

    def is_guarded(self, node: ast.Attribute, guard: Guard, change: Changes) -> bool:
        """Tell whether the code catches it, asks before, or is not reached."""
        if _CAUGHT & guard.caught or self.names.truth.refuted(guard.tests, change.source) is not None:
            return True
        asked = {
            (ast.unparse(inner.args[0]), str(inner.args[1].value))
            for test in guard.tests
            for inner in ast.walk(test.expression)
            if isinstance(inner, ast.Call)
            and len(inner.args) > 1
            and isinstance(inner.func, ast.Name)
            and inner.func.id in {"hasattr", "getattr"}
            and isinstance(inner.args[1], ast.Constant)
        }
        return (ast.unparse(node.value), node.attr) in asked


def _root(node: ast.expr) -> str:
    """Return the first name of a dotted expression, empty where it is none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _known_before(found: Diagnostic) -> Diagnostic:
    note = "the base tree has the same access, and it fails there as well"
    return dataclasses.replace(found, severity=Severity.WARNING, notes=(note,))
