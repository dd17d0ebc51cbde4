"""What a run does not find in the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Severity
from orchestrator.engine.outcome import Applied

if TYPE_CHECKING:
    from orchestrator.cli.steps import BaseTree
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.outcome import Run

LOCK = "pipeline.lock"


def lock_faults(run: Run, base: BaseTree, lock: Lock | None, *, refuse: bool) -> tuple[Diagnostic, ...]:
    """Return E602 (with `refuse`) or W602 for every part of a run that the lock does not hold.

    Parameters are not locked. A base that differs is no fault where every definition is the one in the lock.
    """
    severity = Severity.ERROR if refuse else Severity.WARNING
    code = "E602" if refuse else "W602"
    help_ = "Look at the change, then bless it with `orchestrator lock`."
    if lock is None:
        return (Diagnostic(code, "there is no pipeline.lock", help=help_, severity=severity),)
    found = []
    for name, digest in sorted(run.plan.sources.items()):
        if not name.endswith(".j2") and lock.sources.get(name) != digest:
            what = "is not in the lock" if name not in lock.sources else "has changed since it was locked"
            found.append(Diagnostic(code, f"{name} {what}", Place(LOCK), help_, severity=severity))
    for name, digest in sorted(base.inputs.items()):
        if lock.inputs.get(name) != digest:
            found.append(
                Diagnostic(code, f"input {name} is not the one in the lock", Place(LOCK), help_, severity=severity)
            )
    for result in run.results:
        if isinstance(result.outcome, Applied) and result.outcome.fit != "exact":
            what = "has changed since it was locked" if result.outcome.fit == "adapted" else "is not in the lock"
            message = f"a definition that stage '{result.id}' touches {what}"
            found.append(Diagnostic(code, message, Place(LOCK), help_, stage=result.id, severity=severity))
    return tuple(found)
