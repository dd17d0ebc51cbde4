"""`plan`: the full run in memory; nothing is written."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import (
    CellOption,
    FileOption,
    JsonOption,
    MatrixOption,
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
    touched_by: Annotated[
        str | None,
        typer.Option(
            "--touched-by",
            metavar="REV",
            help="Run nothing: show what the difference to a commit reaches. REV, A..B or A...B.",
        ),
    ] = None,
    fail_if_none: Annotated[
        bool, typer.Option("--fail-if-none", help="With --touched-by: exit 1 if it reaches nothing.")
    ] = False,
    matrix: MatrixOption = False,
    cell: CellOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run the pipeline in memory and show what each stage would do.

    With --touched-by it says which stages, edits, files and artefacts a difference in git reaches. With --matrix it
    shows how each stage comes out on each target under each variant.

    Example: orchestrator plan --set v1_max_len=4096 --format mermaid
    """
    from orchestrator.cli.locked import source_faults
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records, print_table
    from orchestrator.cli.steps import base_of, exit_code_of, lock_of, make_plan_for, run_on
    from orchestrator.cli.workspace import workspace_findings
    from orchestrator.emit.graphs import dot, mermaid
    from orchestrator.emit.memory import memory_records
    from orchestrator.emit.memory_table import memory_notes, memory_tables
    from orchestrator.emit.records import stage_record
    from orchestrator.emit.tables import stages_table

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="plan"
    )
    shape = Format.JSON if as_json else shape
    if touched_by is not None or fail_if_none:
        return _touched(request, touched_by, fail_if_none=fail_if_none, as_json=shape is Format.JSON)
    if matrix or cell:
        return _matrix(request, tuple(cell or ()), shape)
    plan = make_plan_for(request)
    around = workspace_findings(plan, request)
    base = base_of(plan, request)
    run = run_on(plan, base, request)
    records = [stage_record(result, run.final.get(result.id, ())) for result in run.results]
    lock = lock_of(request)
    unlocked = source_faults(plan, lock) if lock else ()
    found = (*around, *base.notices, *run.diagnostics, *unlocked)
    print_diagnostics(found, lines_of(plan.read, run), as_json=shape is Format.JSON)
    match shape:
        case Format.JSON:
            print_records((*records, *memory_records(run)))
        case Format.MERMAID:
            sys.stdout.write(mermaid(records))
        case Format.DOT:
            sys.stdout.write(dot(records))
        case Format.TEXT:
            console().print(f"{plan.name} on {base.name}")
            print_table(stages_table(records))
            memory = memory_records(run)
            for table in memory_tables(memory):
                console().print()
                print_table(table)
            for note in memory_notes(memory):
                console().print(note)
    return exit_code_of(run)


def _matrix(request: Request, cells: tuple[str, ...], shape: Format) -> int:
    """Print the table of stages by cells; the exit code is the worst of the cells'."""
    from orchestrator.cli.matrix import matrix_of
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records, print_table
    from orchestrator.cli.steps import Stopped, workspace_files
    from orchestrator.emit.matrix import cell_records, shared_words, stage_records
    from orchestrator.emit.tables import crossed_table

    if shape not in {Format.TEXT, Format.JSON}:
        raise Stopped.usage("E700", f"--format {shape} draws one plan, --matrix makes many", "Plan the one cell.")
    made = matrix_of(request, cells, locked=None)
    print_diagnostics(made.found, lines_of(workspace_files(request).read), as_json=shape is Format.JSON)
    records = cell_records(made.results)
    counts = made.shared.counts()
    if shape is Format.JSON:
        print_records([*stage_records(made.results), *records, {"event": "matrix", "made": counts}])
    else:
        print_table(crossed_table(stage_records(made.results), [record["folder"] for record in records]))
        console(stderr=True).print(shared_words(counts, len(records)))
    return made.exit_code


def _touched(request: Request, revisions: str | None, *, fail_if_none: bool, as_json: bool) -> int:
    """Print what a difference reaches; 1 where it reaches nothing and that was asked."""
    from orchestrator.cli.output import console, print_records, print_table
    from orchestrator.cli.steps import Stopped
    from orchestrator.cli.touched import touched_by
    from orchestrator.core.diagnostics import ExitCode
    from orchestrator.emit.tables import reach_table

    if revisions is None:
        raise Stopped.usage("E700", "--fail-if-none goes with --touched-by", "Write --touched-by REV as well.")
    found = touched_by(request, revisions)
    records = found.records()
    if as_json:
        print_records(records)
    elif found.reaches:
        print_table(reach_table(records))
    else:
        files = f"{len(found.changed)} file{'s' * (len(found.changed) != 1)}"
        console().print(f"NONE: {revisions} reaches no stage, no edit, no file of the tree and no artefact")
        console().print(f"{files} changed{': ' if found.changed else ''}{', '.join(found.changed)}")
    return ExitCode.NO if fail_if_none and not found.reaches else ExitCode.OK
