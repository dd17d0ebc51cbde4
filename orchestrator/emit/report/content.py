"""What the report says, as plain frozen data: read by the page and by the Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from orchestrator.checks.verdict import Status
    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.emit.report.diffs import FileDiff
    from orchestrator.emit.report.memory import MemoryTable
    from orchestrator.emit.report.running import RunningServer
    from orchestrator.engine.model import Waiver

OutcomeKind = Literal["exact", "adapted", "unlocked", "already", "skipped", "failed"]
CONDITIONS = frozenset({"upstream", "when"})
"""The role of a check that switches a stage: that it does not hold is no fault."""


@dataclass(frozen=True)
class Moment:
    """How a check came out at one moment; empty where it was not judged."""

    status: str = ""
    evidence: str = ""
    place: str = ""


@dataclass(frozen=True)
class CheckRow:
    """One check of a stage: before it, after it, at the end of the run."""

    role: str
    check: str
    subject: str
    because: str
    before: Moment
    after: Moment
    end: Moment

    @property
    def moments(self) -> tuple[Moment, Moment, Moment]:
        """The three moments, in order."""
        return self.before, self.after, self.end

    @property
    def last(self) -> Moment:
        """The last moment at which evidence was taken."""
        return next((m for m in reversed(self.moments) if m.evidence), Moment())


@dataclass(frozen=True)
class EditRow:
    """One edit: what it does where, why, and the sites that it found."""

    number: int
    op: str
    file: str
    within: str
    because: str
    sites: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A stage."""

    id: str
    number: int
    kind: str
    summary: str
    outcome: str
    fit: OutcomeKind
    reason: str
    needs: tuple[str, ...]
    after: tuple[str, ...]
    one_of: str
    claim: str
    evidence: str
    edits: tuple[EditRow, ...]
    deploys: tuple[tuple[str, str, str], ...]
    """(file of the workspace, package path, why it may replace what is there)"""
    wheels: tuple[tuple[str, str, str, str], ...]
    """(distribution, version, version it replaces, sha256)"""
    artefacts: tuple[str, ...]
    provides: tuple[tuple[str, str], ...]
    checks: tuple[CheckRow, ...]
    findings: tuple[Diagnostic, ...]
    waivers: tuple[Waiver, ...]
    diffs: tuple[FileDiff, ...]
    patch: str
    digest: str


@dataclass(frozen=True)
class TileRow:
    """A tile that a check derived from the code: by which stage, how it came out, the arithmetic."""

    stage: str
    subject: str
    because: str
    moment: Moment


@dataclass(frozen=True)
class FigureRow:
    """A figure of the target with what is known about it."""

    name: str
    value: str
    status: str
    source: str
    note: str


@dataclass(frozen=True)
class Report:
    """Everything that the report shows. It has no clock, no host and no user."""

    pipeline: str
    target: str
    target_summary: str
    image: str
    python: str
    base: str
    digests: tuple[tuple[str, str], ...]
    params: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    findings: tuple[Diagnostic, ...]
    server: RunningServer | None
    memory: tuple[MemoryTable, ...]
    tiles: tuple[TileRow, ...]
    figures: tuple[FigureRow, ...]
    package_files: tuple[tuple[str, str, str], ...]
    """(package path, digest before, digest after); before is empty for a new file"""
    build_files: tuple[tuple[str, int, str], ...]
    """(path in build/, bytes, digest)"""
    sources: tuple[tuple[str, str], ...]
    records: tuple[dict[str, Any], ...] = field(repr=False)

    @property
    def unproven(self) -> tuple[Section, ...]:
        """The stages whose claim has no evidence."""
        return tuple(s for s in self.sections if s.claim and not s.evidence)

    @property
    def proven(self) -> tuple[Section, ...]:
        """The stages whose claim has evidence."""
        return tuple(s for s in self.sections if s.claim and s.evidence)

    def checks(self, status: Status) -> int:
        """Return how many checks came out this way the last time they were judged, conditions aside."""
        rows = [row for section in self.sections for row in section.checks if row.role not in CONDITIONS]
        return sum(row.last.status == status for row in rows)
