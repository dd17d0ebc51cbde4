"""Images of definitions: their digests in a tree, the links that a stage adds, and where a tree stands in the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.code.scopes import FILE, MODULE, Definition, definition_digest, outermost_function
from orchestrator.core.diagnostics import Rejected
from orchestrator.core.digest import digest
from orchestrator.engine.outcome import Link

if TYPE_CHECKING:
    from orchestrator.checks.view import Sources
    from orchestrator.engine.ground import Attempt, Ground
    from orchestrator.engine.plan import PlannedEdit, PlannedStage


def links(stage: str, tried: Attempt, ground: Ground) -> tuple[Link, ...]:
    """Return the links that an applied attempt adds to the chain."""
    found = []
    for definition in sorted(tried.touched):
        before = image(definition, ground.tree.get(definition.file), ground.sources)
        after = image(definition, tried.written.get(definition.file), ground.sources)
        if before != after:
            found.append(Link(definition, stage, before, after))
    return tuple(found)


def image(definition: Definition, raw: bytes | None, sources: Sources) -> str | None:
    """Return the digest of a definition in a file's bytes, None where file or definition is absent."""
    if raw is None:
        return None
    if definition.name == FILE:
        return digest(raw)
    try:
        return definition_digest(sources.get(definition.file, raw), definition.name)
    except Rejected:
        return digest(raw)


def positions(stage: PlannedStage, ground: Ground) -> dict[Definition, bool | None]:
    """Return for each definition of the stage's chain whether the stage is applied to it; None where no image fits.

    A definition that is no image of its chain has changed since, or belongs to another base: its pattern decides.
    """
    if ground.chain is None:
        return {}
    found: dict[Definition, bool | None] = {}
    for link in ground.chain.of_stage(stage.id):
        current = image(link.definition, ground.tree.get(link.definition.file), ground.sources)
        position = ground.chain.position(link, current)
        found[link.definition] = None if position is None else position > ground.chain.index(link)
    return found


def definition_of(planned: PlannedEdit, ground: Ground) -> Definition:
    """Return the definition that an edit is meant for, as far as its YAML says."""
    scoped = planned.edit
    raw = ground.tree.get(scoped.file)
    if scoped.within is None or raw is None:
        return Definition(scoped.file, MODULE)
    try:
        return Definition(scoped.file, outermost_function(ground.sources.get(scoped.file, raw).tree, scoped.within))
    except Rejected:
        return Definition(scoped.file, scoped.within)
