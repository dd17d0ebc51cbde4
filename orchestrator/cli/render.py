"""`render`: run, then write `build/` in one swap."""

from __future__ import annotations

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
from orchestrator.core.diagnostics import ExitCode


def command(
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    tree: TreeOption = None,
    offline: OfflineOption = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write.", show_default="build")
    ] = None,
    locked: Annotated[bool, typer.Option("--locked", help="Refuse what the lock does not hold.")] = False,
    against: Annotated[
        Path | None, typer.Option("--against", help="A former render to show what the server's start differs in.")
    ] = None,
    matrix: MatrixOption = False,
    cell: CellOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write build/: Dockerfile, overlay, installer, run configuration, patches, audit and report.

    A failed run leaves build/ as it was and puts its records on stdout. With --matrix there is a folder for each
    target and variant, a summary and a docker-bake.json; one cell that fails leaves all of build/ as it was.

    Example: orchestrator render --variant first --output build-first
    """
    from orchestrator.cli.former import against_records, former_runs
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records, print_table
    from orchestrator.cli.rendering import rendered
    from orchestrator.cli.steps import base_of, image_templates, lock_bytes, make_plan_for, run_on
    from orchestrator.cli.workspace import workspace_findings
    from orchestrator.emit.against import against_table
    from orchestrator.emit.audit import read_audit
    from orchestrator.emit.memory_table import memory_notes, memory_tables
    from orchestrator.emit.records import stage_record
    from orchestrator.emit.tables import stages_table
    from orchestrator.emit.write import write_folder

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="render"
    )
    if matrix or cell:
        return _matrix(request, tuple(cell or ()), output, against, locked=locked, as_json=as_json)
    plan = make_plan_for(request)
    image_templates(plan, required=True)
    surroundings = workspace_findings(plan, request)
    former = former_runs(against, plan)
    blessed = lock_bytes(request)
    base = base_of(plan, request)
    run = run_on(plan, base, request)
    done = rendered(plan, base, run, request, surroundings, blessed, locked=locked)
    print_diagnostics(done.found, lines_of(plan.read, run), as_json=as_json)
    if done.files is None:
        print_records(stage_record(result, run.final.get(result.id, ())) for result in run.results)
        return done.exit_code
    files = done.files
    folder = output if output is not None else workspace / "build"
    write_folder(folder, files)
    records = read_audit(files["audit.jsonl"])
    changes = against_records(against, former, files, plan)
    if as_json:
        print_records((*records, *changes))
    else:
        print_table(stages_table(records))
        for table in memory_tables(records):
            console().print()
            print_table(table)
        for note in memory_notes(records):
            console().print(note)
        for change in changes:
            console().print()
            print_table(against_table(change))
        console(stderr=True).print(
            f"{folder}: {len(files)} files, {done.touched} of the package changed; base {base.name}"
        )
    return ExitCode.OK


def _matrix(
    request: Request, cells: tuple[str, ...], output: Path | None, against: Path | None, *, locked: bool, as_json: bool
) -> int:
    """Render every cell, then write all of them in one swap; where one fails nothing is written."""
    from orchestrator.cli.matrix import matrix_of
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records, print_table
    from orchestrator.cli.rendering import circumstances
    from orchestrator.cli.steps import Stopped, workspace_files
    from orchestrator.emit.matrix import cell_records, matrix_files, shared_words
    from orchestrator.emit.tables import cells_table
    from orchestrator.emit.write import write_folder

    if against is not None:
        raise Stopped.usage("E700", "--against compares one render, --matrix makes many", "Render the one cell.")
    made = matrix_of(request, cells, locked=locked)
    print_diagnostics(made.found, lines_of(workspace_files(request).read), as_json=as_json)
    records = cell_records(made.results)
    counts = made.shared.counts()
    if not made.exit_code:
        folder = output if output is not None else request.workspace / "build"
        files = matrix_files(made.results, counts, circumstances())
        write_folder(folder, files)
    if as_json:
        print_records([*records, {"event": "matrix", "made": counts}])
    else:
        print_table(cells_table(records))
        err = console(stderr=True)
        err.print(shared_words(counts, len(records)))
        failed = [record["folder"] for record in records if record["outcome"] == "failed"]
        if failed:
            err.print(f"nothing was written: {len(failed)} of {len(records)} cells failed: {', '.join(failed)}")
        else:
            err.print(f"{folder}: {len(files)} files; build them with `docker buildx bake` in that folder")
    return made.exit_code
