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
    from rich.table import Column, Table

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.outcome import Run

_WIDTH = 140  # where the output is no terminal
_BETWEEN = 3  # columns of a terminal: a bar with a blank on both sides
_UNLIMITED = 100_000


def console(*, stderr: bool = False) -> Console:
    """Return a console; NO_COLOR and pipes are respected, text is never interpreted, lines are never broken."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _asked_width()
    plain = False if os.environ.get("NO_COLOR") else None  # stronger than FORCE_COLOR, and bold is no exception
    return Console(
        file=stream, width=width, force_terminal=plain, markup=False, highlight=False, emoji=False, soft_wrap=True
    )


def _asked_width() -> int:
    """Return the columns that COLUMNS asks for; text, an empty one and 0 ask for none."""
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isascii() and asked.isdigit() and int(asked) else _WIDTH


def print_table(table: Table) -> None:
    """Print a table on stdout. A terminal that is too narrow for it breaks the lines: nothing is left out."""
    from rich.measure import Measurement

    out = console()
    unlimited = out.options.update(max_width=_UNLIMITED)

    def least(column: Column) -> int:
        cells = [Measurement.get(out, unlimited, cell) for cell in (column.header, *column.cells)]
        return max(cell.maximum if column.no_wrap else cell.minimum for cell in cells)

    out.width = max(out.width, sum(least(column) + _BETWEEN for column in table.columns))
    out.print(table, soft_wrap=False)


def print_records(records: Iterable[Mapping[str, Any]]) -> None:
    """Print records as JSON lines on stdout."""
    for record in records:
        sys.stdout.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")


def _no_line(_file: str, _number: int) -> str | None:
    """Show no line: nothing that is said has a place in a file that could be shown."""
    return None


def print_diagnostics(
    found: Iterable[Diagnostic], line: Callable[[str, int], str | None] = _no_line, *, as_json: bool
) -> None:
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
        out.print(frame(diagnostic, line), end="\n" if diagnostic is not shown[-1] else "")


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
