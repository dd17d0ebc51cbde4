"""`plan`: the full run in memory; nothing is written."""

from __future__ import annotations

import sys
from enum import StrEnum
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


class Format(StrEnum):
    """How a plan is shown."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"


def command(
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    tree: TreeOption = None,
    offline: OfflineOption = False,
    shape: Annotated[Format, typer.Option("--format", help="text, json, mermaid or dot.")] = Format.TEXT,
    as_json: JsonOption = False,
) -> int:
    """Run the pipeline in memory and show what each stage would do.

    Example: orchestrator plan --set v1_max_len=4096 --format mermaid
    """
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records
    from orchestrator.cli.steps import base_of, exit_code_of, make_plan_for, run_on
    from orchestrator.emit.graphs import dot, mermaid
    from orchestrator.emit.records import stage_record
    from orchestrator.emit.tables import stages_table

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="plan"
    )
    plan = make_plan_for(request)
    base = base_of(plan, request)
    run = run_on(plan, base, request)
    records = [stage_record(result, run.final.get(result.id, ())) for result in run.results]
    shape = Format.JSON if as_json else shape
    print_diagnostics((*base.notices, *run.diagnostics), lines_of(plan.read, run), as_json=shape is Format.JSON)
    match shape:
        case Format.JSON:
            print_records(records)
        case Format.MERMAID:
            sys.stdout.write(mermaid(records))
        case Format.DOT:
            sys.stdout.write(dot(records))
        case Format.TEXT:
            console().print(f"{plan.name} on {base.name}")
            console().print(stages_table(records))
    return exit_code_of(run)
