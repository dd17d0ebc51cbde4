"""Where the code of an edit is now: searched by name, and by the likeness of bodies, across the package."""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.code.edits import Assign, Delete, Insert, Replace
from orchestrator.code.likeness import Body
from orchestrator.code.patterns import Pattern, find_matches
from orchestrator.code.rewrite import examine
from orchestrator.code.scopes import MODULE, Definition, definitions_in, enclosing, first_line, named
from orchestrator.code.sites import Pending
from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.engine.bump.index import python_files
from orchestrator.engine.bump.stays import stays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from orchestrator.checks.view import Sources
    from orchestrator.code.edits import Edit, ScopedEdit
    from orchestrator.code.scopes import ScopeNode
    from orchestrator.code.source import Source
    from orchestrator.core.tree import Tree
    from orchestrator.engine.bump.index import Index

HALF = 0.5
MAX_FILES = 40
"""Files of one search that are parsed; a name that more of them define says nothing."""
_SPEAKING = 3
"""Lines from which on a body that is found under another name is taken for the same one."""
_LONG = 12
"""Characters from which on a line of code is a trace of where it comes from."""


@dataclass(frozen=True)
class Candidate:
    """A place where the code may be now, and how like the old body it is: 0 to 1, None where there is no old one."""

    definition: Definition
    line: int
    likeness: float | None = None

    def __str__(self) -> str:
        shown = "" if self.likeness is None else f", {self.likeness:.0%} alike"
        return f"{self.definition} (line {self.line}{shown})"


@dataclass(frozen=True)
class Search:
    """What a search gave: the one place where the code is now, if there is one, and what else is near it."""

    found: Candidate | None = None
    near: tuple[Candidate, ...] = ()
    several: bool = False
    """Several places are as good as one another."""


@dataclass(frozen=True)
class Ground:
    """What is searched: the package as it was, as far as it is known, and as it is."""

    old: Tree | None
    new: Tree
    sources: Sources
    index: Index


def search(scoped: ScopedEdit, fault: Diagnostic, ground: Ground) -> Search:
    """Return where the code of an edit that failed with `fault` (E401, E402, E403) is now."""
    if scoped.within is not None and fault.code in {"E401", "E402"}:
        return ground.index.once(ground.new, (scoped.file, scoped.within), lambda: _definition(scoped, ground))
    found = _matching(scoped, ground)
    if found:
        was, here = _scope(scoped, ground.old, ground), _scope(scoped, ground.new, ground)
        return Search(near=tuple(found[:3])) if was and here and stays(scoped.edit, was, here) else _one_of(found)
    return _module(scoped, ground) if fault.code == "E401" else Search()


# --- definitions ---


def _definition(scoped: ScopedEdit, ground: Ground) -> Search:
    """Search a definition: by its qualified name, by its last name, then by its body alone."""
    within = scoped.within or ""
    old = _scope(scoped, ground.old, ground)
    body = _body(*old) if old else None
    last = within.rpartition(".")[2]
    every = list(_named_like(last, scoped.file, ground))
    same = [_compared(d, node, s, body) for d, node, s in every if d.name == within]
    if len(same) == 1 and ("." in within or body is None or (same[0].likeness or 0) >= HALF):
        return Search(same[0])
    if len(same) > 1:
        return _best(same)
    alike = [c for c in (_compared(d, node, s, body) for d, node, s in every) if (c.likeness or 0) >= HALF]
    if alike:
        return _best(alike)
    renamed = list(_renamed(scoped, old, body, ground)) if old and body else []
    exact = [c for c in renamed if c.likeness == 1.0] if body and len(body.lines) >= _SPEAKING else []
    if len(exact) == 1:
        return Search(exact[0])
    others = [_compared(d, node, s, body) for d, node, s in every]
    near = sorted([*renamed, *others], key=lambda c: -(c.likeness or 0))
    return Search(near=tuple(near[:3]), several=len(exact) > 1)


