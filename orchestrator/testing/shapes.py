"""The shapes that a file of the same code can have, and that an edit must keep."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.indent import with_unit

if TYPE_CHECKING:
    from collections.abc import Callable

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Shape:
    """A name, and how a file gets the shape: None where this file cannot have it.

    An *exact* shape is kept byte for byte by an edit. In one that is not, lines that an edit brings may have blanks of
    their own where a statement goes on in a further line.
    """

    name: str
    change: Callable[[bytes], bytes | None]
    exact: bool = True


def crlf(raw: bytes) -> bytes | None:
    """Return the file with the line ends of Windows."""
    return None if b"\r" in raw else raw.replace(b"\n", b"\r\n")


def marked(raw: bytes) -> bytes | None:
    """Return the file with a byte order mark."""
    return None if raw.startswith(BOM) or b"coding" in b"".join(raw.splitlines()[:2]) else BOM + raw


def by_tabs(raw: bytes) -> bytes | None:
    """Return code whose blocks are indented by a tab; what stands in strings stays."""
    return _indented(raw, "\t")


def by_two(raw: bytes) -> bytes | None:
    """Return code whose blocks are indented by two blanks; what stands in strings stays."""
    return _indented(raw, "  ")


def _indented(raw: bytes, unit: str) -> bytes | None:
    try:
        text = raw.decode("utf-8")
        changed = with_unit(text, unit)
        same = ast.dump(ast.parse(text)) == ast.dump(ast.parse(changed))
    except (ValueError, SyntaxError):  # not UTF-8, or no Python
        return None
    return changed.encode() if same else None


SHAPES = (
    Shape("CRLF", crlf),
    Shape("BOM", marked),
    Shape("tabs", by_tabs, exact=False),
    Shape("two blanks", by_two, exact=False),
)
