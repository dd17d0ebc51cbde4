"""Sites and changes: where an edit applies and what it splices; what to say where there is no site, or too many."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.patterns import find_matches, written
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.code.patterns import Captures, Match, Pattern
    from orchestrator.code.scopes import ScopeNode
    from orchestrator.code.source import Source, Splice


@dataclass(frozen=True)
class Site:
    """Where an edit applies or applied: its place, the definition around it, the code there, what holes took."""

    place: Place
    scope: str
    code: str
    captures: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Change:
    """One splice with the nodes that it removes (none for an insertion) and the statements it brings."""

    splice: Splice
    removed: tuple[ast.AST, ...]
    brought: tuple[ast.AST, ...]
    neighbour: ast.stmt | None = None
    """For an insertion: the statement that the new ones stand above or, with `below`, below."""
    below: bool = False


@dataclass(frozen=True)
class Pending:
    """The edit can be applied: these are its sites and changes."""

    sites: tuple[Site, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Present:
    """The code already is what the edit makes of it."""

    sites: tuple[Site, ...]


def counted(matches: Sequence[Match], count: int, source: Source) -> None:
    """Raise `Rejected` (E405) unless there are exactly `count` matches."""
    if len(matches) != count:
        raise Rejected(too_many(source, [m.first for m in matches], count, "narrow the pattern"))


def too_many(source: Source, nodes: Sequence[ast.AST], count: int, advice: str) -> Diagnostic:
    """Return E405 with every site."""
    lines = tuple(f"{source.place(node)}   {first_line_of(source, node)}" for node in nodes)
    message = f"pattern matched {len(nodes)} site{'s' * (len(nodes) != 1)}, expected {count}"
    return Diagnostic("E405", message, notes=("sites:", *lines), help=f"{advice}, or say count: {len(nodes)}")


def gone(pattern: Pattern, source: Source, scope: ScopeNode) -> Diagnostic:
    """Return "the pattern is gone" with the nearest code of the same kind, if any is at least half alike."""
    first, *more = written(pattern.code).strip().splitlines()
    elsewhere = find_matches(pattern, source.tree) if scope is not source.tree else []
    message = f"pattern not found in {source.path}: {first.strip()}{' …' if more else ''}"
    if elsewhere:
        places = tuple(f"{source.place(m.first)}   {first_line_of(source, m.first)}" for m in elsewhere[:3])
        return Diagnostic(
            "E403", message, notes=("it matches elsewhere in the file:", *places), help="Correct `within:`."
        )
    near = _nearest(pattern, source, scope)
    if near is None:
        return Diagnostic("E403", message, notes=("no candidate",), help="The code may have moved to another file.")
    place = source.place(near)
    note = f"{place}   {first_line_of(source, near)}"
    return Diagnostic(
        "E403", message, notes=("nearest:", note), help="Compare, and write the pattern as the code is now."
    )


_HALF = 0.5


def _nearest(pattern: Pattern, source: Source, scope: ScopeNode) -> ast.AST | None:
    """Return the code of the pattern's kind that is most like it, None if nothing is at least half alike.

    Likeness is that of `difflib` over the words of both, so that neither layout nor comments count for much.
    """
    wanted = _words(_HOLES.sub("", written(pattern.code)))
    kind = ast.stmt if not pattern.is_expression else ast.expr
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(wanted)
    best: tuple[float, ast.AST | None] = (_HALF, None)
    for node in ast.walk(scope):
        if not isinstance(node, kind) or node is scope or isinstance(node, ast.Name | ast.Constant):
            continue
        span = source.span(node)
        if span.end - span.start > _LONGEST * (len(pattern.code.text) + 1):
            continue  # all of the pattern would be a small part of it
        matcher.set_seq1(_words(source.text[span.start : span.end]))
        bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # each costs more and says more
        if all(bound() >= best[0] for bound in bounds) and (best[1] is None or matcher.ratio() > best[0]):
            best = (matcher.ratio(), node)
    return best[1]


_LONGEST = 40
_HOLES = re.compile(r"\$\{[^}]*\}")
_WORD = re.compile(r"\w+|[^\w\s]")


def _words(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"#[^\n]*", "", text))


def first_line_of(source: Source, node: ast.AST) -> str:
    """Return the first line of a node's text, marked where more follows."""
    text = source.segment(node).splitlines() or [""]
    return text[0].strip() + (" …" if len(text) > 1 else "")


def match_site(source: Source, match: Match) -> Site:
    """Return the site of a match."""
    return site_of(source, match.first, match.captures)


def site_of(source: Source, node: ast.AST, captures: Captures) -> Site:
    """Return the site of a node, with what holes took in one line each."""
    taken = []
    for name, value in sorted(captures.items()):
        nodes = value if isinstance(value, tuple) else (value,)
        text = (
            value
            if isinstance(value, str)
            else " … ".join(first_line_of(source, n) for n in nodes if isinstance(n, ast.AST) and hasattr(n, "lineno"))
        )
        taken.append((name, text))
    place = source.place(node)
    return Site(place, "", first_line_of(source, node), tuple(taken))


def site_notes(sites: Sequence[Site]) -> tuple[str, ...]:
    """Return a line for each site, for a diagnostic's notes."""
    return tuple(f"{site.place}   {site.code}" for site in sites)
