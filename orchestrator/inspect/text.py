"""A piece of a file as some program will see it, with the way back to the file's own lines and columns."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from orchestrator.core.diagnostics import Place


@dataclass(frozen=True)
class Mark:
    """From byte `offset` of the text on, up to the next mark, the text stands at this line and column of the file."""

    offset: int
    line: int
    column: int


@dataclass(frozen=True)
class Chunk:
    """Text cut out of a file. `joined`: continuation lines were taken out, as a Dockerfile's reader does."""

    file: str
    text: str
    marks: tuple[Mark, ...] = (Mark(0, 1, 1),)

    def place(self, offset: int, length: int = 1) -> Place:
        """Return where byte `offset` of the text stands in the file."""
        raw = self.text.encode("utf-8", errors="surrogatepass")
        offset = max(0, min(offset, len(raw)))
        mark = self.marks[max(0, bisect.bisect_right(self.marks, offset, key=lambda m: m.offset) - 1)]
        before = raw[mark.offset : offset].decode("utf-8", errors="replace")
        line, _, tail = before.rpartition("\n")
        if line or before.startswith("\n"):
            return Place(self.file, mark.line + before.count("\n"), len(tail) + 1, length)
        return Place(self.file, mark.line, mark.column + len(before), length)


def decoded(raw: bytes) -> str:
    """Return bytes of a user's file as text with plain line ends; what is no UTF-8 is replaced, never an error."""
    return raw.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\x00", "\ufffd")
