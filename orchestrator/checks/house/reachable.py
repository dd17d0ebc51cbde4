"""E504: no name is read that the module binds only under a condition which the facts make false."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.checks.house.making import makes_names
from orchestrator.checks.house.reads import looked_up, place, reads
from orchestrator.checks.house.truth import Known, Truth
from orchestrator.code.imports import Test, globals_in, module_names
from orchestrator.code.symbols import BUILTINS
from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.reads import Read
    from orchestrator.checks.house.world import World
    from orchestrator.code.imports import Binding
    from orchestrator.code.source import Source

_CAUGHT = frozenset({"NameError", "Exception", "BaseException"})


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each name that is read although it is never bound in this target."""
    truth = Truth.of(world)
    for path in sorted(touched):
        source = world.view.source(path) if path.endswith(".py") else None
        if source is None:
            continue
        try:
            yield from _of_file(source, world, truth)
        except Rejected:
            continue  # rule E501 has said so


def _of_file(source: Source, world: World, truth: Truth) -> Iterator[Diagnostic]:
    dead = _never_bound(source, world, truth)
    if not dead:
        return
    wanted = frozenset(dead) & looked_up(source)
    live: dict[str, list[Read]] = {}
    for read in reads(source, wanted, world.view.facts.python) if wanted else ():
        if not _CAUGHT & read.guard.caught and not truth.refuted(read.guard.tests, source):
            live.setdefault(read.node.id, []).append(read)
    asleep = _never_called(source, [read for found in live.values() for read in found], world, truth) if live else ()
    for name, found in live.items():
        awake = [read for read in found if _function_of(read) not in asleep]
        if awake:
            yield _finding(source, name, dead[name], awake)


def _function_of(read: Read) -> str:
    """Return the name of the module's own function that a read stands in, empty if it stands in none."""
    outermost = read.guard.scopes[0] if read.guard.scopes else None
    return outermost.name if isinstance(outermost, ast.FunctionDef | ast.AsyncFunctionDef) else ""


def _never_called(source: Source, found: list[Read], world: World, truth: Truth) -> frozenset[str]:
    """Return the private functions around these reads that the module names only where the facts forbid it."""
    private = frozenset(name for name in map(_function_of, found) if name.startswith("_"))
    named: dict[str, list[bool]] = {}
    for read in reads(source, private, world.view.facts.python) if private else ():
        if _function_of(read) != read.node.id:
            named.setdefault(read.node.id, []).append(truth.refuted(read.guard.tests, source) is not None)
    return frozenset(name for name, forbidden in named.items() if all(forbidden))


def _never_bound(source: Source, world: World, truth: Truth) -> dict[str, tuple[Binding, Test, Known]]:
    """Return the names all of whose bindings stand under a false condition: the first one, the condition, why."""
    dead: dict[str, tuple[Binding, Test, Known]] = {}
    own = module_names(source)
    for name, several in own.bindings.items():
        if name in BUILTINS or not all(binding.guard.tests for binding in several):
            continue
        refuted = [truth.refuted(binding.guard.tests, source) for binding in several]
        if refuted[0] and all(refuted):
            dead[name] = (several[0], *refuted[0])
    if not dead or makes_names(source):
        return {}
    brought: set[str] = set(globals_in(source))
    for star in own.stars:
        names = world.star_names(star, {source.path})
        if names is None:
            return {}
        brought |= names
    return {name: found for name, found in dead.items() if name not in brought}


def _finding(source: Source, name: str, dead: tuple[Binding, Test, Known], found: list[Read]) -> Diagnostic:
    binding, test, known = dead
    places = [place(source, read) for read in found]
    condition = ast.unparse(test.expression)
    state = "false" if test.wanted else "true"
    notes = [
        f"bound at {source.place(binding.statement)}, under `{condition}`, which is {state} in this target",
        *(f"because {line}" for line in known.because),
    ]
    if len(places) > 1:
        notes.append("also read at " + ", ".join(f"{p.line}:{p.column}" for p in places[1:]))
    return Diagnostic(
        "E504",
        f"`{name}` is read here, but it is bound only where `{condition}` is {'true' if test.wanted else 'false'}",
        places[0],
        help="Bind the name on the path that this target takes, read it under the same condition, or mend the flag.",
        notes=tuple(notes),
    )
