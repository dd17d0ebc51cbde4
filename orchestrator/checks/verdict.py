"""The judgement of one check on one tree, with what it was seen by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Diagnostic, Place


class Status(StrEnum):
    """How a check came out."""

    HOLDS = "holds"
    WARNS = "warns"
    FAILS = "fails"


@dataclass(frozen=True)
class Verdict:
    """Status and evidence: what was found, in words that stand on their own."""

    status: Status
    evidence: str
    place: Place | None = None
    findings: tuple[Diagnostic, ...] = ()
    """What was found in parts, where a check has several things to say, each with its code and place."""

    @property
    def holds(self) -> bool:
        """Whether the run may go on."""
        return self.status is not Status.FAILS


def holds(evidence: str, place: Place | None = None) -> Verdict:
    """Return the verdict that the check holds."""
    return Verdict(Status.HOLDS, evidence, place)


def warns(evidence: str, place: Place | None = None) -> Verdict:
    """Return the verdict that the check holds, with something to know."""
    return Verdict(Status.WARNS, evidence, place)


def fails(evidence: str, place: Place | None = None) -> Verdict:
    """Return the verdict that the check does not hold."""
    return Verdict(Status.FAILS, evidence, place)


def when(condition: bool, evidence: str, place: Place | None = None) -> Verdict:  # noqa: FBT001 - reads as a sentence
    """Return `holds` or `fails` by a condition."""
    return holds(evidence, place) if condition else fails(evidence, place)
