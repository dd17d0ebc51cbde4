"""What commands print: results on stdout, the rest on stderr, people and machines apart."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rich.console import Console

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.outcome import Run

_WIDTH = 140  # where the output is no terminal


def console(*, stderr: bool = False) -> Console:
    """Return a console; NO_COLOR and pipes are respected, text is never interpreted."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else int(os.environ.get("COLUMNS", _WIDTH))
    plain = False if os.environ.get("NO_COLOR") else None  # stronger than FORCE_COLOR, and bold is no exception
    return Console(
        file=stream, width=width, force_terminal=plain, markup=False, highlight=False, emoji=False, soft_wrap=False
    )


def print_records(records: Iterable[Mapping[str, Any]]) -> None:
    """Print records as JSON lines on stdout."""
    for record in records:
        sys.stdout.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")


def print_diagnostics(found: Iterable[Diagnostic], line: Callable[[str, int], str | None], *, as_json: bool) -> None:
    """Print diagnostics: frames on stderr or, with `as_json`, records on stdout. Notes are left to reports."""
    print_findings((d for d in found if d.severity is not Severity.NOTE), line, as_json=as_json)


def print_findings(found: Iterable[Diagnostic], line: Callable[[str, int], str | None], *, as_json: bool) -> None:
    """Print diagnostics of every weight, notes among them, as `print_diagnostics` does."""
    shown = list(found)
    if as_json:
        print_records({"event": "diagnostic", **d.record()} for d in shown)
        return
    from orchestrator.emit.frames import frame

    out = console(stderr=True)
    for diagnostic in shown:
        out.print(frame(diagnostic, line), soft_wrap=True, end="\n" if diagnostic is not shown[-1] else "")


def lines_of(read: Callable[[str], bytes], run: Run | None = None) -> Callable[[str, int], str | None]:
    """Return a function that brings line N of a workspace file, of a file in a run's tree, or of an artefact."""
    from orchestrator.core.diagnostics import Rejected

    def line(file: str, number: int) -> str | None:
        raw: bytes | None = None
        if run is not None:
            raw = run.tree.get(file, run.artefacts.get(file))
        if raw is None:
            try:
                raw = read(file)
            except Rejected:
                return None
        lines = raw.decode("utf-8", errors="replace").split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else None

    return line