def _scope(scoped: ScopedEdit, tree: Tree | None, ground: Ground) -> tuple[ScopeNode, Source] | None:
    raw = tree.get(scoped.file) if tree is not None else None
    if raw is None:
        return None
    source = ground.sources.get(scoped.file, raw)
    try:
        nodes = named(source, scoped.within)
    except Rejected:
        return None
    return (nodes[0], source) if len(nodes) == 1 else None


def _named_like(last: str, file: str, ground: Ground) -> Iterator[tuple[Definition, ScopeNode, Source]]:
    """Yield every definition of the package whose last name is `last`."""
    for source in _files(file, ground, ground.index.defining(last)):
        for name, node in definitions_in(source):
            if name.rpartition(".")[2] == last:
                yield Definition(source.path, name), node, source


def _files(
    file: str, ground: Ground, wanted: Callable[[bytes], bool], *, nowhere_else: bool = False
) -> Iterator[Source]:
    """Yield the Python files of the package root that bytes speak for, parsed; those that cannot be are left out."""
    here = {file: ground.new[file]} if file in ground.new else {}
    for path in python_files(here if nowhere_else else ground.new, file, wanted)[:MAX_FILES]:
        source = ground.sources.get(path, ground.new[path])
        try:
            source.tree  # noqa: B018 - parsed here, so that what cannot be is left out
        except Rejected:
            continue
        yield source


def _body(node: ScopeNode, source: Source) -> Body:
    """Return a definition's lines without its own name, so that a renamed one compares as the same."""
    if isinstance(node, ast.Module):
        return Body(source.raw)
    lines = "".join(source.lines[first_line(node) - 1 : node.end_lineno])
    return Body(re.sub(rf"\b(def|class)([ \t]+){re.escape(node.name)}\b", r"\1\2_", lines, count=1).encode())


def _compared(definition: Definition, node: ScopeNode, source: Source, old: Body | None) -> Candidate:
    line = 1 if isinstance(node, ast.Module) else first_line(node)
    if old is None:
        return Candidate(definition, line)
    here = _body(node, source)
    return Candidate(definition, line, 1.0 if here.digest == old.digest else round(min(here.likeness(old), 0.99), 2))


def _renamed(scoped: ScopedEdit, old: tuple[ScopeNode, Source], body: Body, ground: Ground) -> Iterator[Candidate]:
    """Yield definitions of the same kind that the old package did not have and whose bodies are half alike."""
    lines = sorted((line for line in body.lines if len(line) >= _LONG), key=len)[-3:]
    files = _files(scoped.file, ground, lambda raw: any(line in raw for line in lines))
    sources = {source.path: source for source in files}
    own = ground.new.get(scoped.file)
    if own is not None:
        sources.setdefault(scoped.file, ground.sources.get(scoped.file, own))
    for source in sources.values():
        known = _known_names(source.path, ground)
        for name, node in definitions_in(source):
            if name not in known and isinstance(node, ast.ClassDef) is isinstance(old[0], ast.ClassDef):
                found = _compared(Definition(source.path, name), node, source, body)
                if (found.likeness or 0) >= HALF:
                    yield found


def _known_names(path: str, ground: Ground) -> frozenset[str]:
    raw = ground.old.get(path) if ground.old is not None else None
    if raw is None:
        return frozenset()
    try:
        return frozenset(name for name, _ in definitions_in(ground.sources.get(path, raw)))
    except Rejected:
        return frozenset()


def _best(found: Iterable[Candidate]) -> Search:
    ranked = sorted(found, key=lambda c: -(c.likeness or 0))
    best = ranked[0].likeness or 0
    if best < HALF or (len(ranked) > 1 and (ranked[1].likeness or 0) == best):
        return Search(near=tuple(ranked[:3]), several=best >= HALF or ranked[0].likeness is None)
    return Search(ranked[0], tuple(ranked[1:3]))


# --- code in a module, and patterns ---


def _matching(scoped: ScopedEdit, ground: Ground) -> list[Candidate]:
    """Return the definitions in which the edit would apply now and would not have applied in the old package."""
    trace = _trace(scoped, ground)
    if not trace:
        return []
    holders = [path for path, raw in (ground.old or {}).items() if trace in raw and path.endswith(".py")]
    alone = holders == [scoped.file]  # else that code says nothing about where it comes from
    found = []
    for source in _files(scoped.file, ground, lambda raw: trace in raw, nowhere_else=not alone):
        for definition, line in _scopes_of(scoped.edit, source):
            if not _matched_before(scoped.edit, definition, ground):
                found.append(Candidate(definition, line))
    return found


