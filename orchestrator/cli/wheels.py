"""Fetch the wheels of a plan's stages: from the workspace, the cache or the index; pinned by the lock."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from orchestrator.cli.options import Request
    from orchestrator.cli.steps import BaseTree
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.plan import Plan
    from orchestrator.engine.wheels import PlannedWheel
    from orchestrator.origin.wheel import WheelFile
    from orchestrator.origin.workspace import WorkspaceFiles


def wheels_of(plan: Plan, request: Request, base: BaseTree) -> BaseTree:
    """Return `base` with the wheels of all enabled stages; raise `Rejected` with every one that cannot be had.

    A wheel in the workspace's `wheels/` goes before the index. One that no stage names is refused.
    """
    from orchestrator.cli.steps import lock_of, workspace_files
    from orchestrator.engine.wheels import Wheel, planned_wheels
    from orchestrator.origin.wheel import unclaimed

    files = workspace_files(request)
    lock = lock_of(request)
    claimed, faults = _claims(plan, files)
    faults += unclaimed(files, frozenset(claimed.values()))
    wheels: dict[str, Wheel] = {}
    inputs = dict(base.inputs)
    compiled = base.compiled
    notices = list(base.notices)
    for planned in () if faults else planned_wheels(plan):
        try:
            found = _fetched(planned, claimed.get(planned.key), files, plan, request, lock)
        except Rejected as error:
            faults += [d if d.place else d.at(planned.place) for d in error.diagnostics]
            continue
        wheels[planned.key] = Wheel(found.name, found.version, found.file, found.content, found.packages)
        inputs[_input(planned)] = found.sha256
        compiled |= found.compiled
        notices += found.notices
    if faults:
        raise Rejected(faults)
    return replace(base, wheels=wheels, inputs=inputs, compiled=compiled, notices=tuple(notices))


def _claims(plan: Plan, files: WorkspaceFiles) -> tuple[dict[str, str], list[Diagnostic]]:
    """Return distribution → its file in the workspace, for all stages: one that is switched off claims it too."""
    from orchestrator.origin.wheel import find_in_workspace

    claimed: dict[str, str] = {}
    faults: list[Diagnostic] = []
    for stage in plan.stages:
        for planned in stage.wheels:
            try:
                path = planned.source or find_in_workspace(files, planned.name, planned.version)
            except Rejected as error:
                faults += [d.at(planned.place).in_stage(stage.id) for d in error.diagnostics]
                continue
            if path:
                claimed[planned.key] = path
    return claimed, faults


def _input(planned: PlannedWheel) -> str:
    """Return what the lock calls a wheel; a base from an index is called by its requirement alone."""
    return f"wheel {planned.requirement}"


def _fetched(
    planned: PlannedWheel,
    path: str | None,
    files: WorkspaceFiles,
    plan: Plan,
    request: Request,
    lock: Lock | None,
) -> WheelFile:
    from orchestrator.origin.pinned import cache_folder
    from orchestrator.origin.wheel import wheel_of_index, wheel_of_workspace

    expected = lock.inputs.get(_input(planned)) if lock else None
    if path:
        # The user's own file: `lock` blesses a change of it and shows that.
        return wheel_of_workspace(files, path, None if request.command == "lock" else expected, plan.target.roots)
    environment = request.environment or dict(os.environ)
    return wheel_of_index(
        planned.requirement,
        cache_folder(environment),
        expected,
        plan.target.roots,
        offline=request.offline,
        environment=environment,
        command=request.command,
    )
