"""The forms that people write today: text anchors by `str.replace`, and a unified diff by `git apply` and `patch`.

Running the two programs is what is measured here; the product never does.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.drifting.forms import Refused, Result, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.drifting.sample import Drawn

LONGEST_S = 60
CONTEXT = 3


@dataclass(frozen=True)
class Anchor:
    """Some lines of the file, and what stands in their place afterwards."""

    old: bytes
    new: bytes


def anchor(drawn: Drawn, lines: int) -> Anchor:
    """Return the anchor of a change: the lines that differ, and their neighbours until there are `lines` of them."""
    old, new = (raw.splitlines(keepends=True) for raw in (drawn.raw, drawn.after))
    low = _common(old, new)
    tail = min(_common(old[::-1], new[::-1]), len(old) - low, len(new) - low)
    high = len(old) - tail
    if low == high and not drawn.change.before:
        low -= 1  # an insertion hangs on the line that it follows,
    elif low == high:
        high += 1  # or precedes
    while high - low < lines and (low or high < len(old)):
        below = (high - low) % 2 and high < len(old)
        low, high = (low, high + 1) if below or not low else (low - 1, high)
    return Anchor(b"".join(old[low:high]), b"".join(new[low : high + len(new) - len(old)]))


def _common(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def checked(lines: int) -> Callable[[Drawn], Written]:
    """Return the form that looks first: refused unless the anchor stands there exactly once."""

    def written(drawn: Drawn) -> Written:
        found = anchor(drawn, lines)

        def apply(raw: bytes) -> Result:
            return raw.replace(found.old, found.new) if raw.count(found.old) == 1 else Refused("anchor")

        return apply

    return written


def unchecked(lines: int) -> Callable[[Drawn], Written]:
    """Return the form that most scripts have: `text.replace(old, new)`, every one of them, without a look."""

    def written(drawn: Drawn) -> Written:
        found = anchor(drawn, lines)
        return lambda raw: raw.replace(found.old, found.new)

    return written


def diffed(*argv: str) -> Callable[[Drawn], Written]:
    """Return the form of a unified diff that a program applies, which reads it on stdin."""

    def written(drawn: Drawn) -> Written:
        old, new = (raw.decode().splitlines(keepends=True) for raw in (drawn.raw, drawn.after))
        text = "".join(difflib.unified_diff(old, new, "a/module.py", "b/module.py", n=CONTEXT)).encode()

        def apply(raw: bytes) -> Result:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "module.py"
                file.write_bytes(raw)
                done = subprocess.run(  # noqa: S603 - one of two programs, named in `FORMS`
                    argv,
                    cwd=folder,
                    input=text,
                    env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent), "LC_ALL": "C"},
                    capture_output=True,
                    timeout=LONGEST_S,
                    check=False,
                )
                return file.read_bytes() if done.returncode == 0 else Refused("hunk")

        return apply

    return written
