"""A bump as Markdown for a pull request: the table, then what to look at, folded, as far as GitHub takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.emit.bumped.table import NO_SOURCE, rows, short_names
from orchestrator.emit.report.markdown import LIMIT
from orchestrator.emit.report.text import code_block, code_span, markdown
from orchestrator.engine.bump.fates import FINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.engine.bump.fates import BaseFate, Part, StageFate

_REST = "\n**The rest is left out: `--json` has it.**\n"


def bump_markdown(name: str, bases: Sequence[BaseFate]) -> str:
    """Return the Markdown: short enough for a comment; whole sections are left out at the end, never half of one."""
    text = "\n".join([f"### {markdown(name)} on other bases", "", *_table(bases), "", *_notes(bases)]) + "\n"
    for base in bases:
        for stage in base.stages:
            more = _section(base, stage)
            if len(text) + len(more) + len(_REST) >= LIMIT // 2:  # astral characters count twice there
                return text + _REST
            text += more
    return text


def _table(bases: Sequence[BaseFate]) -> Iterator[str]:
    yield "| " + " | ".join(["stage", *map(markdown, short_names(bases))]) + " |"
    yield "| --- " * (len(bases) + 1) + "|"
    for stage, cells in rows(bases):
        shown = [text if found is None or found.settled else f"**{text}**" for text, found in cells]
        yield "| " + " | ".join([code_span(stage), *shown]) + " |"


def _notes(bases: Sequence[BaseFate]) -> Iterator[str]:
    yield "A verdict in parentheses is declared by its stage; one in bold is not."
    for base in bases:
        yield from (f"- {markdown(base.name)}: {NO_SOURCE}: {markdown(d.message)}" for d in base.missing)


def _section(base: BaseFate, stage: StageFate) -> str:
    parts = [part for part in stage.parts if part.fate not in FINE]
    if not parts or all(part.declared for part in parts):
        return ""
    head = f"{markdown(base.name)}: {markdown(stage.stage)}: {stage.fate}"
    lines = ["", f"<details><summary>{head}</summary>", ""]
    for part in parts:
        lines += _part(part)
    if stage.yaml:
        lines += ["", "The whole stage applies, and its checks hold, with", "", code_block(stage.yaml, "yaml")]
    return "\n".join([*lines, "", "</details>", ""])


def _part(part: Part) -> Iterator[str]:
    where = f", now at {code_span(part.found)}" if part.found else ""
    said = f": {markdown(part.declared or part.detail)}" if part.declared or part.detail else ""
    yield f"- {markdown(part.name)}: **{part.fate}**{where}{said}"
    if part.declared:
        return
    yield from (f"  - {markdown(note)}" for note in part.notes)
    yield from (f"  - near: {markdown(near)}" for near in part.near)
    if part.diff:
        yield from ("", code_block(part.diff, "diff"), "")
    if part.yaml:
        yield from ("", f"Write instead ({markdown(part.proven)}):", "", code_block(part.yaml, "yaml"), "")
