"""Diagnostics as text: a header, the place, the line with a mark under it, notes, help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from orchestrator.core.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from collections.abc import Callable

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}


def frame(found: Diagnostic, line: Callable[[str, int], str | None]) -> Text:
    """Return a diagnostic as a code frame."""
    text = Text()
    text.append(f"{found.severity}[{found.code}]", style=_STYLE[found.severity])
    text.append(f": {found.message}\n")
    stage = f"stage {found.stage}" if found.stage else ""
    if found.place:
        text.append(f"  --> {found.place}{'   ' if stage else ''}{stage}\n")
        shown = line(found.place.file, found.place.line) if found.place.line else None
        if shown is not None:
            width = max(4, len(str(found.place.line)))
            shown = shown.rstrip("\r\n").replace("\t", " ")
            length = max(1, min(found.place.length, len(shown) - found.place.column + 1))
            text.append(f"{found.place.line:>{width}} | {shown}\n")
            text.append(f"{'':>{width}} | {' ' * (found.place.column - 1)}{'^' * length}\n")
    elif stage:
        text.append(f"  --> {stage}\n")
    for note in found.notes:
        text.append(f"  {note}\n")
    if found.help:
        text.append("  help: ", style="bold")
        text.append(f"{found.help}\n")
    return text
