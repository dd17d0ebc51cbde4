"""The parts of a stage: what they are called, what a fault of one comes to, which definitions are whose."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.code.scopes import FILE, MODULE, Definition
from orchestrator.engine.bump.fates import Part
from orchestrator.spec.releases import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.outcome import Link, StageResult
    from orchestrator.engine.plan import PlannedEdit, PlannedStage

_FATES = {
    **dict.fromkeys(("E401", "E402", "E403", "E416"), Fate.GONE),
    **dict.fromkeys(("E404", "E412", "E413", "E417", "E419"), Fate.CONFLICT),
    "E405": Fate.AMBIGUOUS,
}
"""Code → verdict. All other codes say that the code is there and the result would not be right: a check failed."""


def parts_of(planned: PlannedStage, fate: Fate, detail: str = "") -> tuple[Part, ...]:
    """Return the same verdict for every part of a stage, in the order in which they are tried."""
    parts = [Part(f"wheel {w.requirement}", 0, fate, detail, place=w.place) for w in planned.wheels]
    parts += [
        Part(f"edit {e.number} in {address(e)}", e.number, fate, detail, place=e.place, definition=address(e))
        for e in planned.edits
    ]
    parts += [Part(f"file {d.to}", 0, fate, detail, place=d.place) for d in planned.deploys]
    return tuple(parts) or (Part("the stage", 0, fate, detail, place=planned.place),)


def of_fault(name: str, fault: Diagnostic, fate: Fate | None = None) -> Part:
    """Return the verdict that a diagnostic comes to."""
    fate = fate or _FATES.get(fault.code, Fate.CHECK_FAILED)
    return Part(name, 0, fate, fault.message, fault.code, fault.notes, fault.help, fault.place)


def address(planned: PlannedEdit) -> str:
    """Return the file and the definition that an edit names."""
    return str(Definition(planned.edit.file, planned.edit.within or MODULE))


def links_of(part: Part, planned: PlannedStage, result: StageResult, changed: Sequence[Link]) -> list[Link]:
    """Return those of the changed definitions that a part of an applied stage is about."""
    if not part.number:
        return [
            link for link in changed if part.name == f"file {link.definition.file}" and link.definition.name == FILE
        ]
    edit = planned.edits[part.number - 1]
    in_file = [link for link in changed if link.definition.file == edit.edit.file and link.definition.name != FILE]
    scopes: dict[int, set[str]] = {edit.number: set()}
    for number, site in result.sites:
        scopes.setdefault(number, set()).add(site.scope)
    known = set().union(*(names for number, names in scopes.items() if _file(planned, number) == edit.edit.file))
    mine = scopes[edit.number]
    return [link for link in in_file if link.definition.name in mine or link.definition.name not in known]


def _file(planned: PlannedStage, number: int) -> str:
    return planned.edits[number - 1].edit.file


def each_alone(planned: PlannedStage) -> Iterator[PlannedStage]:
    """Yield a stage for each of its parts, in the order in which `parts_of` names them."""
    bare = dataclasses.replace(planned, edits=(), deploys=(), wheels=())
    for wheel in planned.wheels:
        yield dataclasses.replace(bare, wheels=(wheel,))
    for edit in planned.edits:
        yield dataclasses.replace(bare, edits=(edit,))
    for deploy in planned.deploys:
        yield dataclasses.replace(bare, deploys=(deploy,))
