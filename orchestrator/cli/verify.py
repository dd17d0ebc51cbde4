"""`verify`: which patches are in a tree or an image, derived from its code alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Severity, errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.cli.looked import Looked
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan
    from orchestrator.engine.states import Standing

_IMAGE = "An image instead: an OCI layout or archive, what `docker save` wrote, or - for such, or an export, on stdin."
ImageOption = Annotated[str | None, typer.Option("--image", metavar="ARCHIVE", help=_IMAGE)]
WhichOption = Annotated[
    str | None, typer.Option("--which", help="Which of several images in it: a tag, a platform, a digest's beginning.")
]
BaseOption = Annotated[
    list[str] | None,
    typer.Option("--base", metavar="ROOT=PATH", help="The base to compare with, if not the target's own."),
]
AuditOption = Annotated[
    Path | None, typer.Option("--audit", help="The log to compare with.", show_default="the image's own, or build/")
]


def command(
    tree: TreeOption = None,
    image: ImageOption = None,
    which: WhichOption = None,
    base: BaseOption = None,
    audit: AuditOption = None,
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> int:
    """Tell for every stage whether a tree or an image has it: applied, changed since, partly applied, not applied.

    No log and no marker is trusted. Exit code 0: all stages are in, as the pipeline makes them; 4: not, only partly, or
    changed since; 6: a log says otherwise.

    Example: orchestrator verify --image my-image.tar
    """
    from orchestrator.cli.looked import chains_of, run_on_base, tree_to_judge
    from orchestrator.cli.output import console, print_diagnostics, print_records, print_table
    from orchestrator.cli.steps import deeply, make_plan_for
    from orchestrator.emit.verified import shown
    from orchestrator.engine.foreign import foreign_changes
    from orchestrator.engine.standing import judge
    from orchestrator.engine.wheels import with_wheels

    request = Request(
        workspace, file, target, variant, tuple(settings or ()), tuple(tree or ()), offline, command="verify"
    )
    plan = make_plan_for(request)
    looked = tree_to_judge(plan, request, image, which)
    made, name = run_on_base(plan, request, looked.base, tuple(base or ()))
    chains = chains_of(made, request)
    here = looked.base.tree
    judged = deeply(lambda: judge(with_wheels(plan, looked.base.wheels), here, made, chains))
    found = judged.stages
    records: list[dict[str, Any]] = [*looked.records, *(standing.record() for standing in found)]
    if made is not None:
        run: Run = made
        records += [change.record() for change in deeply(lambda: foreign_changes(here, run, judged))]
    records.append({"event": "base", "known": made is not None, "name": name})
    logged, faults = _log(looked, plan, request, audit, found)
    records += logged
    faults = [*looked.faults, *faults]
    print_diagnostics([*looked.base.notices, *faults], as_json=as_json)
    if as_json:
        print_records(records)
    else:
        from rich.text import Text

        for part in shown(records):
            if isinstance(part, Text):
                console().print(part)
            else:
                print_table(part)
    return _exit_code(found, errors(faults))


def _exit_code(found: Sequence[Standing], faults: Sequence[Diagnostic]) -> ExitCode:
    from orchestrator.engine.states import State

    if any(fault.code.startswith("E6") for fault in faults):
        return ExitCode.MISMATCH
    wanted = [standing.state for standing in found if standing.state not in {State.SKIPPED, State.NOTHING}]
    return ExitCode.OK if not faults and all(s is State.APPLIED for s in wanted) else ExitCode.NOT_APPLIED


def _log(
    looked: Looked, plan: Plan, request: Request, named: Path | None, found: Sequence[Standing]
) -> tuple[list[dict[str, Any]], list[Diagnostic]]:
    """Return a record of what a log says against the tree, and the faults of the log or of the two together."""
    from orchestrator.cli.looked import log_of
    from orchestrator.emit.agreement import disagreements, of_this_pipeline, of_this_plan, tells_of_the_base
    from orchestrator.emit.audit import audit_faults, read_audit

    log = log_of(looked, request, named)
    if log is None:
        return [], []
    name, content, complete = log
    faults = audit_faults(name, content, complete=complete)
    if faults:
        return [{"event": "log", "log": name, "said": "damaged", "disagreements": []}], faults
    records = read_audit(content)
    tree = looked.base.tree
    if not of_this_pipeline(records, plan):
        return [{"event": "log", "log": name, "said": "another pipeline", "disagreements": []}], []
    own = named is None and looked.audit is None
    if own and tells_of_the_base(records, tree):
        return [{"event": "log", "log": name, "said": "the tree is its base", "disagreements": []}], []
    apart = disagreements(records, tree, plan, found)
    record = {"event": "log", "log": name, "said": "disagrees" if apart else "agrees", "disagreements": apart}
    if not apart:
        return [record], []
    notes = tuple(f"{', '.join(d['stages'])}: {d['about']}: {d['what']}" for d in apart)
    help_ = "Trust the tree: compare, then render and build again. `--audit` names another log."
    message = f"{name} and the tree disagree in {len(apart)} places"
    # What lies in build/ may be of an older pipeline, and then says nothing of a tree that nobody claims it made.
    weight = Severity.WARNING if own and not of_this_plan(records, plan) else Severity.ERROR
    return [record], [Diagnostic("E615", message, notes=notes, help=help_, severity=weight)]
