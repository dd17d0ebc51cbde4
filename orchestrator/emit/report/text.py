"""Text of others, made safe to look at: what would be invisible or would reorder a line is shown as what it is."""

from __future__ import annotations

import re
from typing import Any

_TAB, _FEED = 9, 10
_SYMBOLS = 0x2400
"""Unicode's pictures of the control characters start here."""
_DIRECTIONS = (0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = (0x200B, 0x2028, 0x2029, 0x2060, 0xFEFF)
_TABLE: dict[int, str] = {
    **{code: chr(_SYMBOLS + code) for code in range(32) if code not in {_TAB, _FEED}},
    0x7F: "\u2421",
    **{code: f"⟨U+{code:04X}⟩" for code in (*range(0x80, 0xA0), *_DIRECTIONS, *_UNSEEN)},
    **dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd"),
}


def visible(value: Any) -> Any:  # noqa: ANN401 - a template prints values of any type
    """Return a text with control characters, directional marks and half characters made visible; others as they are.

    A line with a right-to-left override reads otherwise than it runs; a page may not hide that.
    """
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return value.translate(_TABLE)
    return value


_MARKDOWN = re.compile(r"[\\`*_\[\]|~$]")
_REFERENCE = re.compile(r"(?<![\w&])([@#])(?=\w)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def markdown(text: object) -> str:
    """Return a text as one line of GitHub Markdown that means nothing but itself: no tag, mention or reference.

    What stands between two backticks becomes code, as on the page.
    """
    parts = " ".join(str(visible(str(text))).split()).split("`")
    if len(parts) % 2 == 0:
        return _plain("`".join(parts))
    return "".join(code_span(part) if i % 2 else _plain(part) for i, part in enumerate(parts))


def _plain(line: str) -> str:
    line = _MARKDOWN.sub(r"\\\g<0>", "".join(_HTML.get(character, character) for character in line))
    return _REFERENCE.sub(r"\1<!-- -->", line)


def code_span(text: object) -> str:
    """Return a text as a code span that also stands in a table; empty for an empty text."""
    line = " ".join(str(visible(str(text))).split())
    if not line:
        return ""
    fence = _fence(line, 1)
    blank = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{blank}{line}{blank}{fence}".replace("|", r"\|")


def code_block(text: str, language: str) -> str:
    """Return a text as a fenced block, whatever fences it holds."""
    shown = str(visible(text)).rstrip("\n")
    fence = _fence(shown, 3)
    return f"{fence}{language}\n{shown}\n{fence}"


def _fence(text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(least, longest + 1)
