"""What a run changed in a file: its lines, in runs, as they are in the final tree and as they were.

A file that a stage deploys is no edit: its lines count as changed only where a later edit changed them.
"""

from __future__ import annotations

import ast
import difflib
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.imports import statements_in
from orchestrator.code.scopes import first_line
from orchestrator.code.symbols import inner_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.checks.house.world import World
    from orchestrator.code.imports import Guard
    from orchestrator.code.source import Source

_DEEP = 1_000


@dataclass(frozen=True)
class Chunk:
    """One run of lines (from 1) that edits brought, and those that it took the place of; either may be empty."""

    old: range
    new: range


def edited(world: World, path: str) -> tuple[Source, Source, tuple[Chunk, ...]] | None:
    """Return a Python file as edits met it and as they left it, with what differs; None where none edited it."""
    if not path.endswith(".py"):
        return None
    after = world.view.source(path)
    raw = world.deployed.get(path, world.view.base.get(path))
    if after is None or raw is None or raw == after.raw:
        return None
    before = world.view.sources.get(path, raw)
    return before, after, after.once(f"chunks since {hash(raw)}", lambda: chunks(before, after))


def statements(source: Source, lines: Sequence[range]) -> list[tuple[ast.stmt, Guard]]:
    """Return the statements of a file that have some of the lines themselves, each with what stands around it."""
    parts = sorted((part for part in lines if part), key=lambda part: part.stop)
    stops = [part.stop for part in parts]
    first = min((part.start for part in parts), default=0)
    found = []
    for statement, guard in statements_in(source) if parts else ():
        if (statement.end_lineno or 0) < first:
            continue
        position = bisect_right(stops, first_line(statement))
        if position < len(parts) and any(part.start <= (statement.end_lineno or 0) for part in parts[position:]):
            own = own_lines(statement)
            if any(meet(own, part) for part in parts[position:]):
                found.append((statement, guard))
    return found


def chunks(before: Source, after: Source) -> tuple[Chunk, ...]:
    """Return the runs of lines in which two states of a file differ; blank space at a line's end does not count."""
    old, new = before.derived(_stripped), after.derived(_stripped)
    start = _shared(old, new)
    end = _shared(old[start:][::-1], new[start:][::-1])
    matcher = difflib.SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end], autojunk=False)
    shift = start + 1
    found = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            up = _slide(new, j1 + start, j2 + start) if i1 == i2 else _slide(old, i1 + start, i2 + start)
            up = 0 if tag == "replace" else up
            found.append(Chunk(range(i1 + shift - up, i2 + shift - up), range(j1 + shift - up, j2 + shift - up)))
    return tuple(found)


def _stripped(source: Source) -> list[str]:
    return [line.rstrip() for line in source.lines]


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many lines two texts have in common at their start: by halves, as slices are compared quickly."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _slide(lines: Sequence[str], start: int, end: int) -> int:
    """Return by how many lines to move a run of lines up so that it begins where a statement is most likely to.

    Where the lines above a run are its last ones again, a comparison cannot tell which of them are new.
    """
    best = 0
    steps = 0
    while start - steps > 0 and lines[start - steps - 1] == lines[end - steps - 1]:
        steps += 1
        if _indent(lines[start - steps]) < _indent(lines[start - best]):
            best = steps
    return best


def _indent(line: str) -> int:
    """Return how far a line is indented; a blank one begins nothing."""
    return len(line) - len(line.lstrip()) if line else _DEEP


def own_lines(statement: ast.stmt) -> range:
    """Return the lines of a statement without those of the statements in it."""
    start, end = first_line(statement), statement.end_lineno or statement.lineno
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inner = first_line(statement.body[0])
    else:
        inner = min((first_line(part) for part in inner_statements(statement)), default=end + 1)
    return range(start, max(start + 1, min(inner, end + 1)))


def meet(left: range, right: range) -> bool:
    """Tell whether two ranges of lines have one in common."""
    return left.start < right.stop and right.start < left.stop
