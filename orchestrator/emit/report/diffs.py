"""The lines of a patch with what a page needs of them: kind, hunk, line numbers to start from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

LineKind = Literal["added", "removed", "same", "mark"]
_KIND: dict[bytes, LineKind] = {b"+": "added", b"-": "removed", b" ": "same", b"\\": "mark"}
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NEXT_FILE = re.compile(rb"^diff --git ", re.MULTILINE)


@dataclass(frozen=True)
class Line:
    """One line of a hunk: its text with the sign in front, without the line feed."""

    kind: LineKind
    text: str


@dataclass(frozen=True)
class Hunk:
    """Lines in a row; `old` and `new` are the numbers of the first one in the file before and after."""

    header: str
    old: int
    new: int
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class FileDiff:
    """The diff of one file."""

    path: str
    new_file: bool
    hunks: tuple[Hunk, ...]

    @property
    def added(self) -> int:
        """Lines added."""
        return self._count("added")

    @property
    def removed(self) -> int:
        """Lines removed."""
        return self._count("removed")

    @property
    def length(self) -> int:
        """Lines of the diff."""
        return sum(len(hunk.lines) for hunk in self.hunks)

    def _count(self, kind: LineKind) -> int:
        return sum(line.kind == kind for hunk in self.hunks for line in hunk.lines)

    def text(self) -> str:
        """Return the hunks as a patch has them."""
        return "".join(f"{hunk.header}\n" + "".join(f"{line.text}\n" for line in hunk.lines) for hunk in self.hunks)

    def first(self, limit: int) -> FileDiff:
        """Return the diff with at most `limit` lines, cut at the end."""
        kept: list[Hunk] = []
        for hunk in self.hunks:
            if limit <= 0:
                break
            kept.append(Hunk(hunk.header, hunk.old, hunk.new, hunk.lines[:limit]))
            limit -= len(hunk.lines)
        return FileDiff(self.path, self.new_file, tuple(kept))


def file_diffs(patch: bytes, before: Mapping[str, bytes | None], after: Mapping[str, bytes]) -> tuple[FileDiff, ...]:
    """Return the diffs in a patch that `emit.patches.patch_of` made of `before` and `after`.

    Bytes that are not UTF-8 show as the replacement character.
    """
    paths = [path for path in sorted(after) if before.get(path) != after[path]]
    parts = _NEXT_FILE.split(patch)[1:]  # a line of a file has a sign in front: it never looks like this header
    return tuple(
        FileDiff(path, before.get(path) is None, _hunks(part)) for path, part in zip(paths, parts, strict=True)
    )


def _hunks(part: bytes) -> tuple[Hunk, ...]:
    found: list[Hunk] = []
    header: re.Match[bytes] | None = None
    lines: list[Line] = []
    for raw in part.split(b"\n")[:-1]:
        start = _HUNK.match(raw)
        if start:
            found += [_hunk(header, lines)] if header else []
            header, lines = start, []
        elif header:
            lines.append(Line(_KIND[raw[:1]], raw.decode("utf-8", "replace")))
    return (*found, _hunk(header, lines)) if header else ()


def _hunk(header: re.Match[bytes], lines: list[Line]) -> Hunk:
    old, old_count, new, new_count = header.groups()
    # An empty side is numbered by the line above it, and `0` of a file that was not there.
    first_old = int(old) + (old_count == b"0")
    first_new = int(new) + (new_count == b"0")
    return Hunk(header[0].decode(), first_old, first_new, tuple(lines))
