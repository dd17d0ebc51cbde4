"""Fold the stages over a tree. Pure: bytes in, verdicts and bytes out."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from typing import TYPE_CHECKING, Any

from orchestrator.checks.house import judge_house_rules
from orchestrator.checks.house.parses import vouched
from orchestrator.checks.run_config import RunConfigFits
from orchestrator.checks.verdict import Status
from orchestrator.checks.view import Sources, View
from orchestrator.code.scopes import FILE
from orchestrator.code.source import Source
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity, errors
from orchestrator.engine.attempt import attempt
from orchestrator.engine.ground import Ground
from orchestrator.engine.images import image, links
from orchestrator.engine.outcome import (
    AlreadyApplied,
    Applied,
    Failed,
    Fit,
    Judged,
    Link,
    Run,
    Skipped,
    StageResult,
    not_now,
    outcome_name,
)
from orchestrator.engine.plan import sections
from orchestrator.engine.releases import expired, fixed_upstream
from orchestrator.engine.rests import authors_after, rested_on, undeclared, would_have_written
from orchestrator.engine.templates import render_template
from orchestrator.engine.verdicts import Verdicts
from orchestrator.engine.wheels import brought_by, edited_files
from orchestrator.engine.write_sets import unordered_writers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from orchestrator.checks.base import Check
    from orchestrator.code.scopes import Definition
    from orchestrator.core.tree import Tree
    from orchestrator.engine.ground import Attempt
    from orchestrator.engine.lock import Chain, Lock
    from orchestrator.engine.outcome import CheckRole
    from orchestrator.engine.plan import Plan, PlannedStage
    from orchestrator.engine.rests import Authors


def run(
    plan: Plan, base: Tree, lock: Lock | None = None, chain: Chain | None = None, sources: Sources | None = None
) -> Run:
    """Return the finished run of `plan` on `base`. See `events`."""
    with no_collection():
        for event in events(plan, base, lock, chain, sources):
            if isinstance(event, Run):
                return event
    raise AssertionError("a run ends with its Run")


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Hold Python's cycle collector off: syntax trees are many small objects without cycles, and all stay in use.

    What the run made counts as old afterwards: freezing and unfreezing moves it there without looking at it, where
    the first allocation would else go over all of it. A program that has frozen objects itself keeps them so.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if was_on:
            gc.enable()


def events(
    plan: Plan, base: Tree, lock: Lock | None = None, chain: Chain | None = None, sources: Sources | None = None
) -> Iterator[StageResult | Run]:
    """Yield each stage's result as it is known, then the run.

    `lock` says which definitions are exact; `chain`, if given, says where each definition of a tree that is
    not the base stands, so that a patched tree is known as one. `sources` keeps the parsed files: for other runs that
    share them, or for a caller that looks at them as well. Nothing is raised for bad input.
    """
    fold = _Fold(plan, base, lock, chain, sources)
    for stage in plan.stages:
        result = fold.stage(stage)
        fold.take(result)
        yield result
    yield fold.finish()


class _Fold:
    """The state between two stages: tree, artefacts, who wrote what."""

    def __init__(
        self, plan: Plan, base: Tree, lock: Lock | None, chain: Chain | None, sources: Sources | None = None
    ) -> None:
        self.plan = plan
        self.base = base
        self.installed = base
        self.tree = base
        self.lock = lock
        self.chain = chain
        self.sources = Sources() if sources is None else sources
        self.artefacts: dict[str, bytes] = {}
        self.writers: dict[Definition, str] = {}
        self.authors: Authors = {}
        self.rests: dict[str, set[str]] = {}
        self.results: dict[str, StageResult] = {}
        self.verdicts = Verdicts()
        self.schemas: dict[str, Check] = {}
        """Artefact → the check that its schema implies: one object, so that its verdicts are found again."""
        for deploy in (deploy for stage in plan.stages for deploy in stage.deploys):
            if deploy.tree is not None:
                self.sources.keep(vouched(Source.parsed(deploy.to, deploy.content, deploy.tree)))
        self.targets = edited_files(plan.stages)

    # --- one stage ---

    def stage(self, planned: PlannedStage) -> StageResult:
        reason = self.switched_off(planned)
        if reason is not None:
            return StageResult(planned, Skipped(reason))
        evidence = self.fixed_upstream(planned)
        if evidence:
            reason = fixed_upstream(planned.stage, evidence)
            return StageResult(planned, Skipped(reason, upstream=True), judged=evidence)
        gates = tuple(self.judged("when", planned.stage.when or (), self.view()))
        closed = [pair for pair in zip(planned.stage.when or (), gates, strict=True) if not pair[1].verdict.holds]
        if closed:
            check, gate = closed[0]
            return StageResult(planned, not_now(check, gate.verdict), judged=gates)
        ground = Ground(self.tree, self.installed, self.sources, self.chain, self.writers, self.targets)
        tried = attempt(planned, ground)
        if tried.faults:
            others = [(s, self.results.get(s.id)) for s in self.plan.stages if s.id != planned.id]
            absent = [(s, r) for s, r in others if r is None or isinstance(r.outcome, Skipped)]
            return self.failed(
                planned, tried, [would_have_written(d, planned, absent, ground) for d in tried.faults], gates
            )
        try:
            artefacts = self.rendered(planned)
        except Rejected as error:
            return self.failed(planned, tried, [d.at(planned.place) for d in error.diagnostics], gates)
        if tried.already_applied:
            judged = tuple(self.judged("post", planned.stage.post, self.view()))
            return StageResult(
                planned, AlreadyApplied(), tuple(tried.sites), artefacts=artefacts, judged=(*gates, *judged)
            )
        return self.applied(planned, tried, ground, artefacts, gates)

    def switched_off(self, planned: PlannedStage) -> str | None:
        if not planned.stage.enabled:
            return "enabled: false"
        for need in planned.stage.needs:
            result = self.results[need]
            if not result.serves:
                return f"needs '{need}', which is {outcome_name(result.outcome)}"
        return None

    def fixed_upstream(self, planned: PlannedStage) -> tuple[Judged, ...]:
        """Return the evidence on the base that the stage is needless there, () where there is none."""
        upstream = planned.stage.upstream
        if upstream is None:
            return ()
        base = View(self.installed, self.installed, self.plan.facts, sources=self.sources)
        judged = tuple(self.judged("upstream", upstream.fixed_when, base))
        return judged if all(j.verdict.holds for j in judged) else ()

    def applied(
        self,
        planned: PlannedStage,
        tried: Attempt,
        ground: Ground,
        artefacts: dict[str, bytes],
        gates: tuple[Judged, ...],
    ) -> StageResult:
        before = self.view()
        ground = ground.with_roots(tried.roots)
        pre = tuple(self.judged("pre", planned.stage.pre, before))
        after = View(
            ground.tree.with_files(tried.written),
            ground.base,
            self.plan.facts,
            {**self.artefacts, **artefacts},
            self.sources,
        )
        post = tuple(self.roles(planned, before, after))
        judged = (*gates, *pre, *post, *self.judged("post", self.implied(planned), after))
        faults = [_check_fault("E520", "pre-check", planned, j) for j in pre if not j.verdict.holds]
        failed = [j for j in judged if j.role not in {"when", "pre"} and not j.verdict.holds]
        faults += [d for j in failed for d in _faults("E521", "post-check", planned, j)]
        if faults:
            return self.failed(planned, tried, faults, judged)
        added = links(planned.id, tried, ground)
        return StageResult(
            planned,
            Applied(self.fit(added)),
            tuple(tried.sites),
            {path: ground.tree.get(path) for path in tried.written},
            tried.written,
            artefacts,
            judged,
            added,
            tuple(_warnings(planned, judged)),
            tried.roots,
        )

    def failed(
        self, planned: PlannedStage, tried: Attempt, faults: Sequence[Diagnostic], judged: tuple[Judged, ...]
    ) -> StageResult:
        outcome = Failed(tuple(d.in_stage(planned.id) for d in faults))
        return StageResult(planned, outcome, tuple(tried.sites), judged=judged)

    def fit(self, added: Sequence[Link]) -> Fit:
        """Tell how the definitions that a stage met compare with the lock's."""
        lock = self.lock
        if lock is None:
            return "unlocked"
        fits = [fit_of(link, lock, self.installed, self.sources) for link in added if link.definition.name != FILE]
        if "unlocked" in fits:
            return "unlocked"
        return "adapted" if "adapted" in fits else "exact"

    def rendered(self, planned: PlannedStage) -> dict[str, bytes]:
        made = {}
        for render in planned.renders:
            text = render_template(render.template, render.code, self.context(planned), self.plan.read)
            made[render.to] = text.encode()
        return made

    def context(self, planned: PlannedStage) -> dict[str, Any]:
        """Return what a template may use: the values by section, and what stages in effect provide."""
        flags: dict[str, Any] = {}
        environment: dict[str, str] = {}
        for id_, provides in [
            *((i, r.planned.stage.provides) for i, r in self.results.items() if r.in_effect),
            (planned.id, planned.stage.provides),
        ]:
            _merge("flag", flags, provides.flags, id_)
            _merge("environment variable", environment, provides.environment, id_)
        return {
            **sections(self.plan.values),
            "target": self.plan.target.name,
            "provided": {"flags": flags, "environment": environment},
        }

    # --- checks ---

    def view(self) -> View:
        return View(self.tree, self.installed, self.plan.facts, self.artefacts, self.sources)

    def judged(self, role: CheckRole, checks: Iterable[Check], view: View) -> Iterator[Judged]:
        for check in checks:
            yield Judged(role, check.check, check.subject(), check.because or "", self.verdicts.judge(check, view))

    def roles(self, planned: PlannedStage, before: View, after: View) -> Iterator[Judged]:
        """Judge the post-checks before and after the stage: an effect turned true, an invariant stayed true."""
        for check in planned.stage.post:
            verdict = self.verdicts.judge(check, after)
            role: CheckRole = "post"
            if verdict.holds:
                role = "invariant" if self.verdicts.judge(check, before).holds else "effect"
            yield Judged(role, check.check, check.subject(), check.because or "", verdict)

    def implied(self, planned: PlannedStage) -> Iterator[Check]:
        """Yield what an artefact's schema says, without YAML."""
        for render in planned.renders:
            if render.schema == "run-config":
                yield self.schemas.setdefault(render.to, RunConfigFits(check="run_config", file=render.to))

    # --- the end ---

    def take(self, result: StageResult) -> None:
        self.rests[result.id] = rested_on(result.planned, result, self.authors, self.installed, self.sources)
        self.authors = authors_after(self.authors, result, self.sources)
        self.results[result.id] = result
        for path in result.after:  # a version between the base and the end: its syntax tree is a hundred times its size
            between = self.tree.get(path)
            if between is not None and between != self.installed.get(path):
                self.sources.forget(path, between)
        self.tree = self.tree.with_roots(result.roots).with_files(result.after)
        self.installed = self.installed.with_roots(result.roots)
        self.artefacts.update(result.artefacts)
        self.writers.update((link.definition, result.id) for link in result.links)

    def finish(self) -> Run:
        findings: list[Diagnostic] = []
        final: dict[str, tuple[Judged, ...]] = {}
        for id_, result in self.results.items():
            if result.in_effect:
                final[id_] = tuple(self.judged("final", self.lasting(result.planned), self.view()))
                findings.extend(self.lost(result, j) for j in final[id_] if not j.verdict.holds)
        findings.extend(expired(self.results.values(), self.installed, self.plan.facts.versions))
        touched = frozenset(self.tree.changed_since(self.installed))
        findings.extend(self.house_rules(touched))
        results = list(self.results.values())
        resting = [(other, id_) for id_, others in self.rests.items() for other in others]
        edges = [
            *undeclared(self.rests, results, self.plan.ancestors),
            *unordered_writers(results, self.plan.ancestors, resting),
        ]
        findings.extend(_waived(found, [self.results[found.stage]]) for found in edges)
        return Run(
            self.plan,
            self.base,
            self.installed,
            self.tree,
            tuple(self.results.values()),
            dict(self.artefacts),
            final,
            tuple(findings),
        )

    def lasting(self, planned: PlannedStage) -> Iterator[Check]:
        """Yield the checks that must hold to the end: post-checks that no stage in effect ends, and implied ones."""
        for check in planned.stage.post:
            ends = self.results.get(check.until) if check.until else None
            if ends is None or not ends.in_effect:
                yield check
        yield from self.implied(planned)

    def lost(self, result: StageResult, judged: Judged) -> Diagnostic:
        files = {path for path in (*result.after, *self.tree) if path in judged.subject}
        writers = [i for i, r in self.results.items() if i != result.id and files & set(r.after)]
        later = [i for i in writers if list(self.results).index(i) > list(self.results).index(result.id)]
        by = f"; stage '{later[-1]}' wrote the file after it" if later else ""
        fault = _check_fault("E522", "post-check", result.planned, judged)
        message = f"{fault.message} at the end of the run{by}"
        help_ = "Order the stages, or say `until: STAGE` if it need not hold to the end."
        return dataclasses.replace(fault, message=message, help=help_)

    def house_rules(self, touched: frozenset[str]) -> Iterator[Diagnostic]:
        deployed = {d.to: d.content for r in self.results.values() if r.in_effect for d in r.planned.deploys}
        asked = frozenset(r.planned.stage.live for r in self.results.values() if r.in_effect and r.planned.stage.live)
        brought = {id_: brought_by(r.planned) for id_, r in self.results.items() if r.in_effect}
        by_wheels = frozenset().union(*brought.values())
        judged = judge_house_rules(self.view(), touched, deployed, asked, by_wheels)
        for found in map(self.deployed_elsewhere, judged):
            file = found.place.file if found.place else ""
            author = self.author(found.place)
            stages = [r for id_, r in self.results.items() if file in r.after or file in brought.get(id_, ())]
            yield _waived(found, sorted(stages, key=lambda result: result.id == author))

    def author(self, place: Place | None) -> str:
        """Return the stage that wrote a line of the final tree, empty where none did."""
        lines = self.authors.get(place.file, ()) if place and place.line else ()
        return lines[place.line - 1] if place and 1 <= place.line <= len(lines) else ""

    def deployed_elsewhere(self, found: Diagnostic) -> Diagnostic:
        """Note of a module that is missing which stage would deploy it, were it not off."""
        for result in self.results.values() if found.code in {"E502", "E514"} else ():
            if not isinstance(result.outcome, Skipped):
                continue
            for deploy in result.planned.deploys:
                names = {deploy.to, f"`{deploy.to.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}`"}
                if any(name in found.message for name in names):
                    note = f"stage '{result.id}', which is off ({result.outcome.reason}), deploys it"
                    return dataclasses.replace(found, notes=(*found.notes, note))
        return found


