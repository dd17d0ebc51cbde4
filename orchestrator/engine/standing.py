"""How each stage stands in a tree that somebody made: derived from its code, without trusting a log or a marker.

Where a run on the base is known, each definition is held against its images in that run; where none fits, and where
no base is known, the edits themselves say what they find. What is not applied is put into a working copy, so that a
stage that rests on it can be judged as well.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.checks.view import Sources, View
from orchestrator.code.edits import Assign, Delete
from orchestrator.code.scopes import FILE, MODULE, Definition
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.attempt import attempt
from orchestrator.engine.ground import Attempt, Ground
from orchestrator.engine.images import definition_of, image
from orchestrator.engine.likeness import (
    alike,
    difference,
    holds_the_work,
    lines_of,
    same_code,
    with_other_values,
)
from orchestrator.engine.outcome import Applied, Skipped
from orchestrator.engine.releases import closed
from orchestrator.engine.states import Judgement, Part, Standing, State, together
from orchestrator.engine.wheels import edited_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.core.tree import Tree
    from orchestrator.engine.lock import Chain
    from orchestrator.engine.outcome import Run, StageResult
    from orchestrator.engine.plan import Plan, PlannedDeploy, PlannedEdit, PlannedStage


def judge(plan: Plan, tree: Tree, made: Run | None, chains: Sequence[Chain]) -> Judgement:
    """Return how each stage of `plan` stands in `tree`.

    `made` is the run of the plan on the base, where the base is known; `chains` are the images of definitions to hold
    the tree against: that run's, else the lock's. Nothing is raised for bad input.
    """
    look = _Look(plan, tree, made, chains)
    found = {stage.id: look.stage(stage) for stage in plan.stages}
    return Judgement(tuple(look.settled(found).values()), look.work)


class _Look:
    """The state between two stages: the working copy, and who is skipped."""

    def __init__(self, plan: Plan, tree: Tree, made: Run | None, chains: Sequence[Chain]) -> None:
        self.plan = plan
        self.tree = tree
        self.work = tree
        self.made = made
        self.results: dict[str, StageResult] = {r.id: r for r in made.results} if made else {}
        self.sources = Sources()
        self.targets = edited_files(plan.stages)
        self.skipped: set[str] = set()
        self.chains = [chain for chain in chains if made is not None or self.fits(chain)]

    def fits(self, chain: Chain) -> bool:
        """Tell whether a chain is about this tree: most of its definitions are images that it knows."""
        known = [chain.position(link, self.image(link.definition)) is not None for link in chain.links]
        return 2 * sum(known) > len(known)

    def image(self, definition: Definition) -> str | None:
        return image(definition, self.tree.get(definition.file), self.sources)

    # --- stages ---

    def stage(self, planned: PlannedStage) -> Standing:
        if not (planned.edits or planned.deploys or planned.wheels):
            return Standing(planned.id, State.NOTHING, "it renders artefacts only")
        off = self.switched_off(planned)
        if off is not None:
            if not off.upstream:
                self.skipped.add(planned.id)
            return Standing(planned.id, State.SKIPPED, off.reason)
        parts = [
            *self.wheels(planned),
            *(self.edit(planned, edit) for edit in planned.edits),
            *(self.deploy(planned, deploy) for deploy in planned.deploys),
        ]
        return together(planned.id, tuple(parts))

    def switched_off(self, planned: PlannedStage) -> Skipped | None:
        if not planned.stage.enabled:
            return Skipped("enabled: false")
        need = next((need for need in planned.stage.needs if need in self.skipped), None)
        if need is not None:
            return Skipped(f"needs '{need}', which is skipped")
        result = self.results.get(planned.id)
        if result is not None and isinstance(result.outcome, Skipped):
            outcome = result.outcome
            return outcome if outcome.upstream or outcome.when else None
        if self.made is None:
            return closed(planned.stage, View(self.work, self.tree, self.plan.facts, sources=self.sources))
        return None

    def settled(self, found: dict[str, Standing]) -> dict[str, Standing]:
        """Return the standings with each part that rests on what other stages did judged by those."""
        for id_, standing in found.items():
            if any(part.overwritten or part.whole for part in standing.parts):
                parts = (self.completed(self.by_later(id_, part, found)) for part in standing.parts)
                found[id_] = together(id_, tuple(parts))
        return found

    def completed(self, part: Part) -> Part:
        """Return a part as applied where all that differs around it is what other stages have not done yet."""
        if not part.whole or part.definition is None:
            return part
        after = image(part.definition, self.work.get(part.definition.file), self.sources)
        ends = {images[-1] for chain in self.chains if (images := chain.images(part.definition))}
        same = after in ends or part.definition.name == MODULE  # what stands beside it in a module is not its own
        return replace(part, state=State.APPLIED, detail="", diff="") if same else part

    def by_later(self, id_: str, part: Part, found: dict[str, Standing]) -> Part:
        later = list(found)[list(found).index(id_) + 1 :]
        for other in later if part.overwritten else ():
            for its in found[other].parts:
                rests = self.made is not None or id_ in self.plan.ancestors[other]
                if rests and its.definition == part.definition and its.state in {State.APPLIED, State.CHANGED}:
                    detail = f"stage '{other}' wrote over it, and that is in"
                    return replace(part, state=State.CHANGED, detail=detail, overwritten=False)
        return part

    # --- parts ---

    def wheels(self, planned: PlannedStage) -> Iterator[Part]:
        for wheel in planned.wheels:
            alone = replace(planned, wheels=(wheel,), edits=(), deploys=())
            tried = attempt(alone, self.ground())
            name = f"wheel {wheel.requirement}"
            if tried.faults:
                yield Part(name, None, State.CANNOT, tried.faults[0].message)
            elif tried.present:
                yield Part(name, None, State.APPLIED)
            else:
                self.work = self.work.with_roots(tried.roots)
                yield Part(name, None, State.NOT, "other files are installed")

    def ground(self) -> Ground:
        return Ground(self.work, self.tree, self.sources, None, {}, self.targets)

    def edit(self, stage: PlannedStage, planned: PlannedEdit) -> Part:
        definition = definition_of(planned, replace(self.ground(), tree=self.tree))
        name = f"edit {planned.number} in {definition}"
        known = self.position(stage.id, definition)
        if known:
            return Part(name, definition, State.APPLIED)
        tried = self.tried(stage, planned)
        if known is False:
            self.keep(tried)
            detail = tried.faults[0].message if tried.faults else ""
            return Part(name, definition, State.NOT, detail)
        return self.by_pattern(stage, planned, Part(name, definition, State.NOT), tried)

    def position(self, stage: str, definition: Definition) -> bool | None:
        """Return whether the chain has the definition behind the stage; None where it knows no such image."""
        for chain in self.chains:
            links = [link for link in chain.of_stage(stage) if link.definition.file == definition.file]
            own = [link for link in links if link.definition == definition] or links
            places = [(chain.position(link, self.image(link.definition)), chain.index(link)) for link in own]
            applied = {place > index for place, index in places if place is not None}
            if places and len(applied) == 1 and all(place is not None for place, _ in places):
                return applied.pop()
        return None

    def tried(self, stage: PlannedStage, planned: PlannedEdit) -> Attempt:
        alone = replace(stage, edits=(planned,), deploys=(), wheels=())
        try:
            return attempt(alone, self.ground())
        except Rejected as error:
            return Attempt(faults=list(error.diagnostics))

    def keep(self, tried: Attempt) -> None:
        if not tried.faults:
            self.work = self.work.with_files(tried.written)

    def by_pattern(self, stage: PlannedStage, planned: PlannedEdit, part: Part, tried: Attempt) -> Part:
        """Judge an edit whose definition is none that a run made: by what the edit finds in it."""
        assert part.definition is not None  # noqa: S101 - an edit has one
        if not tried.faults and not tried.pending:
            linked = any(
                link.definition == part.definition for chain in self.chains for link in chain.of_stage(stage.id)
            )
            if not linked:
                return replace(part, state=State.APPLIED)
            return replace(self.changed(part, "the code around it differs"), whole=True)
        if not tried.faults:
            other = self.other_value(stage, planned, tried)
            if other is not None:
                return self.changed(part, other)
            self.keep(tried)
            return part
        return self.neither(stage, planned, part, tried)

    def other_value(self, stage: PlannedStage, planned: PlannedEdit, tried: Attempt) -> str | None:
        """Return the assignment that is there, where it is neither the base's nor the stage's."""
        result = self.results.get(stage.id)
        edit = planned.edit.edit
        if result is None or not isinstance(edit, Assign) or edit.old is not None:
            return None
        base = [_plain(site.code) for number, site in result.sites if number == planned.number]
        here = [site.code for _, site in tried.sites]
        return f"other value: {here[0]}" if base and here and _plain(here[0]) not in base else None

    def neither(self, stage: PlannedStage, planned: PlannedEdit, part: Part, tried: Attempt) -> Part:
        """Judge an edit that finds neither what it would change nor what it would have made of it."""
        assert part.definition is not None  # noqa: S101 - an edit has one
        fault = tried.faults[0]
        applied = isinstance(getattr(self.results.get(stage.id), "outcome", None), Applied)
        source = self.work.get(planned.edit.file)
        if fault.code == "E403" and applied and isinstance(planned.edit.edit, Delete):
            return self.changed(part, "what it removes is gone, and the code around differs")
        if fault.code == "E403" and source is not None:
            written = stage.stage.edits[planned.number - 1]
            parsed = self.sources.get(planned.edit.file, source)
            other = with_other_values(planned, written, parsed, self.plan.values, alone=applied)
            if other is not None:
                return self.changed(part, f"other value: {other}")
        if fault.code == "E412" and applied:
            return self.changed(part, fault.message)
        result = self.results.get(stage.id)
        if result is not None and applied:
            file = planned.edit.file
            before, after = (
                lines_of(part.definition, side.get(file), self.sources) for side in (result.before, result.after)
            )
            if holds_the_work(before, after, lines_of(part.definition, self.tree.get(file), self.sources)):
                return self.changed(part, "the code that it wrote differs")
            if self.made is not None and self.overwritten(stage, planned, self.made):
                return replace(part, state=State.CANNOT, detail=fault.message, overwritten=True)
        over = self.made is None and fault.code in {"E403", "E405", "E412"}
        detail = " ".join([fault.message, *_first_notes(fault.notes)])
        return replace(part, state=State.CANNOT, detail=detail, overwritten=over)

    def overwritten(self, stage: PlannedStage, planned: PlannedEdit, made: Run) -> bool:
        """Tell whether a later stage changes the edit's work, so that even the pipeline's own tree does not show it."""
        alone = replace(stage, edits=(planned,), deploys=(), wheels=())
        tried = attempt(alone, replace(self.ground(), tree=made.tree))
        return bool(tried.faults or tried.pending)

    def changed(self, part: Part, detail: str) -> Part:
        """Return a part as applied and changed since, with the diff from what the pipeline makes."""
        assert part.definition is not None  # noqa: S101 - callers have one
        file = part.definition.file
        wanted = self.made.tree.get(file) if self.made is not None else None
        return replace(
            part,
            state=State.CHANGED,
            detail=detail,
            diff=difference(part.definition, wanted, self.tree.get(file), self.sources),
        )

    def deploy(self, stage: PlannedStage, deploy: PlannedDeploy) -> Part:
        part = Part(f"file {deploy.to}", Definition(deploy.to, FILE), State.NOT)
        here = self.tree.get(deploy.to)
        wanted = self.made.tree.get(deploy.to) if self.made is not None else None
        made = [content for content in (wanted, deploy.content) if content is not None]
        if here is None:
            self.work = self.work.with_files({deploy.to: deploy.content})
            return replace(part, detail=f"{deploy.to} is absent")
        if here in made:
            return replace(part, state=State.APPLIED)
        if any(same_code(deploy.to, content, here) for content in made):
            return replace(part, state=State.APPLIED, detail="comments or layout differ")
        original = self.made.installed.get(deploy.to) if self.made is not None else None
        if self.position(stage.id, Definition(deploy.to, FILE)) is False or here == original:
            original = here
        if here != original and alike(here, made[0]):
            diff = difference(Definition(deploy.to, FILE), made[0], here, self.sources)
            return replace(part, state=State.CHANGED, detail="the file differs", diff=diff)
        if deploy.replaces is not None:
            self.work = self.work.with_files({deploy.to: deploy.content})
            return replace(
                part, detail="the file that it replaces is there" if here == original else "another file is there"
            )
        return replace(part, state=State.CANNOT, detail=f"another file is at {deploy.to}")


def _first_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the note that shows the nearest code, if there is one."""
    return (f"({notes[0]} {notes[1]})",) if len(notes) > 1 and notes[0].endswith(":") else ()


def _plain(code: str) -> str:
    return re.sub(r"\s+", "", code)
