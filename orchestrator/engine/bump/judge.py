"""Judge a pipeline on another base: every edit of every stage gets a verdict, whatever fails before it.

The run itself is the engine's, so what applies is what `plan` would apply. A stage that fails contributes nothing.
One that is only kept from running by a stage that it needs is tried all the same, and what it would write counts for
the stages that need it, so that one failure does not hide the next.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.view import Sources
from orchestrator.code.scopes import FILE, Definition
from orchestrator.core.diagnostics import errors
from orchestrator.engine.attempt import attempt
from orchestrator.engine.bump.chance import by_chance
from orchestrator.engine.bump.expected import declared, untrue, with_fingerprints
from orchestrator.engine.bump.failing import Failing
from orchestrator.engine.bump.fates import APPLIES, BaseFate, Part, StageFate
from orchestrator.engine.bump.index import Index
from orchestrator.engine.bump.parts import each_alone, links_of, of_fault, parts_of
from orchestrator.engine.bump.reference import stage_results
from orchestrator.engine.bump.upstream import definition_diff
from orchestrator.engine.ground import Ground
from orchestrator.engine.images import definition_of, image, links
from orchestrator.engine.outcome import AlreadyApplied, Applied, Failed, Run, Skipped
from orchestrator.engine.releases import base_version, expired
from orchestrator.engine.run import events, fit_of
from orchestrator.engine.wheels import edited_files
from orchestrator.spec.releases import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.core.tree import Tree
    from orchestrator.engine.bump.reference import Reference
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.outcome import Link, StageResult
    from orchestrator.engine.plan import Plan, PlannedStage


@dataclasses.dataclass(frozen=True)
class Judged:
    """What becomes of the stages on a base, and the tree that they make of it."""

    fate: BaseFate
    tree: Tree


@dataclasses.dataclass(frozen=True)
class Base:
    """A base: its name and tree, and what the workspaces that make it could not write (file → who, and why)."""

    name: str
    tree: Tree
    lost: Mapping[str, str] = dataclasses.field(default_factory=dict)


def judge(plan: Plan, base: Base, lock: Lock | None, reference: Reference | None) -> Judged:
    """Return what becomes of `plan` on `base`. Nothing is raised for bad input.

    `lock` says which definitions are exact; those that it does not know are compared with `reference`.
    """
    return _Bump(plan, base, lock, reference).judged()


class _Bump:
    """The state between two stages: the trees of the run and of what would be, who wrote what, and what is off."""

    def __init__(self, plan: Plan, given: Base, lock: Lock | None, reference: Reference | None) -> None:
        base = given.tree
        self.plan = plan
        self.base = base
        self.name = given.name
        self.lost = given.lost
        self.lock = lock
        self.reference = reference
        self.sources = reference.sources.copy() if reference else Sources()
        self.index = Index()
        self.installed = base
        self.real = base
        self.work = base
        self.writers: dict[Definition, str] = {}
        self.targets = edited_files(plan.stages)
        self.fates: dict[str, StageFate] = {}
        self.down: dict[str, str] = {}
        """Stages whose work is not in the tree that would be, and what became of them."""

    def judged(self) -> Judged:
        chain = self.reference.chain if self.reference else None
        run = events(self.plan, self.base, self.lock, chain, self.sources)
        results = []
        for result in stage_results(self.plan, run):
            results.append(result)
            self.fates[result.id] = self.stage(result)
            self.take(result)
        whole = all(isinstance(r.outcome, Applied | AlreadyApplied) or r.id in self.switched_off() for r in results)
        findings = self.ending(next(run), results) if whole else self.unfinished(results)
        stages = tuple(self.finished(result) for result in results)
        untrue_ = [
            found
            for r, s in zip(results, stages, strict=True)
            for found in untrue(s, r.planned, self.version(r.planned))
        ]
        fate = BaseFate(self.name, self.version(), stages, (*findings, *untrue_))
        return Judged(fate, self.real)

    def version(self, planned: PlannedStage | None = None) -> str:
        """Return the version of the base as a stage sees it, or as the first stage does that works in a package."""
        versions = self.plan.facts.versions
        stages = [planned] if planned else [s for s in self.plan.stages if s.edits or s.deploys]
        return (base_version(stages[0], self.installed, versions) if stages else None) or ""

    def switched_off(self) -> set[str]:
        return {id_ for id_, found in self.fates.items() if found.fate in {Fate.OFF, Fate.FIXED}}

    def finished(self, result: StageResult) -> StageFate:
        found = declared(self.fates[result.id], result.planned, self.version(result.planned))
        return with_fingerprints(found, result.planned, self.name)

    # --- the end of a run ---

    def ending(self, run: StageResult | Run, results: Sequence[StageResult]) -> tuple[Diagnostic, ...]:
        """Judge what the end of a run that went well brought to light; return what belongs to no stage."""
        assert isinstance(run, Run)  # noqa: S101 - it comes last
        return self.to_stages(run.findings, results)

    def unfinished(self, results: Sequence[StageResult]) -> tuple[Diagnostic, ...]:
        """Judge what can be told although stages are missing: the house rules would speak of that alone."""
        return self.to_stages(expired(results, self.installed, self.plan.facts.versions), results)

    def to_stages(self, found: Iterable[Diagnostic], results: Sequence[StageResult]) -> tuple[Diagnostic, ...]:
        known = {result.id for result in results}
        left = []
        for fault in errors(found):
            if fault.stage not in known:
                left.append(fault)
                continue
            stage = self.fates[fault.stage]
            part = of_fault("the stage", fault, Fate.CHECK_FAILED)
            self.fates[fault.stage] = dataclasses.replace(stage, parts=(*stage.parts, part))
        return tuple(left)

    # --- stages ---

    def take(self, result: StageResult) -> None:
        self.real = self.real.with_roots(result.roots).with_files(result.after)
        self.installed = self.installed.with_roots(result.roots)
        self.writers.update((link.definition, result.id) for link in result.links)

    def stage(self, result: StageResult) -> StageFate:
        planned = result.planned
        match result.outcome:
            case Skipped(reason=reason, upstream=True):
                self.down[planned.id] = str(Fate.FIXED)
                return StageFate(planned.id, parts_of(planned, Fate.FIXED, reason), reason)
            case Skipped(reason=reason, when=when):
                return self.skipped(planned, reason, when=when)
            case AlreadyApplied():
                return self.present(planned)
            case Applied():
                return self.applied(result)
            case Failed(diagnostics=faults):
                parts = self.one_by_one(planned)[0]
                if all(part.fate in APPLIES for part in parts):
                    parts = (*parts, *(of_fault("the stage", fault) for fault in faults))
                self.down[planned.id] = "failed"
                return self.with_proposal(planned, parts)

    def skipped(self, planned: PlannedStage, reason: str, *, when: bool) -> StageFate:
        if not planned.stage.enabled:
            self.down[planned.id] = str(Fate.OFF)
            return StageFate(planned.id, parts_of(planned, Fate.OFF, reason), reason)
        if when:
            before = self.reference.results.get(planned.id) if self.reference else None
            lost = before is not None and before.in_effect
            fate = Fate.NOT_REACHED if lost else Fate.OFF
            self.down[planned.id] = str(fate)
            reason = f"{reason}; on its own base the condition holds" if lost else reason
            return StageFate(planned.id, parts_of(planned, fate, reason), reason)
        needs = [need for need in planned.stage.needs if self.fates[need].fate is not Fate.FIXED]
        off = next((need for need in needs if self.down.get(need) == Fate.OFF), None)
        if off is not None:
            self.down[planned.id] = str(Fate.OFF)
            return StageFate(planned.id, parts_of(planned, Fate.OFF, reason), reason)
        return self.blocked(planned, reason)

    def blocked(self, planned: PlannedStage, reason: str) -> StageFate:
        """Judge a stage that a stage which it needs keeps from running: as if that one were mended."""
        parts, ground = self.one_by_one(planned)
        whole = Part("the stage", 0, Fate.NOT_REACHED, reason, place=planned.place)
        if all(part.fate in APPLIES for part in parts):
            self.work, self.installed = ground.tree, ground.base
        else:
            self.down[planned.id] = str(Fate.NOT_REACHED)
        return dataclasses.replace(self.with_proposal(planned, (*parts, whole)), reason=reason)

    def present(self, planned: PlannedStage) -> StageFate:
        """Judge a stage that looks applied already."""
        ground = self.ground()
        if not any(by_chance(planned.id, edit, self.reference, ground) for edit in planned.edits):
            return StageFate(planned.id, parts_of(planned, Fate.PRESENT))
        parts = self.one_by_one(planned)[0]
        if any(part.fate not in APPLIES for part in parts):
            self.down[planned.id] = "failed"
        return self.with_proposal(planned, parts)

    def applied(self, result: StageResult) -> StageFate:
        planned = result.planned
        if any(self.work.get(path) != self.real.get(path) for path in result.after):
            self.work = self.one_by_one(planned)[1].tree
        else:
            self.work = self.work.with_roots(result.roots).with_files(result.after)
        base = self.installed.with_roots(result.roots)
        changed = [link for link in result.links if not self.exact(link, base)]
        parts = []
        for part in parts_of(planned, Fate.EXACT):
            links = links_of(part, planned, result, changed)
            parts.append(self.adapted(part, [link.definition for link in links], base))
        return StageFate(planned.id, tuple(parts))

    def adapted(self, part: Part, changed: Sequence[Definition], base: Tree) -> Part:
        if not changed:
            return part
        diffs = [self.diff(definition, definition, base) for definition in changed]
        names = ", ".join(str(definition) for definition in changed)
        told = any(diffs) or self.reference is not None
        detail = f"changed in the base: {names}" if told else f"neither locked nor compared with a base: {names}"
        return dataclasses.replace(
            part, fate=Fate.ADAPTED, detail=detail, definition=names, diff="".join(filter(None, diffs))
        )

    def diff(self, old: Definition, new: Definition, base: Tree) -> str:
        if self.reference is None:
            return ""
        return definition_diff((self.reference.base, old), (base, new), self.sources)

    def exact(self, link: Link, base: Tree) -> bool:
        """Tell whether a definition is one that the lock knows or, where it knows none, the one of the own base."""
        for lock in filter(None, (self.lock, self.reference.lock if self.reference else None)):
            fit = fit_of(link, lock, base, self.sources)
            if fit != "unlocked":
                return fit == "exact"
        return link.definition.name == FILE and link.before is None

    # --- one by one ---

    def ground(self) -> Ground:
        return Ground(self.work, self.installed, self.sources, None, self.writers, self.targets)

    def one_by_one(self, planned: PlannedStage) -> tuple[tuple[Part, ...], Ground]:
        """Judge each part of a stage on what those before it leave; return also the ground that all of them leave."""
        ground = self.ground()
        parts: list[Part] = []
        for part, alone in zip(parts_of(planned, Fate.EXACT), each_alone(planned), strict=False):
            if part.number and self.in_chain(planned, alone, ground):
                parts.append(dataclasses.replace(part, fate=Fate.PRESENT))
                continue
            tried = attempt(alone, ground)
            if tried.faults:
                parts.append(self.failing(planned, alone, ground).judged(part, tried.faults[0], parts))
                continue
            if tried.present and not tried.pending:
                chance = by_chance(planned.id, alone.edits[0], self.reference, ground) if alone.edits else None
                if chance is not None:
                    parts.append(self.failing(planned, alone, ground).judged(part, chance, parts))
                    continue
                parts.append(dataclasses.replace(part, fate=Fate.PRESENT))
                continue
            base = ground.base.with_roots(tried.roots)
            changed = [link.definition for link in links(planned.id, tried, ground) if not self.exact(link, base)]
            parts.append(self.adapted(part, changed, base))
            ground = ground.with_roots(tried.roots)
            ground = dataclasses.replace(ground, tree=ground.tree.with_files(tried.written))
        return tuple(parts), ground

    def in_chain(self, planned: PlannedStage, alone: PlannedStage, ground: Ground) -> bool:
        """Tell whether the definition already is what the stage makes of it on its own base."""
        if self.reference is None:
            return False
        definition = definition_of(alone.edits[0], ground)
        chain = self.reference.chain
        current = image(definition, self.base.get(definition.file), self.sources)
        for link in chain.of_stage(planned.id):
            if link.definition == definition:
                position = chain.position(link, current)
                return position is not None and position > chain.index(link)
        return False

    def with_proposal(self, planned: PlannedStage, parts: Sequence[Part]) -> StageFate:
        found = StageFate(planned.id, tuple(parts))
        if any(part.found for part in parts):
            return self.failing(planned, planned, self.ground()).with_whole(found)
        return found

    def failing(self, planned: PlannedStage, alone: PlannedStage, ground: Ground) -> Failing:
        return Failing(self.plan, planned, alone, self.reference, self.down, self.lost, ground, self.index)
