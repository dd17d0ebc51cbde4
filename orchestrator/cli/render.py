"""`render`: run, then write `build/` in one swap."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from orchestrator.core.diagnostics import ExitCode

if TYPE_CHECKING:
    from orchestrator.emit.audit import Circumstances


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
    as_json: JsonOption = False,
) -> int:
    """Write build/: Dockerfile, overlay, installer, run configuration, patches, audit and report.

    A failed run leaves build/ as it was and puts its records on stdout.

    Example: orchestrator render --variant first --output build-first
    """
    from orchestrator.cli.former import against_records, former_runs
    from orchestrator.cli.locked import lock_faults
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records
    from orchestrator.cli.steps import (
        base_of,
        exit_code_of,
        image_templates,
        lock_bytes,
        lock_of,
        make_plan_for,
        run_on,
    )
    from orchestrator.cli.workspace import workspace_findings
    from orchestrator.emit.against import against_table
    from orchestrator.emit.audit import read_audit
    from orchestrator.emit.build import build_files
    from orchestrator.emit.memory_table import memory_notes, memory_tables
    from orchestrator.emit.records import stage_record
    from orchestrator.emit.report.gathering import Surroundings
    from orchestrator.emit.tables import stages_table
    from orchestrator.emit.write import write_folder
    from orchestrator.origin.interpreter import compile_errors, find_interpreter

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="render"
    )
    plan = make_plan_for(request)
    image_templates(plan, required=True)
    surroundings = workspace_findings(plan, request)
    former = former_runs(against, plan)
    base = base_of(plan, request)
    run = run_on(plan, base, request)
    interpreter = find_interpreter(plan.facts.python)
    touched = {path: run.tree[path] for path in run.tree.changed_since(run.installed) if path.endswith(".py")}
    syntax = compile_errors(interpreter, touched) if interpreter and touched and not run.failed else ()
    unlocked = lock_faults(run, base, lock_of(request), refuse=locked, around=surroundings)
    found = (*surroundings, *base.notices, *run.diagnostics, *syntax, *unlocked)
    print_diagnostics(found, lines_of(plan.read, run), as_json=as_json)
    if run.failed or syntax or (locked and unlocked):
        print_records(stage_record(result, run.final.get(result.id, ())) for result in run.results)
        if run.failed:
            return exit_code_of(run)
        return ExitCode.CHECK_FAILED if syntax else ExitCode.MISMATCH
    # Where a tree was handed over from is a place on somebody's machine; what it is, its digest says.
    name = "handed over with --tree" if request.trees else base.name
    around = Surroundings(name, base.inputs, lock_bytes(request), unlocked)
    files = build_files(run, _circumstances(), around)
    folder = output if output is not None else workspace / "build"
    write_folder(folder, files)
    records = read_audit(files["audit.jsonl"])
    changes = against_records(against, former, files, plan)
    if as_json:
        print_records((*records, *changes))
    else:
        console().print(stages_table(records))
        for table in memory_tables(records):
            console().print()
            console().print(table)
        for note in memory_notes(records):
            console().print(note)
        for change in changes:
            console().print()
            console().print(against_table(change))
        console(stderr=True).print(
            f"{folder}: {len(files)} files, {len(touched)} of the package changed; base {base.name}"
        )
    return ExitCode.OK


def _circumstances() -> Circumstances:
    """Return clock, host and user: read here and nowhere else."""
    from orchestrator.emit.audit import Circumstances

    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = time.gmtime(int(epoch)) if epoch.isdecimal() else time.gmtime()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    command = " ".join(["orchestrator", *sys.argv[1:]])
    return Circumstances(time.strftime("%Y-%m-%dT%H:%M:%SZ", moment), socket.gethostname(), user, command)
