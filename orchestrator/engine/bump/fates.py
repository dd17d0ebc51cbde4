"""The verdicts of a bump: frozen, without anything of the run that they came from, so that they travel."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import ExitCode, errors
from orchestrator.spec.releases import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.core.diagnostics import Diagnostic, Place

FINE = frozenset({Fate.EXACT, Fate.OFF})
APPLIES = frozenset({Fate.EXACT, Fate.ADAPTED, Fate.PRESENT})
WORST = (
    *(Fate.GONE, Fate.MOVED, Fate.AMBIGUOUS, Fate.CONFLICT, Fate.CHECK_FAILED, Fate.NOT_REACHED),
    *(Fate.ADAPTED, Fate.PRESENT, Fate.FIXED, Fate.EXACT, Fate.OFF),
)
"""The verdicts, the one that tells most first: it stands for the stage."""


@dataclass(frozen=True)
class Part:
    """An edit, a deployed file or a wheel of a stage, or (number 0) the stage as a whole: what becomes of it."""

    name: str
    number: int
    fate: Fate
    detail: str = ""
    code: str = ""
    notes: tuple[str, ...] = ()
    help: str = ""
    place: Place | None = None
    definition: str = ""
    found: str = ""
    """Where the code is now, for one that has moved."""
    near: tuple[str, ...] = ()
    diff: str = ""
    """What changed in the base: the diff of the definition from the base that the pipeline was made for."""
    yaml: str = ""
    """What to write instead; it was run in memory and applies."""
    proven: str = ""
    """How far that was tried."""
    declared: str = ""
    """Why this is right, where `expect:` or `upstream:` of the stage says so."""
    fingerprint: str = ""

    @property
    def settled(self) -> bool:
        """Whether nobody need look: exact, off, or declared."""
        return self.fate in FINE or bool(self.declared)


@dataclass(frozen=True)
class StageFate:
    """What becomes of a stage: the worst of its parts."""

    stage: str
    parts: tuple[Part, ...]
    reason: str = ""
    yaml: str = ""
    """All that would have to be written instead, where the whole stage applies with it and its checks hold."""

    @property
    def fate(self) -> Fate:
        """The verdict that stands for the stage."""
        return min((part.fate for part in self.parts), key=WORST.index, default=Fate.EXACT)

    @property
    def settled(self) -> bool:
        """Whether nobody need look at any of its parts."""
        return all(part.settled for part in self.parts)


@dataclass(frozen=True)
class BaseFate:
    """What becomes of the stages on one base; no stages where the base could not be had."""

    name: str
    version: str = ""
    stages: tuple[StageFate, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    """What is to be said of the base, or of the run as a whole."""
    missing: tuple[Diagnostic, ...] = ()
    """Why there is no source of this base."""
    seconds: float = field(default=0.0, compare=False)

    @property
    def settled(self) -> bool:
        """Whether everything is exact or declared."""
        return not self.missing and not errors(self.findings) and all(stage.settled for stage in self.stages)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of JSON output: one for the base, one for each part."""
        base = {"base": self.name, "version": self.version}
        head = {"event": "bump-base", **base, "settled": self.settled, "source": not self.missing}
        head["diagnostics"] = [d.record() for d in (*self.missing, *self.findings)]
        return [head, *(record | base for stage in self.stages for record in _records(stage))]


def _records(stage: StageFate) -> list[dict[str, Any]]:
    whole = {"event": "bump-stage", "stage": stage.stage, "verdict": str(stage.fate), "settled": stage.settled}
    whole |= {"reason": stage.reason, "yaml": stage.yaml}
    parts = []
    for part in stage.parts:
        record = asdict(part)
        record["part"], record["verdict"] = record.pop("name"), str(record.pop("fate"))
        parts.append({"event": "bump", "stage": stage.stage, "settled": part.settled, **record})
    return [whole, *parts]


def exit_code(bases: Iterable[BaseFate]) -> ExitCode:
    """Return what the verdicts say to the shell: the edits first, then the checks, then the bases themselves."""
    found = list(bases)
    open_ = [part for base in found for stage in base.stages for part in stage.parts if not part.settled]
    if any(part.fate is not Fate.CHECK_FAILED for part in open_):
        return ExitCode.NOT_APPLIED
    if open_ or any(errors(base.findings) for base in found):
        return ExitCode.CHECK_FAILED
    codes = {d.code for base in found for d in base.missing}
    if "E302" in codes:
        return ExitCode.MISMATCH
    return ExitCode.INVALID if any(base.missing for base in found) else ExitCode.OK
