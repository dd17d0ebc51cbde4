"""What a run does not find in the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Severity
from orchestrator.engine.outcome import Applied

if TYPE_CHECKING:
    from orchestrator.cli.steps import BaseTree
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan

LOCK = "pipeline.lock"
HELP = "Look at the change, then bless it with `orchestrator lock`."


def lock_faults(
    run: Run, base: BaseTree, lock: Lock | None, *, refuse: bool, around: tuple[Diagnostic, ...] = ()
) -> tuple[Diagnostic, ...]:
    """Return E602 (with `refuse`) or W602 for every part of a run that the lock does not hold, by name.

    Parameters are not locked. A base that differs is no fault where every definition is the one in the lock.
    `around` are the findings about the workspace: with `refuse`, a file that lies among the locked ones and is used
    by nobody (W141) is one too many.
    """
    severity = Severity.ERROR if refuse else Severity.WARNING
    code = "E602" if refuse else "W602"
    if lock is None:
        return (Diagnostic(code, "there is no pipeline.lock", help=HELP, severity=severity),)
    found = list(source_faults(run.plan, lock, refuse=refuse))
    for extra in around:
        if refuse and extra.code == "W141" and extra.severity is Severity.WARNING and extra.place:
            message = f"{extra.place.file} lies among the sources and is not in the lock: {extra.message}"
            found.append(Diagnostic(code, message, extra.place, extra.help))
    for name, digest in sorted(base.inputs.items()):
        if lock.inputs.get(name) != digest:
            found.append(
                Diagnostic(code, f"input {name} is not the one in the lock", Place(LOCK), HELP, severity=severity)
            )
    for result in run.results:
        if isinstance(result.outcome, Applied) and result.outcome.fit != "exact":
            what = "has changed since it was locked" if result.outcome.fit == "adapted" else "is not in the lock"
            message = f"a definition that stage '{result.id}' touches {what}"
            found.append(Diagnostic(code, message, Place(LOCK), HELP, stage=result.id, severity=severity))
    return tuple(found)


def source_faults(plan: Plan, lock: Lock, *, refuse: bool = False) -> tuple[Diagnostic, ...]:
    """Return E602 (with `refuse`) or W602 for each source that is new, changed or gone since it was locked."""
    code, severity = ("E602", Severity.ERROR) if refuse else ("W602", Severity.WARNING)
    found = []
    for name in sorted({*plan.sources, *lock.sources}):
        if name not in lock.sources:
            what = "is not in the lock"
        elif name not in plan.sources:
            what = "is in the lock, and no stage uses it any more"
        elif plan.sources[name] != lock.sources[name]:
            what = "has changed since it was locked"
        else:
            continue
        found.append(Diagnostic(code, f"{name} {what}", Place(LOCK), HELP, severity=severity))
    for name in sorted({*plan.plugins, *lock.plugins}):
        now, was = plan.plugins.get(name), lock.plugins.get(name)
        if now != was:
            what = "is not in the lock" if was is None else "is used no more" if now is None else f"was {was}"
            message = f"{name} ({now or was}) {what}"
            found.append(Diagnostic(code, message, Place(LOCK), HELP, severity=severity))
    return tuple(found)
