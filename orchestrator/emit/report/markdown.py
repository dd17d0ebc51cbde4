"""The report as Markdown for a pull request: short enough for GitHub, which cuts nothing but refuses what is longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.checks.verdict import Status
from orchestrator.emit.graphs import mermaid
from orchestrator.emit.report.page import cells, outcomes, own_templates
from orchestrator.emit.report.text import code_block, code_span, markdown, visible
from orchestrator.engine.templates import own_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from orchestrator.emit.report.content import Report

LIMIT = 65_536
"""UTF-16 code units that the text of a pull request or of a comment may have."""
_REST = "\n\n**The rest is cut.**\n"
GRAPH_STAGES = 60
"""Beyond this a Mermaid graph is not readable: the needs stand in a list."""


@dataclass(frozen=True)
class Extent:
    """How much of a report is written; `diffs` are the (stage, path) pairs whose diffs stand in it."""

    diffs: frozenset[tuple[str, str]]
    appendix: bool = True
    checks: bool = True
    stages: bool = True
    rows: int | None = None

    def cuts(self, report: Report) -> list[str]:
        """Return what is left out, in words; [] for all of it."""
        whole = _all_diffs(report)
        total = len(report.sections)
        return [
            text
            for text, cut in (
                (f"{len(whole - self.diffs)} of {len(whole)} diffs", self.diffs != whole),
                ("the target's figures and the digests of the files", not self.appendix),
                ("the evidence of the checks", not self.checks),
                ("the details of the stages", not self.stages),
                (f"{total - (self.rows or 0)} of {total} stages and all that follows them", self.rows is not None),
            )
            if cut
        ]


def markdown_of(report: Report) -> bytes:
    """Return the Markdown. What does not fit is left out, least important first, and the first lines say so."""
    template = own_template(own_templates(), "report.md.j2", visible, html=False)
    extents = list(_extents(report))
    texts = {0: _rendered(report, extents[0], template)}
    if not _fits(texts[0]):
        # Each extent is a part of the one before it, so the first that fits can be bisected for.
        first, last = 1, len(extents) - 1
        while first < last:
            middle = (first + last) // 2
            texts[middle] = _rendered(report, extents[middle], template)
            first, last = (first, middle) if _fits(texts[middle]) else (middle + 1, last)
        texts = {0: _cut(texts.get(first) or _rendered(report, extents[first], template))}
    return texts[0].encode()


def _fits(text: str) -> bool:
    return len(text.encode("utf-16-le")) // 2 < LIMIT


def _cut(text: str) -> str:
    """Return a text that fits: as it is, else the lines that fit and a last one that says so."""
    if _fits(text):
        return text
    room = text.encode("utf-16-le")[: 2 * (LIMIT - len(_REST) - 1)].decode("utf-16-le", "ignore")
    return room.rpartition("\n")[0] + _REST


def _all_diffs(report: Report) -> frozenset[tuple[str, str]]:
    return frozenset((section.id, diff.path) for section in report.sections for diff in section.diffs)


def _extents(report: Report) -> Iterator[Extent]:
    """Yield ever shorter extents: digests, which the audit has, then the largest diffs, an eighth at a time."""
    kept = sorted((diff.length, section.id, diff.path) for section in report.sections for diff in section.diffs)
    yield Extent(_all_diffs(report))
    yield Extent(_all_diffs(report), appendix=False)
    while kept:
        kept = kept[: len(kept) * 7 // 8]
        yield Extent(frozenset((stage, path) for _, stage, path in kept), appendix=False)
    yield Extent(frozenset(), appendix=False, checks=False)
    yield Extent(frozenset(), appendix=False, checks=False, stages=False)
    rows = len(report.sections)
    while rows:
        rows = rows * 3 // 4
        yield Extent(frozenset(), appendix=False, checks=False, stages=False, rows=rows)


def _rendered(report: Report, extent: Extent, template: Callable[[Mapping[str, Any]], str]) -> str:
    context = {
        "report": report,
        "extent": extent,
        "cuts": extent.cuts(report),
        "graph": mermaid(report.records) if 1 < len(report.records) < GRAPH_STAGES else "",
        "outcomes": outcomes(report),
        "checks": {str(status): report.checks(status) for status in Status},
        "cells": cells(report),
        "text": markdown,
        "code": code_span,
        "block": code_block,
    }
    return template(context)
