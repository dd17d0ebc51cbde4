"""`diff`: `plan` as text, stage by stage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

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


def command(
    stage: Annotated[list[str] | None, typer.Argument(help="Only these stages.")] = None,
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    tree: TreeOption = None,
    offline: OfflineOption = False,
    stat: Annotated[bool, typer.Option("--stat", help="Only the number of lines.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Show what each stage changes, as patches that `git apply` takes.

    Example: orchestrator diff triton-enable
    """
    from orchestrator.cli.output import lines_of, print_diagnostics, print_records
    from orchestrator.cli.steps import Stopped, base_of, exit_code_of, make_plan_for, run_on
    from orchestrator.core.diagnostics import did_you_mean
    from orchestrator.emit.patches import patch_of
    from orchestrator.emit.patches import stat as stat_of

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="diff"
    )
    plan = make_plan_for(request)
    known = [planned.id for planned in plan.stages]
    unknown = [name for name in stage or () if name not in known]
    if unknown:
        raise Stopped.usage("E211", f"no stage '{unknown[0]}'", did_you_mean(unknown[0], known))
    base = base_of(plan, request)
    run = run_on(plan, base, request)
    print_diagnostics((*base.notices, *run.diagnostics), lines_of(plan.read, run), as_json=as_json)
    for result in run.results:
        if not result.after or (stage and result.id not in stage):
            continue
        rows = stat_of(result.before, result.after)
        if as_json:
            files = [{"path": path, "added": added, "removed": removed} for path, added, removed in rows]
            text = "" if stat else patch_of(result.before, result.after).decode("utf-8", errors="replace")
            print_records([{"event": "diff", "stage": result.id, "files": files, "patch": text}])
        elif stat:
            sys.stdout.write(f"{result.id}\n")
            sys.stdout.writelines(f"  {path} | +{added} -{removed}\n" for path, added, removed in rows)
        else:
            sys.stdout.write(f"# stage {result.id}\n")
            sys.stdout.flush()
            sys.stdout.buffer.write(patch_of(result.before, result.after))
            sys.stdout.buffer.flush()
    return exit_code_of(run)
