"""`validate`: everything that can be known without a source tree."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.options import (
    FileOption,
    JsonOption,
    Request,
    SetOption,
    TargetOption,
    VariantOption,
    WorkspaceOption,
)
from orchestrator.core.diagnostics import ExitCode


def command(
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check the pipeline without fetching anything.

    Example: orchestrator validate --variant aggressive
    """
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records
    from orchestrator.cli.steps import Stopped, image_templates, make_plan_for
    from orchestrator.cli.workspace import workspace_findings
    from orchestrator.engine.matrix import target_faults

    request = Request(workspace, file, target, variant, tuple(settings or ()), command="validate")
    plan = make_plan_for(request)
    image_templates(plan, required=False)
    # The plan has loaded its own target; the others that the pipeline names it has not.
    others = bool(target or plan.further_targets)
    faults = target_faults(request.file, plan.read(request.file), plan.read) if others else ()
    if faults:
        raise Stopped(faults, ExitCode.INVALID)
    around = workspace_findings(plan, request)
    print_diagnostics((*plan.warnings, *around), lines_of(plan.read), as_json=as_json)
    if as_json:
        print_records([{"event": "valid", "pipeline": plan.name, "stages": [s.id for s in plan.stages]}])
    else:
        count = f"{len(plan.stages)} stage{'s' * (len(plan.stages) != 1)}"
        console().print(f"{plan.name}: valid, {count}: {' → '.join(s.id for s in plan.stages)}")
    return ExitCode.OK
