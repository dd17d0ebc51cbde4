"""The only shape an error may have: a code, a place, what was found, what to do.

Errors of one step are collected and travel together: pure functions return them or add them to a
list; where a step cannot go on, it raises one `Rejected` with all of them.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """What the process says to the shell. One sentence each; the table in the docs is made from these."""

    OK = 0, "Everything asked for was done."
    NO = 1, "The answer to a yes-or-no question is no."
    USAGE = 2, "The command line is wrong, or what it names cannot be read or written."
    INVALID = 3, "The pipeline is invalid: known without looking at any source tree."
    NOT_APPLIED = 4, "An edit did not apply; for verify: not, or only partly, applied."
    CHECK_FAILED = 5, "A check or a house rule failed."
    MISMATCH = 6, "Audit, lock or a digest does not match; for verify: log and tree disagree."
    BUG = 70, "A fault of this program; the report says what to send us."
    INTERRUPTED = 130, "Interrupted from the keyboard."

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> Self:
        """Make a member that carries its sentence."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


class Severity(StrEnum):
    """How much a diagnostic weighs: an error stops the run, a warning is shown, a note explains."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, order=True)
class Place:
    """Where something stands. Lines and columns count from 1; 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0
    length: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `notes` are further lines, such as the nearest code; `help` says what to do."""

    code: str
    message: str
    place: Place | None = None
    help: str = ""
    notes: tuple[str, ...] = ()
    stage: str = ""
    severity: Severity = Severity.ERROR

    def in_stage(self, stage: str) -> Diagnostic:
        """Return this diagnostic with the stage it belongs to, unless it names one already."""
        return self if self.stage else dataclasses.replace(self, stage=stage)

    def at(self, place: Place | None) -> Diagnostic:
        """Return this diagnostic at `place`, unless it has a place already."""
        return self if self.place or place is None else dataclasses.replace(self, place=place)

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON output and audit records; empty fields are left out."""
        place = dataclasses.asdict(self.place) if self.place else None
        fields = {
            "code": self.code,
            "severity": str(self.severity),
            "message": self.message,
            "place": place,
            "stage": self.stage,
            "notes": list(self.notes),
            "help": self.help,
        }
        return {key: value for key, value in fields.items() if value}


class Rejected(Exception):  # noqa: N818 - it is a verdict about the input, not an error of ours
    """A step could not go on; carries every diagnostic that the step found."""

    def __init__(self, diagnostics: Iterable[Diagnostic] | Diagnostic) -> None:
        found = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in found))
        self.diagnostics: tuple[Diagnostic, ...] = found


def errors(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return those that stop a run."""
    return tuple(d for d in diagnostics if d.severity is Severity.ERROR)


_CUTOFF = 0.6
"""How like a word another has to be (`difflib`'s ratio and default)."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the nearest known word, else the list of all, else an empty string."""
    candidates = frozenset(known)
    near = _nearest(word, candidates)
    if near is not None:
        return f"did you mean '{near}'?"
    return f"known: {', '.join(sorted(candidates))}" if candidates else ""


@functools.lru_cache(maxsize=64)
def _nearest(word: str, candidates: frozenset[str]) -> str | None:
    """Return what `difflib.get_close_matches` puts first; the exact ratio is asked only while it can still win.

    A package has thousands of paths, most of them half alike.
    """
    matcher = difflib.SequenceMatcher(b=word)
    bounds: list[tuple[float, str]] = []
    for candidate in candidates:
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() >= _CUTOFF and (bound := matcher.quick_ratio()) >= _CUTOFF:
            bounds.append((bound, candidate))
    best: tuple[float, str] | None = None
    for bound, candidate in sorted(bounds, reverse=True):
        if best is not None and bound < best[0]:
            break
        matcher.set_seq1(candidate)
        here = (matcher.ratio(), candidate)
        if here[0] >= _CUTOFF and (best is None or here > best):
            best = here
    return None if best is None else best[1]
