"""The sites of a pattern as text: place, scope, the line with a mark under it, what the holes took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.code.looking import Seen

_LONGEST = 100


def seen_text(seen: Seen, line: str, holes: Sequence[str]) -> Text:
    """Return a site as text; `line` is the line of the file that it starts in, `holes` how the pattern writes them."""
    text = Text()
    text.append(str(seen.place), style="bold")
    text.append(f"   in {seen.scope}\n" if seen.scope else "\n")
    shown = line.rstrip("\r\n").replace("\t", " ")
    width = max(4, len(str(seen.place.line)))
    length = max(1, min(seen.place.length, len(shown) - seen.place.column + 1))
    text.append(f"{seen.place.line:>{width}} | {shown}\n")
    more = f"   and {seen.lines - 1} more line{'s' * (seen.lines > 2)}" if seen.lines > 1 else ""  # noqa: PLR2004 - plural
    text.append(f"{'':>{width}} | {' ' * (seen.place.column - 1)}")
    text.append(f"{'^' * length}{more}\n", style="green")
    taken = dict(seen.captures)
    for hole in holes:
        name = hole.removesuffix("...")
        if name in taken:
            parts = [_line(part) for part in taken[name]]
            joined = ", ".join(parts) if parts else "nothing"
            text.append(f"{'':>{width}} : ${{{hole}}} = ", style="dim")
            text.append(f"{joined}\n")
    return text


def _line(text: str) -> str:
    lines = text.splitlines() or [""]
    first = lines[0].strip()
    return f"{first[:_LONGEST]} …" if len(lines) > 1 or len(first) > _LONGEST else first
