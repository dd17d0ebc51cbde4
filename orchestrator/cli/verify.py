"""`verify`: which patches are in a tree, derived from its code alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.options import (
    FileOption,
    JsonOption,
    OfflineOption,
    Request,
    SetOption,
    TargetOption,
    TreeOption,
    VariantOption,
    WorkspaceOption,
)
from orchestrator.core.diagnostics import ExitCode

if TYPE_CHECKING:
    from orchestrator.engine.outcome import StageResult


def command(
    tree: TreeOption = None,
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> int:
    """Tell for every stage whether a tree has it: applied, partly applied, not applied.

    No log and no marker is trusted. Exit code 0: all stages are in; 4: not, or only partly.

    Example: orchestrator verify --tree vllm=/usr/lib/python3/dist-packages/vllm
    """
    from orchestrator.cli.output import console, print_records
    from orchestrator.cli.steps import base_of, make_plan_for, run_on
    from orchestrator.emit.tables import states_table

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="verify"
    )
    plan = make_plan_for(request)
    base = base_of(plan, request)
    run = run_on(plan, base, request)
    rows = [(result.id, *state_of(result)) for result in run.results]
    if as_json:
        print_records(
            {"event": "verify", "stage": stage, "state": state, "detail": detail} for stage, state, detail in rows
        )
    else:
        console().print(states_table(rows))
    wanted = [state for stage, state, _ in rows if state not in {"skipped", "makes no change"}]
    return ExitCode.OK if all(state == "applied" for state in wanted) else ExitCode.NOT_APPLIED


def state_of(result: StageResult) -> tuple[str, str]:
    """Return (state, detail) of a stage on the tree that was looked at."""
    from orchestrator.engine.outcome import AlreadyApplied, Applied, Failed, Skipped

    planned = result.planned
    if not (planned.edits or planned.deploys or planned.wheels):
        return "makes no change", "it renders artefacts only"
    match result.outcome:
        case AlreadyApplied():
            return "applied", ""
        case Applied(fit=fit):
            return "not applied", f"it would apply ({fit})"
        case Skipped(reason=reason):
            return "skipped", reason
        case Failed(diagnostics=found):
            partly = [d for d in found if d.code == "E413"]
            if partly:
                return "partly applied", "; ".join(partly[0].notes)
            return "cannot be applied here", found[0].message
