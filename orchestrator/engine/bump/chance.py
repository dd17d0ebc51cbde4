"""Code that looks like an edit's work and is not: it stands beside what the edit changes on its own base, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.code.edits import Replace
from orchestrator.code.patterns import find_matches
from orchestrator.code.scopes import named
from orchestrator.code.sites import gone
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.bump.reference import Reference
    from orchestrator.engine.ground import Ground
    from orchestrator.engine.plan import PlannedEdit


def by_chance(stage: str, planned: PlannedEdit, reference: Reference | None, ground: Ground) -> Diagnostic | None:
    """Return that the pattern is gone (E403) where what is taken for the edit's work was there before it.

    A replacement is known by its result. Where the own base has as many such places beside those of the pattern, they
    tell nothing. None where they do, or nothing is known of the own base.
    """
    scoped = planned.edit
    edit = scoped.edit
    result = reference.results.get(stage) if reference else None
    old, new = (result.before.get(scoped.file) if result else None), ground.tree.get(scoped.file)
    if not isinstance(edit, Replace) or old is None or new is None:
        return None
    before, here = (ground.sources.get(scoped.file, raw) for raw in (old, new))
    try:
        was, now = named(before, scoped.within), named(here, scoped.within)
        if len(was) != 1 or len(now) != 1 or find_matches(edit.pattern, now[0]):
            return None
        known = len(find_matches(edit.template.as_pattern(), was[0]))
        told = known < edit.count or not find_matches(edit.pattern, was[0])
        return None if told else gone(edit.pattern, here, now[0])
    except Rejected:
        return None
