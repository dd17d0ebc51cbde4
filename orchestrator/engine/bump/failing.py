"""Why a part of a stage does not apply on another base, where its code is now, and what would mend it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.view import View
from orchestrator.code.scopes import MODULE, Definition, named
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.bump import moved
from orchestrator.engine.bump.fates import APPLIES
from orchestrator.engine.bump.parts import of_fault
from orchestrator.engine.bump.proposal import applies, edit_yaml, moved_to, stage_yaml, whole_applies
from orchestrator.engine.bump.upstream import definition_diff
from orchestrator.engine.rests import pending
from orchestrator.spec.releases import Fate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.bump.fates import Part, StageFate
    from orchestrator.engine.bump.index import Index
    from orchestrator.engine.bump.proposal import Moves
    from orchestrator.engine.bump.reference import Reference
    from orchestrator.engine.ground import Ground
    from orchestrator.engine.plan import Plan, PlannedEdit, PlannedStage

_SEARCHED = frozenset({"E401", "E402", "E403"})


@dataclasses.dataclass(frozen=True)
class Failing:
    """A stage with a part that does not apply: `alone` is the stage with that part only."""

    plan: Plan
    planned: PlannedStage
    alone: PlannedStage
    reference: Reference | None
    down: Mapping[str, str]
    """Stages whose work is missing, and what became of them."""
    lost: Mapping[str, str]
    """Files that a workspace which makes the base could not write as it should: file → which stage of it, and why."""
    ground: Ground
    index: Index
    """What the files of the base define: one for all parts."""

    def judged(self, part: Part, fault: Diagnostic, earlier: Sequence[Part]) -> Part:
        """Return the verdict on the part, which failed with `fault`; `earlier` are the verdicts before it."""
        found = of_fault(part.name, fault)
        found = dataclasses.replace(found, number=part.number, place=part.place, definition=part.definition)
        if not self.alone.edits:
            return found
        edit = self.alone.edits[0]
        missing = self.missing(edit, fault, earlier)
        if missing:
            return dataclasses.replace(found, fate=Fate.NOT_REACHED, detail=missing, notes=(fault.message,), help="")
        lost = self.lost_definition(edit) if fault.code == "E415" else ""
        if lost:
            detail = f"`{lost}`, which the transform changes on its own base, is not in {edit.edit.file}"
            found = dataclasses.replace(found, fate=Fate.GONE, detail=detail, notes=(fault.message, *found.notes))
        found = dataclasses.replace(found, notes=(*found.notes, *self.held_already()), diff=self.diff(edit, edit))
        return self.searched(found, edit, fault) if fault.code in _SEARCHED else found

    def missing(self, edit: PlannedEdit, fault: Diagnostic, earlier: Sequence[Part]) -> str:
        """Return what the edit rests on and is not there: code of a stage, or of an edit of its own stage."""
        if self.reference is None:
            return ""
        key = (self.planned.id, edit.number)
        stages = [id_ for id_ in self.reference.rests.get(key, ()) if id_ in self.down]
        if stages:
            return f"rests on code that stage '{stages[0]}' writes, which is {self.down[stages[0]]}"
        if edit.edit.file in self.lost and self.rests_on_workspace(edit):
            return f"rests on code that {self.lost[edit.edit.file]}"
        if fault.code == "E407":  # a name that is bound elsewhere in the file: nothing says by which line
            for id_ in self.plan.ancestors[self.planned.id] & self.down.keys():
                if edit.edit.file in self.reference.results[id_].after:
                    return f"reads what stage '{id_}' writes into the file, which is {self.down[id_]}"
        own = self.reference.own.get(key, frozenset())
        failed = next((p for p in earlier if p.number in own and p.fate not in APPLIES), None)
        return f"rests on edit {failed.number} of its stage, which is {failed.fate}" if failed else ""

    def lost_definition(self, edit: PlannedEdit) -> str:
        """Return a definition that a transform changes on its own base and that its file has no more; empty for none.

        A transform that raises says in its own words what it misses. This is what can be told without them.
        """
        file = edit.edit.file
        result = self.reference.results.get(self.planned.id) if self.reference else None
        old, new = result.before.get(file) if result else None, self.ground.tree.get(file)
        if result is None or old is None or new is None:
            return ""
        scopes = sorted({site.scope for number, site in result.sites if number == edit.number} - {MODULE, ""})
        before, here = (self.ground.sources.get(file, raw) for raw in (old, new))
        try:
            return next((scope for scope in scopes if named(before, scope) and not named(here, scope)), "")
        except Rejected:
            return ""

    def rests_on_workspace(self, edit: PlannedEdit) -> bool:
        """Tell whether the edit applies to its own base only because of the workspace that makes that."""
        assert self.reference is not None  # noqa: S101 - `missing` asked
        plain = self.reference.plain.get(edit.edit.file) if self.reference.plain is not None else None
        return plain is None or pending(edit, self.ground.sources.get(edit.edit.file, plain)) is None

    def held_already(self) -> tuple[str, ...]:
        """Return a note where all that the stage makes true on its own base is true here without it."""
        result = self.reference.results.get(self.planned.id) if self.reference else None
        effects = {(j.check, j.subject) for j in result.judged if j.role == "effect"} if result else set()
        view = View(self.ground.tree, self.ground.base, self.plan.facts, sources=self.ground.sources)
        checks = [c for c in self.planned.stage.post if (c.check, c.subject()) in effects]
        if checks and all(check.judge(view).holds for check in checks):
            return ("what the stage makes true is true here without it: if upstream fixed it, say so by `upstream:`",)
        return ()

    def diff(self, old: PlannedEdit, new: PlannedEdit) -> str:
        """Return how the definition of an edit differs from its own base to this one."""
        if self.reference is None:
            return ""
        places = [Definition(e.edit.file, e.edit.within or MODULE) for e in (old, new)]
        return definition_diff((self.reference.base, places[0]), (self.ground.base, places[1]), self.ground.sources)

    # --- where it is now ---

    def searched(self, part: Part, edit: PlannedEdit, fault: Diagnostic) -> Part:
        """Return the verdict with where the code is now, and the YAML that was tried there."""
        old = self.reference.base if self.reference else None
        place = moved.Ground(old, self.ground.tree, self.ground.sources, self.index)
        try:
            search = moved.search(edit.edit, fault, place)
        except Rejected:
            return part
        near = tuple(str(candidate) for candidate in search.near)
        if search.found is None:
            fate = Fate.AMBIGUOUS if search.several else part.fate
            detail = f"{part.detail}; several places are as good as one another" if search.several else part.detail
            return dataclasses.replace(part, fate=fate, detail=detail, near=near)
        to = moved_to(edit, search.found.definition)
        moved_part = dataclasses.replace(
            part, fate=Fate.MOVED, found=str(search.found.definition), near=(str(search.found), *near)
        )
        moved_part = dataclasses.replace(moved_part, diff=self.diff(edit, to) or part.diff)
        if not applies(self.planned, to, self.ground):
            return dataclasses.replace(moved_part, proven="the edit does not apply there as it is")
        yaml = edit_yaml(self.plan, self.planned, edit, to)
        return dataclasses.replace(moved_part, yaml=yaml, proven="run in memory: the edit applies there")

    def with_whole(self, found: StageFate) -> StageFate:
        """Return the verdicts with the YAML of the whole stage, where moving its edits and checks mends it."""
        by_number = {part.number: part for part in found.parts if part.number}
        edits: list[PlannedEdit] = []
        places: dict[tuple[str, str | None], set[tuple[str, str | None]]] = {}
        for edit in self.planned.edits:
            part = by_number[edit.number]
            if part.fate not in APPLIES and not part.yaml:
                return found
            to = _target(part, edit)
            edits.append(to)
            places.setdefault((edit.edit.file, edit.edit.within), set()).add((to.edit.file, to.edit.within))
        # A check follows the edits of what it looks at, where all of them went to one place.
        moves: Moves = {old: next(iter(new)) for old, new in places.items() if len(new) == 1 and new != {old}}
        why = whole_applies(self.planned, edits, moves, self.ground, self.plan.facts)
        if why:
            parts = tuple(
                dataclasses.replace(p, proven=f"{p.proven}; the stage with it does not: {why}") if p.yaml else p
                for p in found.parts
            )
            return dataclasses.replace(found, parts=parts)
        return dataclasses.replace(found, yaml=stage_yaml(self.plan, self.planned, edits, moves))


def _target(part: Part, edit: PlannedEdit) -> PlannedEdit:
    if not part.yaml:
        return edit
    file, _, name = part.found.partition(".py:")
    return moved_to(edit, Definition(f"{file}.py" if name else part.found, name or MODULE))