def _trace(scoped: ScopedEdit, ground: Ground) -> bytes:
    """Return what stands where the edit applied: the first line of its site in the old package; empty for none.

    A line that the old file has more often than the edit has sites is no trace.
    """
    raw = ground.old.get(scoped.file) if ground.old is not None else None
    if raw is None or not isinstance(scoped.edit, Assign | Replace | Delete | Insert):
        return b""
    if isinstance(scoped.edit, Insert) and scoped.edit.anchor is None:
        return b""
    try:
        state = examine(scoped.edit, ground.sources.get(scoped.file, raw), scoped.within)
    except Rejected:
        return b""
    code = state.sites[0].code.removesuffix(" …")
    if isinstance(scoped.edit, Assign):
        code = code.partition("=")[0].strip()
        return code.encode() if len(code) > 1 else b""
    often = raw.count(code.encode())
    return code.encode() if isinstance(state, Pending) and len(code) > 1 and often <= len(state.sites) else b""


def _scopes_of(edit: Edit, source: Source) -> Iterator[tuple[Definition, int]]:
    """Yield the smallest tracked definitions in which an edit finds all of its sites, and the first one's line."""
    lines = _match_lines(edit, source)
    around = {name: name for name, node in definitions_in(source) if lines is None or _spans(node, lines)}
    inner: set[tuple[str, int]] = set()
    for name, within in reversed({MODULE: None, **around}.items()):
        try:
            state = examine(edit, source, within)
        except Rejected:
            continue
        line = state.sites[0].place.line
        at = enclosing(source.tree, line)
        if isinstance(state, Pending) and name in {at, MODULE} and (at, line) not in inner:
            inner.add((at, line))
            yield Definition(source.path, name), line


def _spans(node: ast.stmt, lines: Iterable[int]) -> bool:
    return any(first_line(node) <= line <= (node.end_lineno or node.lineno) for line in lines)


def _match_lines(edit: Edit, source: Source) -> list[int] | None:
    """Return where a file has the pattern of an edit: nowhere else can it apply. None where it has no pattern."""
    match edit:
        case Replace(pattern=pattern) | Delete(pattern=pattern) | Insert(anchor=Pattern() as pattern):
            with contextlib.suppress(RecursionError):
                return [match.first.lineno for match in find_matches(pattern, source.tree)]  # type: ignore[attr-defined]  # both kinds have positions
    return None


def _matched_before(edit: Edit, definition: Definition, ground: Ground) -> bool:
    raw = ground.old.get(definition.file) if ground.old is not None else None
    if raw is None:
        return False
    try:
        within = None if definition.name == MODULE else definition.name
        examine(edit, ground.sources.get(definition.file, raw), within)
    except Rejected:
        return False
    return True


def _one_of(found: list[Candidate]) -> Search:
    return Search(found[0]) if len(found) == 1 else Search(near=tuple(found[:3]), several=True)


def _module(scoped: ScopedEdit, ground: Ground) -> Search:
    """Search a file that is gone: a package of its name, a file of its name, or one that is half alike."""
    raw = ground.old.get(scoped.file) if ground.old is not None else None
    pure = PurePosixPath(scoped.file)
    package = str(pure.with_suffix("") / "__init__.py")
    names = [path for path in ground.new if path == package or path.rpartition("/")[2] == pure.name != "__init__.py"]
    body = Body(raw) if raw is not None else None
    found = []
    for path in names:
        likeness = None if body is None else round(body.likeness(Body(ground.new[path])), 2)
        found.append(Candidate(Definition(path, MODULE), 1, likeness))
    alike = [c for c in found if c.definition.file == package or (c.likeness or 0) >= HALF]
    best = _best(alike) if alike else Search()
    return best if best.found else Search(near=tuple(sorted(found, key=lambda c: -(c.likeness or 0))[:3]))
