"""Unified diffs that `git apply` takes to the same bytes: made of lines of bytes, whatever their encoding."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_END = b"\\ No newline at end of file\n"


def patch_of(before: Mapping[str, bytes | None], after: Mapping[str, bytes]) -> bytes:
    """Return the diff of all files in `after`, sorted by path; empty where nothing differs."""
    return b"".join(_file_diff(path, before.get(path), after[path]) for path in sorted(after))


def _file_diff(path: str, before: bytes | None, after: bytes) -> bytes:
    if before == after:
        return b""
    old_name, new_name = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    parts = [b"diff --git %s %s\n" % (old_name, new_name)]
    if before is None:
        parts.append(b"new file mode 100644\n")
    # latin-1 maps every byte to one character and back: difflib compares text, we compare bytes.
    old = [line.decode("latin-1") for line in _lines(before or b"")]
    new = [line.decode("latin-1") for line in _lines(after)]
    names: list[bytes] = []
    hunks: list[bytes] = []
    for i, line in enumerate(difflib.unified_diff(old, new, "a", "b")):
        (names if i < _NAMES else hunks).append(line.encode("latin-1"))
    if names:
        parts.append(b"--- /dev/null\n" if before is None else b"--- %s\n" % old_name)
        parts.append(b"+++ %s\n" % new_name)
    parts += [line if line.endswith(b"\n") else line + b"\n" + _NO_END for line in hunks]
    return b"".join(parts)


def _quoted(name: str) -> bytes:
    """Return a name as git writes it: in quotes where it has quotes."""
    if '"' not in name:
        return name.encode()
    return b'"%s"' % name.replace("\\", "\\\\").replace('"', '\\"').encode()


_NAMES = 2  # difflib's own lines with the file names, which we write ourselves


def _lines(content: bytes) -> list[bytes]:
    """Return the lines with their ends, split at line feeds only, as git does."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def stat(before: Mapping[str, bytes | None], after: Mapping[str, bytes]) -> list[tuple[str, int, int]]:
    """Return (path, lines added, lines removed) of every file that differs."""
    rows = []
    for path in sorted(after):
        diff = _file_diff(path, before.get(path), after[path])
        body = diff.split(b"@@", 1)[-1].split(b"\n")[1:]
        added = sum(1 for line in body if line.startswith(b"+"))
        removed = sum(1 for line in body if line.startswith(b"-"))
        if diff:
            rows.append((path, added, removed))
    return rows
