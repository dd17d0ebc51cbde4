"""`lock`: bless what the stages meet in the base, by definition."""

from __future__ import annotations

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
from orchestrator.core.diagnostics import ExitCode, Severity

if TYPE_CHECKING:
    from orchestrator.cli.steps import BaseTree
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.outcome import Run


def command(
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    tree: TreeOption = None,
    offline: OfflineOption = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 6 if the lock is out of date.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept", metavar="STAGE", help="Bless only what this stage meets, after showing it. Repeatable."
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="RELEASE", help="With --accept: on this release, NAME==VERSION.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Compute pipeline.lock and show, definition by definition, what it blesses.

    A run on another tree (--tree) adds that base to the lock; the target's own base replaces its former one. With
    --accept only the definitions that some stages touch are blessed, after a diff of each that has changed; what the
    lock holds of other stages stays.

    Example: orchestrator lock --check
    """
    from orchestrator.cli.output import console, lines_of, print_diagnostics, print_records
    from orchestrator.cli.steps import LOCK, base_of, exit_code_of, lock_of, make_plan_for, run_on
    from orchestrator.cli.workspace import workspace_findings
    from orchestrator.emit.write import write_file
    from orchestrator.engine.lock import Lock, differences

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="lock"
    )
    if accept or to:
        from orchestrator.cli.accept import accept_stages

        lock_bytes = accept_stages(request, tuple(accept or ()), to, check=check, as_json=as_json)
        if lock_bytes is not None and not check:
            write_file(workspace / LOCK, lock_bytes)
        return ExitCode.MISMATCH if check and lock_bytes is not None else ExitCode.OK
    plan = make_plan_for(request)
    around = workspace_findings(plan, request)
    base = base_of(plan, request)
    run = run_on(plan, base, request, patched=bool(tree))
    print_diagnostics((*around, *base.notices, *run.diagnostics), lines_of(plan.read, run), as_json=as_json)
    if run.failed:
        return exit_code_of(run)
    old = lock_of(request) or Lock()
    new = _locked(old, run, base, keep=bool(tree))
    changes = differences(old, new)
    if as_json:
        print_records({"event": "lock", "change": change} for change in changes)
    else:
        for change in changes:
            console().print(change)
    stale = old.to_bytes() != new.to_bytes()
    if check:
        extra = any(found.code == "W141" and found.severity is Severity.WARNING for found in around)
        return ExitCode.MISMATCH if stale or extra else ExitCode.OK
    if stale:
        write_file(workspace / LOCK, new.to_bytes())
    if not as_json:
        console(stderr=True).print(f"{LOCK}: {len(changes)} changes" if stale else f"{LOCK}: nothing to bless")
    return ExitCode.OK


def _locked(old: Lock, run: Run, base: BaseTree, *, keep: bool) -> Lock:
    from importlib.metadata import version

    from orchestrator.engine.lock import Lock, chain_of

    others_too = keep or bool(run.plan.further_targets)  # each target is locked by a run of its own
    inputs = {**old.inputs, **base.inputs} if others_too else dict(base.inputs)
    others = {d: c for d, c in old.bases.items() if keep or old.base_names.get(d) != base.name}
    names = {d: n for d, n in old.base_names.items() if d in others}
    tools = {name: version(name) for name in ("libcst",)}
    lock = Lock(inputs, dict(run.plan.sources), others, names, tools, dict(run.plan.plugins))
    return lock.with_base(run.base.digest, base.name, chain_of(run))
