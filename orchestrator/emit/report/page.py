"""The report as one HTML page that loads nothing: style, script and drawings stand in it."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from orchestrator.checks.verdict import Status
from orchestrator.emit.report.content import CONDITIONS
from orchestrator.emit.report.drawing import Vertex, drawing_of
from orchestrator.emit.report.text import visible
from orchestrator.emit.tables import checks_cell
from orchestrator.engine.templates import own_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.emit.report.content import Report
    from orchestrator.emit.report.diffs import FileDiff
    from orchestrator.emit.report.memory import Setting

LINES_OF_A_FILE = 2_000
LINES_OF_ALL = 24_000
"""Beyond these a page says that it is cut, and names the patch: a browser has to stay quick."""
SHARED_MEMORY = "device.shared_memory_per_block_bytes"
NONE = "\N{EN DASH}"
_BAR = 1000


def page_of(report: Report) -> bytes:
    """Return the page. It has no clock, no host and no user in it: equal reports give equal bytes."""
    templates = own_templates()
    script = templates["page.js.j2"]
    context = {
        "report": report,
        "script": script,
        # The only script that may run is this one, even if a text got through unescaped.
        "script_digest": f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
        "sections": _contents(report),
        "drawing": drawing_of([Vertex(s.id, s.outcome, s.fit, (*s.needs, *s.after)) for s in report.sections]),
        "outcomes": outcomes(report),
        "checks": {str(status): report.checks(status) for status in Status},
        "cells": cells(report),
        "added": sum(diff.added for section in report.sections for diff in section.diffs),
        "removed": sum(diff.removed for section in report.sections for diff in section.diffs),
        "patches": sum(bool(section.patch) for section in report.sections),
        "tiles_matter": _tiles_matter(report),
        "cut": _Cutter().cut,
        "bars": bars,
    }
    return own_template(templates, "page.html.j2", visible, html=True)(context).encode()


def own_templates() -> dict[str, str]:
    """Return the report's own templates by name."""
    folder = files("orchestrator.emit.report") / "templates"
    return {item.name: item.read_text(encoding="utf-8") for item in folder.iterdir() if item.name.endswith(".j2")}


def outcomes(report: Report) -> list[tuple[str, str, int]]:
    """Return (kind, name, count) of the outcomes that there are, most frequent first."""
    found: dict[tuple[str, str], int] = {}
    for section in report.sections:
        key = (section.fit, section.outcome)
        found[key] = found.get(key, 0) + 1
    return sorted(((*key, count) for key, count in found.items()), key=lambda row: (-row[2], row[1]))


def cells(report: Report) -> dict[str, str]:
    """Return stage → how many of its checks hold; conditions are no promises and are not counted."""
    kept = {r["stage"]: [check for check in r["checks"] if check["role"] not in CONDITIONS] for r in report.records}
    return {stage: checks_cell(checks) if checks else NONE for stage, checks in kept.items()}


def bars(setting: Setting, scale: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, width, number of the use) of a setting's bar; `scale` bytes are as wide as the whole."""
    done = 0
    for index, use in enumerate(setting.uses):
        count = max(0, use.count or 0)
        start, end = _BAR * done // scale, _BAR * (done + count) // scale
        done += count
        if end > start:
            yield start, end - start, index


def _tiles_matter(report: Report) -> bool:
    """Tell whether to speak of tiles: where there are some, or where the target says what one has to fit."""
    return bool(report.tiles) or any(figure.name == SHARED_MEMORY for figure in report.figures)


def _contents(report: Report) -> list[tuple[str, str]]:
    parts = [
        ("overview", "Overview", True),
        ("graph", "Graph", True),
        ("stages", "Stages", True),
        ("findings", "Findings", bool(report.findings)),
        ("details", "Stage by stage", True),
        ("running", "Run configuration", report.server is not None),
        ("memory", "Memory", bool(report.memory)),
        ("tiles", "Tiles", _tiles_matter(report)),
        ("figures", "Facts", bool(report.figures)),
        ("digests", "Digests", True),
    ]
    return [(anchor, title) for anchor, title, there in parts if there]


class _Cutter:
    """Hands out the lines of diffs that a page may have."""

    def __init__(self) -> None:
        self.left = LINES_OF_ALL

    def cut(self, diff: FileDiff) -> FileDiff:
        shown = diff.first(min(self.left, LINES_OF_A_FILE))
        self.left -= shown.length
        return shown
