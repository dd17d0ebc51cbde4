"""E503: every name that a touched file reads is bound somewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from orchestrator.checks.house.making import makes_names
from orchestrator.checks.house.members import judge_members
from orchestrator.checks.house.reads import looked_up, place, reads
from orchestrator.checks.house.truth import Truth
from orchestrator.code.imports import globals_in, module_names, package_of
from orchestrator.code.symbols import BUILTINS
from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.world import World
    from orchestrator.code.source import Source

_CAUGHT = frozenset({"NameError", "Exception", "BaseException"})

# Builtins that not every Python has: the first version that does ("What's New" of 3.10 to 3.13).
_SINCE = {
    "aiter": (3, 10),
    "anext": (3, 10),
    "EncodingWarning": (3, 10),
    "BaseExceptionGroup": (3, 11),
    "ExceptionGroup": (3, 11),
    "PythonFinalizationError": (3, 13),
}


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each name of a file that is bound nowhere, at its first read."""
    for path in sorted(touched):
        source = world.view.source(path) if path.endswith(".py") else None
        if source is None:
            continue
        try:
            yield from _of_file(source, world)
        except Rejected:
            continue  # rule E501 has said so
    yield from judge_members(world, touched)


def _of_file(source: Source, world: World) -> Iterator[Diagnostic]:
    python = world.view.facts.python
    own = module_names(source)
    unbound = looked_up(source) - own.bindings.keys() - _builtins(python)
    if not unbound:
        return
    # What a package's own file imports from its modules binds their names in it: `from .a import b` binds `a`.
    brought = set(world.submodules(package_of(source.path))) if source.path.endswith("/__init__.py") else set()
    for star in own.stars:
        names = world.star_names(star, {source.path})
        if names is None:
            return
        brought |= names
    unbound -= brought
    if not unbound or makes_names(source):
        return
    unbound -= globals_in(source)
    truth = Truth.of(world)
    told: set[str] = set()
    for read in reads(source, unbound, python):
        name = read.node.id
        if name in told or _CAUGHT & read.guard.caught or truth.refuted(read.guard.tests, source):
            continue
        told.add(name)
        known = own.bindings.keys() | brought | BUILTINS
        near = did_you_mean(name, (word for word in known if not word.startswith("__")))
        help_ = "Import it, or bind it before it is read." if near[:3] != "did" else f"{near} Else import it."
        yield Diagnostic(
            "E503", f"`{name}` is bound nowhere", place(source, read), help=_elsewhere(name, python, help_)
        )


def _builtins(python: tuple[int, int]) -> frozenset[str]:
    """Return the builtin names of the target's Python."""
    later = {name for name, since in _SINCE.items() if since > python}
    return (BUILTINS | _SINCE.keys()) - later


def _elsewhere(name: str, python: tuple[int, int], help_: str) -> str:
    since = _SINCE.get(name, sys.version_info[:2])
    return f"It is a builtin from Python {since[0]}.{since[1]} on." if name in _SINCE and since > python else help_
