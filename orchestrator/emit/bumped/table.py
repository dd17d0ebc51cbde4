"""A bump as tables, stage by base, and as the details of everything that somebody has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from orchestrator.engine.bump.fates import FINE
from orchestrator.spec.releases import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from orchestrator.engine.bump.fates import BaseFate, Part, StageFate

NO_SOURCE = "no source"
MAX_DIFF = 40
"""Lines of a diff that a terminal gets; JSON has all of them."""
IN_STAGE = "    "
"""Where the keys of a stage stand in a pipeline: what is proposed can be pasted as it is shown."""
_STYLES = {
    Fate.EXACT: "green",
    Fate.ADAPTED: "cyan",
    Fate.PRESENT: "cyan",
    Fate.FIXED: "cyan",
    Fate.NOT_REACHED: "yellow",
    Fate.OFF: "dim",
}
_CELL = max(len(fate) for fate in Fate) + 3


def short_names(bases: Sequence[BaseFate]) -> list[str]:
    """Return what the columns are called: versions alone, where all are releases of one package."""
    projects = {base.name.partition("==")[0] for base in bases}
    alone = len(projects) == 1 and all("==" in base.name for base in bases)
    return [base.name.partition("==")[2] if alone else base.name for base in bases]


def cell(stage: StageFate | None, base: BaseFate) -> str:
    """Return the verdict that stands for a stage, in parentheses where it is declared."""
    if base.missing:
        return NO_SOURCE
    if stage is None:
        return "-"
    return f"({stage.fate})" if stage.settled and stage.fate not in FINE else str(stage.fate)


def rows(bases: Sequence[BaseFate]) -> Iterator[tuple[str, list[tuple[str, StageFate | None]]]]:
    """Yield each stage with its cells, one for each base: the text and the verdict."""
    names = list(dict.fromkeys(stage.stage for base in bases for stage in base.stages))
    tables = [{stage.stage: stage for stage in base.stages} for base in bases]
    for name in names:
        found = [table.get(name) for table in tables]
        yield name, [(cell(stage, base), stage) for stage, base in zip(found, bases, strict=True)]
    if not names:
        yield "every stage", [(cell(None, base), None) for base in bases]


def bump_tables(bases: Sequence[BaseFate], width: int) -> Iterator[Table]:
    """Yield tables of stages by base, each no wider than `width` characters as far as one base is not."""
    every = list(rows(bases))
    names = short_names(bases)
    first = max([len("stage"), *(len(name) for name, _ in every)])
    widths = [max(_CELL, len(name)) + 3 for name in names]
    start = 0
    while start < len(bases):
        end, room = start + 1, width - first - widths[start]
        while end < len(bases) and room >= widths[end]:
            room -= widths[end]
            end += 1
        table = Table(show_edge=False, pad_edge=False, header_style="bold")
        table.add_column("stage", no_wrap=True)
        for name in names[start:end]:
            table.add_column(name, no_wrap=True)
        for name, cells in every:
            table.add_row(name, *(_styled(*each) for each in cells[start:end]))
        yield table
        start = end


def _styled(text: str, stage: StageFate | None) -> Text:
    return Text(text, style="bold red" if stage is None else _STYLES.get(stage.fate, "bold red"))


def details(bases: Sequence[BaseFate]) -> Iterator[str]:
    """Yield the lines about everything that is not exact: what it is now, what changed, what to write instead."""
    for base in bases:
        if base.missing:
            yield f"{base.name}: {NO_SOURCE}"
            yield from (f"  {d.code} {d.message}" for d in base.missing)
            yield from (f"  help: {help_}" for help_ in dict.fromkeys(d.help for d in base.missing) if help_)
        lines = [line for stage in base.stages for line in _stage(stage)]
        if lines:
            yield f"{base.name}"
            yield from lines


def _stage(stage: StageFate) -> Iterator[str]:
    parts = [part for part in stage.parts if part.fate not in FINE]
    if not parts:
        return
    yield f"  {stage.stage}: {stage.fate}"
    shown: set[str] = set()
    for part in parts:
        yield from _part(part, again=part.diff in shown)
        shown.add(part.diff)
    if stage.yaml:
        yield "    the whole stage applies, and its checks hold, with:"
        yield from _indented(stage.yaml, IN_STAGE)


def _part(part: Part, *, again: bool) -> Iterator[str]:
    where = f" -> {part.found}" if part.found else ""
    yield f"    {part.name}: {part.fate}{where}" + (f"  [{part.code}]" if part.code else "")
    if part.detail:
        yield f"      {part.detail}"
    if part.declared:
        yield f"      declared: {part.declared}"
        return
    yield from (f"      {note}" for note in part.notes)
    yield from (f"      near: {near}" for near in part.near)
    if part.diff and again:
        yield "      what changed in the base: as above"
    elif part.diff:
        yield "      what changed in the base:"
        yield from _cut(part.diff)
    if part.yaml:
        yield f"      write instead ({part.proven}):"
        yield from _indented(part.yaml, IN_STAGE)
    elif part.proven:
        yield f"      {part.proven}"


def _cut(diff: str) -> Iterator[str]:
    lines = diff.splitlines()
    yield from (f"        {line}" for line in lines[:MAX_DIFF])
    if len(lines) > MAX_DIFF:
        yield f"        ... {len(lines) - MAX_DIFF} lines more; --json has them"


def _indented(text: str, indent: str) -> Iterable[str]:
    return (f"{indent}{line}" for line in text.splitlines())
