"""E502: every import of a touched file finds its module, and its name in it."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING

from orchestrator.checks.house.dynamic import dynamic_imports
from orchestrator.checks.house.inventory import lacks, vendor_help
from orchestrator.checks.house.lost import judge_lost
from orchestrator.checks.house.truth import Truth
from orchestrator.checks.house.world import InTree, Missing, Outside, World
from orchestrator.code.imports import ANYTHING, Import, imports_in
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity, did_you_mean

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from orchestrator.code.source import Source

_ANY_IMPORT_FAULT = frozenset({"ImportError", "Exception", "BaseException"})
_MODULE_FAULT = _ANY_IMPORT_FAULT | {"ModuleNotFoundError"}


_Wanted = tuple[str | None, str | None]
"""The module and the name that an import asks for."""


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each import that would fail; a warning for one that fails in the base tree just so."""
    truth = Truth.of(world)
    for path in sorted(touched):
        source = world.view.source(path) if path.endswith(".py") else None
        if source is not None:
            yield from _of_file(source, world, truth)
    yield from judge_lost(world, touched)


def _of_file(source: Source, world: World, truth: Truth) -> Iterator[Diagnostic]:
    try:
        entries = (*imports_in(source), *dynamic_imports(source))
    except Rejected:
        return  # rule E501 has said so
    told: set[tuple[ast.stmt, str]] = set()
    before: frozenset[_Wanted] | None = None
    for entry in entries:
        found = _fault(entry, source, world)
        if found is None or (entry.node, found.message) in told or _never_runs(entry, source, truth, found):
            continue
        told.add((entry.node, found.message))
        before = _failing_before(source.path, world) if before is None else before
        yield _known_before(found) if (entry.module, entry.name) in before else found


def _failing_before(path: str, world: World) -> frozenset[_Wanted]:
    """Return what the file imported in vain in the base tree: a run is not to blame for that."""
    source = world.view.base_source(path)
    if source is None:
        return frozenset()
    try:
        entries = (*imports_in(source), *dynamic_imports(source))
    except Rejected:
        return frozenset()
    return frozenset((entry.module, entry.name) for entry in entries if _fault(entry, source, world.before))


def _known_before(found: Diagnostic) -> Diagnostic:
    note = "the base tree has the same import, and it fails there as well"
    return dataclasses.replace(found, severity=Severity.WARNING, notes=(*found.notes, note))


def _fault(entry: Import, source: Source, world: World) -> Diagnostic | None:
    if entry.module is None:
        message = f"the relative import leads out of the package `{source.path.partition('/')[0]}`"
        return _finding(message, source.place(entry.node), "Write the module's full name, or fewer dots.")
    found = world.find(entry.module)
    if isinstance(found, Missing):
        return None if _MODULE_FAULT & entry.guard.caught else _no_module(found, source.place(entry.node), world)
    if entry.name is None or entry.name == ANYTHING or _ANY_IMPORT_FAULT & entry.guard.caught:
        return None
    if isinstance(found, InTree):
        return None if world.has(found, entry.name) else _no_name(found, entry.name, source.place(entry.alias), world)
    return _not_listed(found, entry, source, world)


def _never_runs(entry: Import, source: Source, truth: Truth, found: Diagnostic) -> bool:
    """Tell whether the facts say that an import is not reached; one for type checkers must find its module."""
    refuted = truth.refuted(entry.guard.tests, source)
    if refuted is None:
        return False
    return not (_for_type_checkers(refuted[1].because) and found.message.startswith("no module"))


def _for_type_checkers(because: tuple[str, ...]) -> bool:
    return any(line.startswith("TYPE_CHECKING is False") for line in because)


def _finding(message: str, place: Place, help_: str) -> Diagnostic:
    return Diagnostic("E502", message, place, help=help_)


def _no_module(missing: Missing, place: Place, world: World) -> Diagnostic:
    inside = f" (`{missing.part}` is not there)" if missing.part != missing.name else ""
    message = f"no module `{missing.name}`{inside}"
    if missing.name.partition(".")[0] in world.roots:
        near = did_you_mean(missing.part, missing.known) if missing.known else ""
        near = near if near.startswith("did") else ""
        return _finding(message, place, f"{near} Deploy the module in a stage, or correct the name.".lstrip())
    # Names of packages are alike by chance (`openvino`, `openai`): only a near miss is worth a word.
    close = difflib.get_close_matches(missing.part, missing.known, n=1, cutoff=0.85)
    near = f"did you mean '{close[0]}'? " if close else ""
    help_ = "List the package under `packages` of the target if the image has it; else do without it."
    return _finding(message, place, f"{near}{help_}")


def _no_name(module: InTree, name: str, place: Place, world: World) -> Diagnostic:
    known = (world.names(module) or frozenset()) | frozenset(world.submodules(module.name) if module.is_package else ())
    near = did_you_mean(name, (word for word in known if not word.startswith("__")))
    near = near if near.startswith("did") else ""
    where = module.source.path if module.source else f"the folder of `{module.name}`"
    return _finding(f"`{module.name}` has no `{name}`", place, f"{near} Looked in {where}.".lstrip())


def _not_listed(module: Outside, entry: Import, source: Source, world: World) -> Diagnostic | None:
    name = entry.name or ""
    if lacks(f"{module.name}.{name}", world.view.facts) is None:
        return None
    help_ = vendor_help(name, module.name, world.view.facts)
    return _finding(f"`{module.name}` has no `{name}`", source.place(entry.alias), help_)