def fit_of(link: Link, lock: Lock, base: Tree, sources: Sources) -> Fit:
    """Tell how a definition that a stage met compares with the lock's; `base` is the tree with its wheels."""
    known = lock.base_image(link.definition)
    if not known:
        return "unlocked"
    at_base = image(link.definition, base.get(link.definition.file), sources)
    in_chain = any(
        link.before in chain.images(link.definition) and link.before is not None for chain in lock.bases.values()
    )
    return "exact" if at_base in known or in_chain else "adapted"


def _waived(found: Diagnostic, stages: Sequence[StageResult]) -> Diagnostic:
    """Return a house rule's finding in the last of its stages: as a note, where one of them waives it."""
    waiver = next(
        (
            waiver
            for result in stages
            for waiver in result.planned.stage.waive
            if waiver.rule == found.code and (waiver.about is None or waiver.about in found.message)
        ),
        None,
    )
    by = stages[-1].id if stages else ""
    if waiver is None:
        return found.in_stage(by)
    notes = (*found.notes, f"waived: {waiver.because}")
    return dataclasses.replace(found, severity=Severity.NOTE, notes=notes, stage=by)


def _merge(what: str, known: dict[str, Any], more: Mapping[str, Any], stage: str) -> None:
    for key, value in more.items():
        if key in known and known[key] != value:
            message = f"stage '{stage}' provides {what} {key}={value}, another stage provides {key}={known[key]}"
            raise Rejected(Diagnostic("E523", message, help="Let one stage provide it.", stage=stage))
        known[key] = value


