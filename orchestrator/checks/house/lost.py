"""E502 the other way round: a file that the run left alone takes from a changed module what that has no more."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.checks.house.elsewhere import Elsewhere
from orchestrator.checks.house.expressions import accesses
from orchestrator.checks.house.names import Names
from orchestrator.checks.house.things import Module, Spot
from orchestrator.checks.house.world import InTree, World
from orchestrator.code.imports import globals_in, imports_in, module_name, module_names
from orchestrator.code.spotting import lines_with
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.code.imports import Guard, ModuleNames
    from orchestrator.code.source import Source

_CAUGHT = frozenset({"ImportError", "AttributeError", "Exception", "BaseException"})


def judge_lost(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each use, in a file that is as it was, of a name that a changed module had before."""
    gone = {path: lost for path in sorted(touched) if path.endswith(".py") and (lost := _lost(path, world))}
    if not gone:
        return
    judge = _Judge(world)
    for path, lost in gone.items():
        for other in sorted(judge.elsewhere.reaching({(path, name) for name in lost})):
            source = world.view.source(other) if other not in touched else None
            if source is not None:
                yield from judge.uses(source, path, lost)


def _lost(path: str, world: World) -> frozenset[str]:
    """Return the names that a module had in the base tree and has no more."""
    name = module_name(path)
    now, then = world.find(name), world.before.find(name)
    if not isinstance(now, InTree) or not isinstance(then, InTree) or now.source is None or then.source is None:
        return frozenset()
    try:
        old, new = module_names(then.source), module_names(now.source)
        if not old.stars and _bound(old, then.source) <= _bound(new, now.source):
            return frozenset()  # most runs only add
    except Rejected:
        return frozenset()
    has, had = world.names(now), world.before.names(then)
    if has is None or had is None:
        return frozenset()
    return frozenset(n for n in had - has if not n.startswith("__") and not world.has(now, n))


def _bound(names: ModuleNames, source: Source) -> set[str]:
    return names.bindings.keys() | globals_in(source)


class _Judge:
    """Looks for uses of names that are gone."""

    def __init__(self, world: World) -> None:
        self.elsewhere = Elsewhere.of(world)
        self.names = Names.of_world(world)

    def uses(self, source: Source, path: str, lost: frozenset[str]) -> Iterator[Diagnostic]:
        """Yield a finding for each name that a file uses in vain: by an import, or as an attribute of the module."""
        module = module_name(path)
        told: set[str] = set()
        try:
            entries = imports_in(source)
        except Rejected:
            return
        for entry in entries:
            if entry.module == module and entry.name in lost and self.counts(entry.guard, source):
                told.add(entry.name)
                yield _finding(path, entry.name, source.place(entry.alias), f"from {module} import {entry.name}")
        for node, _, guard in accesses(source, lines_with(source, sorted(lost))):
            if not isinstance(node, ast.Attribute) or node.attr not in lost - told or self.elsewhere.is_set(node.attr):
                continue
            is_module = self.names.of(node.value, Spot(source, guard.scopes)) == (Module(module),)
            if is_module and isinstance(node.ctx, ast.Load) and self.counts(guard, source):
                told.add(node.attr)
                yield _finding(path, node.attr, source.place(node), ast.unparse(node))

    def counts(self, guard: Guard, source: Source) -> bool:
        """Tell whether code under these conditions runs, and nobody catches its failure."""
        return not _CAUGHT & guard.caught and self.names.truth.refuted(guard.tests, source) is None


def _finding(path: str, name: str, where: Place, spelled: str) -> Diagnostic:
    message = f"the run takes `{name}` out of {path}, and {where} still uses it: `{spelled}`"
    help_ = "Keep the name, or change those who use it in the same run."
    return Diagnostic("E502", message, Place(path), help=help_)
