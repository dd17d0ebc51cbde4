"""What to say of an edit that failed: where it stands, what is near, and which stage last wrote the definition."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.code.edits import Transform
from orchestrator.code.rewrite import examine
from orchestrator.code.scopes import FILE, MODULE, Definition
from orchestrator.code.sites import Pending
from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from orchestrator.engine.ground import Ground
    from orchestrator.engine.plan import PlannedEdit, PlannedStage


def explained(found: Diagnostic, stage: PlannedStage, planned: PlannedEdit, ground: Ground) -> Diagnostic:
    """Complete a diagnostic: its place in the YAML, where the code stands, and who last wrote the definition."""
    scoped = planned.edit
    message = found.message
    notes = found.notes
    if found.place is not None and found.place.file != planned.place.file:
        notes = (*notes, f"at {found.place}")
    writer = _writer(scoped.file, scoped.within, ground)
    code = found.code
    if writer is not None:
        notes = (*notes, f"last written by stage '{writer}'")
        if code in {"E402", "E403"} and _matched_before(planned, ground):
            code = "E404"
            message = f"{message}: it was there in the base, stage '{writer}' rewrote it"
    return dataclasses.replace(found, code=code, message=message, notes=notes, place=planned.place, stage=stage.id)


def _writer(file: str, within: str | None, ground: Ground) -> str | None:
    names = [within] if within else [d.name for d in ground.writers if d.file == file]
    parts = within.split(".") if within else []
    names += [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)] + [FILE, MODULE]
    return next(
        (ground.writers[Definition(file, n)] for n in names if n and Definition(file, n) in ground.writers), None
    )


def _matched_before(planned: PlannedEdit, ground: Ground) -> bool:
    scoped = planned.edit
    raw = ground.base.get(scoped.file)
    if raw is None or isinstance(scoped.edit, Transform):
        return False
    try:
        return isinstance(examine(scoped.edit, ground.sources.get(scoped.file, raw), scoped.within), Pending)
    except Rejected:
        return False