def _check_fault(code: str, what: str, planned: PlannedStage, judged: Judged) -> Diagnostic:
    message = f"{what} {judged.check} ({judged.subject}) does not hold: {judged.verdict.evidence}"
    notes = (f"because: {judged.because}",) if judged.because else ()
    if judged.verdict.place:
        notes = (*notes, f"at {judged.verdict.place}")
    help_ = "The code is not what the stage expects." if code == "E520" else "The stage does not do what it promises."
    return Diagnostic(code, message, planned.place, help_, notes, planned.id)


def _faults(code: str, what: str, planned: PlannedStage, judged: Judged) -> tuple[Diagnostic, ...]:
    """Return what a check that fails has to say: its own findings, each with its code, where it has some."""
    return errors(judged.verdict.findings) or (_check_fault(code, what, planned, judged),)


def _warnings(planned: PlannedStage, judged: Sequence[Judged]) -> Iterator[Diagnostic]:
    for j in judged:
        if j.verdict.status is Status.WARNS and j.verdict.findings:
            yield from (found.in_stage(planned.id) for found in j.verdict.findings)
        elif j.verdict.status is Status.WARNS:
            message = f"{j.check} ({j.subject}): {j.verdict.evidence}"
            place: Place | None = j.verdict.place or planned.place
            yield Diagnostic("W521", message, place, j.because, stage=planned.id, severity=Severity.WARNING)
    if planned.stage.kind == "codemod" and not any(j.role == "effect" for j in judged):
        message = "no post-check turned true by this stage: nothing would notice if its edits were lost"
        help_ = "Add a check that fails without the stage, such as match_count or assignment_equals."
        yield Diagnostic("W520", message, planned.place, help_, stage=planned.id, severity=Severity.WARNING)
