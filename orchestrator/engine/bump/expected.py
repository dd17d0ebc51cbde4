"""What a stage declares of its verdicts: `expect:` and `upstream:`, held against what was found."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Severity
from orchestrator.core.digest import digest_data
from orchestrator.engine.releases import is_version
from orchestrator.spec.releases import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.engine.bump.fates import Part, StageFate
    from orchestrator.engine.plan import PlannedStage


def declared(found: StageFate, planned: PlannedStage, version: str) -> StageFate:
    """Return the verdicts of a stage with the reasons that it gives for them."""
    parts = tuple(_declared(part, planned, version) for part in found.parts)
    return dataclasses.replace(found, parts=parts)


def _declared(part: Part, planned: PlannedStage, version: str) -> Part:
    stage = planned.stage
    if part.fate is Fate.FIXED and stage.upstream is not None:
        return dataclasses.replace(part, declared=stage.upstream.pr)
    if not stage.expect:
        return part
    if not is_version(version):
        note = "`expect:` was not asked: the base does not say which version it is"
        return dataclasses.replace(part, notes=(*part.notes, note)) if part.fate is not Fate.EXACT else part
    entries = [entry for entry in stage.expect if entry.covers(part.fate, version)]
    standing = next((entry for entry in entries if not entry.over(version)), None)
    if standing is not None:
        return dataclasses.replace(part, declared=standing.because)
    notes = tuple(f"expected until {entry.until}, which is over: {entry.because}" for entry in entries)
    return dataclasses.replace(part, notes=(*part.notes, *notes))


def untrue(found: StageFate, planned: PlannedStage, version: str) -> Iterator[Diagnostic]:
    """Yield W518 for each expectation that speaks of this release and does not come true."""
    fates = {part.fate for part in found.parts}
    if not is_version(version) or fates <= {Fate.OFF}:
        return
    for entry in planned.stage.expect:
        if entry.covers(entry.verdict, version) and not entry.over(version) and entry.verdict not in fates:
            message = f"`expect: {entry.verdict}` does not come true on {version}: the stage is {found.fate}"
            help_ = "Remove it, or narrow `on:`."
            yield Diagnostic("W518", message, planned.place, help_, stage=planned.id, severity=Severity.WARNING)


def with_fingerprints(found: StageFate, planned: PlannedStage, base: str) -> StageFate:
    """Return the verdicts with a fingerprint each: of the part and its fate, not of the place where it stands."""
    seen: dict[str, int] = {}
    parts = []
    for part in found.parts:
        own = planned.stage.edits[part.number - 1].model_dump(mode="json", by_alias=True) if part.number else part.name
        identity = digest_data([planned.id, own, base, str(part.fate)])
        seen[identity] = seen.get(identity, 0) + 1
        parts.append(dataclasses.replace(part, fingerprint=digest_data([identity, seen[identity]])[:16]))
    return dataclasses.replace(found, parts=tuple(parts))
