"""Records: what a run has to say, as plain data. Reports, JSON output and the audit are made from these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.core.digest import digest
from orchestrator.engine.outcome import AlreadyApplied, Applied, Failed, Skipped, outcome_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.outcome import Judged, Run, StageResult


def stage_record(result: StageResult, final: Sequence[Judged] = ()) -> dict[str, Any]:
    """Return one stage's record: outcome, sites, files with digests, checks with evidence, claim."""
    stage = result.planned.stage
    record: dict[str, Any] = {
        "event": "stage",
        "stage": result.id,
        "kind": stage.kind,
        "summary": stage.summary,
        "outcome": outcome_name(result.outcome),
        "needs": list(stage.needs),
        "digest_of_stage": result.planned.digest,
        "sites": [
            {
                "edit": number,
                "place": str(site.place),
                "scope": site.scope,
                "code": site.code,
                "captures": dict(site.captures),
            }
            for number, site in result.sites
        ],
        "files": [
            {"path": path, "before": _digest(result.before.get(path)), "after": digest(content)}
            for path, content in sorted(result.after.items())
        ],
        "wheels": [
            {"name": p.key, "version": w.version, "file": w.file, "sha256": w.sha256, "replaces": p.replaces}
            for p, w in ((p, p.wheel) for p in result.planned.wheels if result.in_effect)
            if w is not None
        ],
        **_compiles(result),
        "artefacts": sorted(result.artefacts),
        "definitions": [
            {"definition": str(link.definition), "before": link.before, "after": link.after} for link in result.links
        ],
        "checks": [judged_record(judged) for judged in (*result.judged, *final)],
        "claim": stage.claim,
        "evidence": stage.evidence,
        "diagnostics": [d.record() for d in result.diagnostics],
    }
    match result.outcome:
        case Skipped(reason=reason):
            record["reason"] = reason
        case Applied() | AlreadyApplied() | Failed():
            pass
    return record


def _compiles(result: StageResult) -> dict[str, Any]:
    """Return what is compiled in the image: no digest can be known before, the installer writes down what it got."""
    found = result.planned.compiles if result.in_effect else ()
    rows = [{"source": c.source, "to": c.to, "command": list(c.command), "sha256": None} for c in found]
    return {"compiles": rows} if rows else {}


def judged_record(judged: Judged) -> dict[str, Any]:
    """Return one check's record."""
    return {
        "role": judged.role,
        "check": judged.check,
        "subject": judged.subject,
        "status": str(judged.verdict.status),
        "evidence": judged.verdict.evidence,
        "place": str(judged.verdict.place) if judged.verdict.place else "",
        "because": judged.because,
    }


def artefact_record(name: str, content: bytes) -> dict[str, Any]:
    """Return the record of a rendered file."""
    return {"event": "artefact", "name": name, "sha256": digest(content), "bytes": len(content)}


def finding_record(found: Diagnostic) -> dict[str, Any]:
    """Return the record of a house rule's finding or a warning."""
    return {"event": "finding", **found.record()}


def patchset_record(run: Run, patchset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the whole: which pipeline on which base gave which tree and patch set."""
    return {
        "event": "patchset",
        "pipeline": run.plan.name,
        "pipeline_digest": run.plan.digest,
        "target": run.plan.target.name,
        "base_digest": run.base.digest,
        "tree_digest": run.tree.digest,
        "values": {key: value for key, value in sorted(run.plan.values.items()) if key.startswith("params.")},
        "sources": dict(sorted(run.plan.sources.items())),
        **_plugins(run),
        **patchset,
        **run.facts(),
    }


def _plugins(run: Run) -> dict[str, Any]:
    """Return what was used of installed distributions, under its key; nothing where nothing was."""
    used = {name: {"version": p.version, "sha256": p.sha256} for name, p in sorted(run.plan.plugins.items())}
    return {"plugins": used} if used else {}


def _digest(content: bytes | None) -> str | None:
    return None if content is None else digest(content)
