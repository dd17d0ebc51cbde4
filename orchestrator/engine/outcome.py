"""What a run yields: one result per stage, then the end. Frozen; matched by type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.core.diagnostics import Diagnostic, errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.checks.base import Check
    from orchestrator.checks.verdict import Verdict
    from orchestrator.code.scopes import Definition
    from orchestrator.code.sites import Site
    from orchestrator.core.tree import Tree
    from orchestrator.engine.plan import Plan, PlannedStage

Fit = Literal["exact", "adapted", "unlocked"]


@dataclass(frozen=True)
class Applied:
    """The stage was applied. *exact*: to the definitions in the lock; *adapted*: they have changed since."""

    fit: Fit


@dataclass(frozen=True)
class AlreadyApplied:
    """The tree already is what the stage makes of it."""


@dataclass(frozen=True)
class Skipped:
    """The stage did not run, and why.

    `when` says that a check of its `when:` is the reason; `upstream` that its work is in the base already, as a need of
    other stages too.
    """

    reason: str
    when: bool = False
    upstream: bool = False


@dataclass(frozen=True)
class Failed:
    """The stage could not be applied; nothing of it is in the tree."""

    diagnostics: tuple[Diagnostic, ...]


Outcome = Applied | AlreadyApplied | Skipped | Failed


def outcome_name(outcome: Outcome) -> str:
    """Return the outcome in one word or two, as reports show it."""
    match outcome:
        case Applied(fit=fit):
            return f"applied ({fit})"
        case AlreadyApplied():
            return "already applied"
        case Skipped(upstream=True):
            return "fixed upstream"
        case Skipped():
            return "skipped"
        case Failed():
            return "failed"


CheckRole = Literal["upstream", "when", "pre", "invariant", "effect", "post", "final"]


@dataclass(frozen=True)
class Judged:
    """A check with its verdict. *effect*: false before the stage, true after; *invariant*: true both times."""

    role: CheckRole
    check: str
    subject: str
    because: str
    verdict: Verdict


def not_now(check: Check, verdict: Verdict) -> Skipped:
    """Return the outcome of a stage whose `when:` has a check that does not hold: its own reason comes first."""
    found = f"when: {check.check} {check.subject()}".rstrip() + f": {verdict.evidence}"
    return Skipped(f"{check.because} ({found})" if check.because else found, when=True)


@dataclass(frozen=True)
class Link:
    """One step of a definition's chain: its image before and after a stage, as digests; None: not there."""

    definition: Definition
    stage: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class StageResult:
    """What one stage did. `before` and `after` hold only the files that it touched."""

    planned: PlannedStage
    outcome: Outcome
    sites: tuple[tuple[int, Site], ...] = ()
    """(number of the edit, site) pairs."""
    before: Mapping[str, bytes | None] = field(default_factory=dict)
    after: Mapping[str, bytes] = field(default_factory=dict)
    artefacts: Mapping[str, bytes] = field(default_factory=dict)
    judged: tuple[Judged, ...] = ()
    links: tuple[Link, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    roots: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Package roots that the stage's wheels filled, with all their files."""

    @property
    def id(self) -> str:
        """The stage's id."""
        return self.planned.id

    @property
    def in_effect(self) -> bool:
        """Whether the stage's work is in the tree after the run."""
        return isinstance(self.outcome, Applied | AlreadyApplied)

    @property
    def serves(self) -> bool:
        """Whether stages that need this one may run: its work is in the tree, by the stage or by upstream."""
        return self.in_effect or (isinstance(self.outcome, Skipped) and self.outcome.upstream)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything the stage has to report: faults, then warnings."""
        faults = self.outcome.diagnostics if isinstance(self.outcome, Failed) else ()
        return (*faults, *self.warnings)


@dataclass(frozen=True)
class Run:
    """A finished run: every stage's result, the trees, the artefacts, and what the end brought to light."""

    plan: Plan
    base: Tree
    installed: Tree
    """The base with the wheels of all stages in place: what the installer meets, and what edits are counted from."""
    tree: Tree
    results: tuple[StageResult, ...]
    artefacts: Mapping[str, bytes]
    final: Mapping[str, tuple[Judged, ...]]
    """Stage → its post-checks judged again on the final tree."""
    findings: tuple[Diagnostic, ...]
    """House rules and lost effects."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics of the run, the plan's warnings first."""
        found = list(self.plan.warnings)
        for result in self.results:
            found.extend(result.diagnostics)
        return (*found, *self.findings)

    @property
    def failed(self) -> bool:
        """Whether anything stands against writing the result."""
        return bool(errors(self.diagnostics))

    def facts(self) -> dict[str, Any]:
        """Return the run's own figures: stages by outcome, files changed."""
        counted: dict[str, int] = {}
        for result in self.results:
            name = outcome_name(result.outcome)
            counted[name] = counted.get(name, 0) + 1
        return {"stages": counted, "files": len(self.tree.changed_since(self.installed))}
