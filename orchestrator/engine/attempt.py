"""Try one stage on a tree: a transaction. Either all of its edits are pending and applied, or all are there already.

The state of every edit is derived from code. Where the chain knows the definition, its position decides;
elsewhere the pattern does. A mix of applied and not is refused.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.code.edits import Transform
from orchestrator.code.locals import newly_unbound
from orchestrator.code.rewrite import Examined, Rewritten, apply, apply_together, examine
from orchestrator.code.scopes import (
    FILE,
    MODULE,
    Definition,
    definition_digest,
    definitions_in,
    enclosing,
    outermost_function,
)
from orchestrator.code.sites import Pending, Present
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.engine.blame import explained
from orchestrator.engine.ground import Attempt, Ground
from orchestrator.engine.images import definition_of, positions
from orchestrator.engine.wheels import lay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.code.sites import Site
    from orchestrator.code.source import Source
    from orchestrator.engine.plan import PlannedDeploy, PlannedEdit, PlannedStage


def attempt(stage: PlannedStage, ground: Ground) -> Attempt:
    """Return what applying `stage` gives; faults are in the result, nothing is raised for bad input."""
    laid = lay(stage, ground.tree, {d.file: by for d, by in ground.writers.items()}, ground.targets)
    if laid.faults:
        return Attempt(faults=laid.faults)
    tried = _attempt_code(stage, ground.with_roots(laid.roots))
    tried.roots = laid.roots
    tried.present[:0], tried.pending[:0] = laid.present, laid.pending
    if stage.wheels and not tried.faults:
        _refuse_mix(stage, tried)
    return tried


def _attempt_code(stage: PlannedStage, ground: Ground) -> Attempt:
    known = positions(stage, ground)
    tried = Attempt()
    if known and None not in known.values():
        tried.present = [str(definition) for definition, applied in known.items() if applied]
        tried.pending = [str(definition) for definition, applied in known.items() if not applied]
        if tried.present:
            _refuse_mix(stage, tried)
            return tried
        tried = Attempt()
    for group in _by_file(stage.edits):
        applied = [e for e in group if known and known.get(definition_of(e, ground))]
        _edits_of_file(stage, [e for e in group if e not in applied], ground, tried)
        tried.present += [_name(e) for e in applied]
        if tried.faults:
            break  # later edits of the stage may rest on these
    if not tried.faults:
        for deploy in stage.deploys:
            _deploy(deploy, stage, ground, tried)
    if not tried.faults:
        _refuse_mix(stage, tried)
    return tried


def _name(planned: PlannedEdit) -> str:
    return f"edit {planned.number} in {planned.edit.file}"


def _refuse_mix(stage: PlannedStage, tried: Attempt) -> None:
    if tried.present and tried.pending:
        tried.faults.append(_mixed(stage, tried.present, tried.pending))


def _mixed(stage: PlannedStage, present: list[str], pending: list[str]) -> Diagnostic:
    message = "the stage is in the tree in part: some of it is applied and some is not"
    notes = (*(f"applied:     {part}" for part in present), *(f"not applied: {part}" for part in pending))
    help_ = "Start from the base, or find out who wrote the applied part."
    return Diagnostic("E413", message, stage.place, help_, notes)


def _by_file(edits: Sequence[PlannedEdit]) -> Iterator[list[PlannedEdit]]:
    """Yield runs of edits that follow one another in one file; a transform stands alone."""
    run: list[PlannedEdit] = []
    for edit in edits:
        if run and (run[0].edit.file != edit.edit.file or isinstance(edit.edit.edit, Transform)):
            yield run
            run = []
        run.append(edit)
        if isinstance(edit.edit.edit, Transform):
            yield run
            run = []
    if run:
        yield run


def _edits_of_file(stage: PlannedStage, edits: Sequence[PlannedEdit], ground: Ground, tried: Attempt) -> None:
    """Try edits together, which parses the file once; where they depend on one another, or fail, one by one."""
    if len(edits) > 1 and _together(edits, ground, tried):
        return
    for edit in edits:
        try:
            _edit(edit, ground, tried)
        except Rejected as error:
            tried.faults.extend(explained(d, stage, edit, ground) for d in error.diagnostics)
            return


def _together(edits: Sequence[PlannedEdit], ground: Ground, tried: Attempt) -> bool:
    """Apply edits of one file in one step and return True, or change nothing and return False."""
    file = edits[0].edit.file
    try:
        source = ground.source(file, tried.written)
        states = [Examined(e.edit.edit, e.edit.within, examine(e.edit.edit, source, e.edit.within)) for e in edits]
        if not any(isinstance(each.state, Pending) for each in states):
            return False
        rewritten = apply_together(source, states)
    except Rejected:
        return False
    if newly_unbound(source, rewritten.old_lines, rewritten.source, rewritten.new_lines):
        return False
    for edit, each in zip(edits, states, strict=True):
        (tried.pending if isinstance(each.state, Pending) else tried.present).append(_name(edit))
        tried.sites.extend((edit.number, _scoped(site, source)) for site in each.state.sites)
    _keep(rewritten, source, ground, tried)
    return True


def _keep(rewritten: Rewritten, source: Source, ground: Ground, tried: Attempt) -> None:
    """Take over a rewritten file and note the definitions that it changed."""
    file = rewritten.source.path
    _write(rewritten, ground, tried)
    for site in rewritten.sites:
        tried.touched.add(Definition(file, enclosing(source.tree, site.place.line)))
    for lines in rewritten.new_lines:
        tried.touched.update(Definition(file, enclosing(rewritten.source.tree, line)) for line in lines)


def _edit(planned: PlannedEdit, ground: Ground, tried: Attempt) -> None:
    scoped = planned.edit
    source = ground.source(scoped.file, tried.written)
    name = _name(planned)
    if isinstance(scoped.edit, Transform):
        from orchestrator.code.transforms import run_transform, says_applied  # noqa: PLC0415 - libcst only where used

        own = planned.source or scoped.edit.origin
        try:
            rewritten = run_transform(scoped.edit, source, own)
        except SystemExit as error:
            message = f"the transform ended the program: exit({error.code!r})"
            raise Rejected(Diagnostic("E415", message, Place(own), help="Raise an exception instead.")) from None
        if rewritten is None and says_applied(scoped.edit, source, own):
            tried.present.append(name)
            return
        if rewritten is None:
            message = f"transform '{scoped.edit.name}' changes nothing in {scoped.file}"
            help_ = (
                "If it is applied already, `orchestrator lock` on the base makes that known; else its target is gone."
            )
            raise Rejected(Diagnostic("E416", message, help=help_))
        _take(rewritten, source, name, planned, tried)
        _write(rewritten, ground, tried)
        tried.touched.update(_changed_definitions(source, rewritten.source))
        return
    state = examine(scoped.edit, source, scoped.within)
    match state:
        case Present(sites=sites):
            tried.present.append(name)
            tried.sites.extend((planned.number, _scoped(site, source)) for site in sites)
        case Pending():
            rewritten = apply(scoped.edit, source, scoped.within, state)
            _take(rewritten, source, name, planned, tried)
            _keep(rewritten, source, ground, tried)


def _take(rewritten: Rewritten, source: Source, name: str, planned: PlannedEdit, tried: Attempt) -> None:
    unbound = newly_unbound(source, rewritten.old_lines, rewritten.source, rewritten.new_lines)
    if unbound:
        raise Rejected(unbound)
    tried.pending.append(name)
    tried.sites.extend((planned.number, _scoped(site, source)) for site in rewritten.sites)


def _write(rewritten: Rewritten, ground: Ground, tried: Attempt) -> None:
    tried.written[rewritten.source.path] = rewritten.source.raw
    ground.sources.keep(rewritten.source)  # parsed already


def _scoped(site: Site, source: Source) -> Site:
    return dataclasses.replace(site, scope=enclosing(source.tree, site.place.line))


def _changed_definitions(before: Source, after: Source) -> set[Definition]:
    names = {MODULE, *(n for n, _ in definitions_in(before)), *(n for n, _ in definitions_in(after))}
    return {
        Definition(before.path, outermost_function(after.tree, name))
        for name in names
        if definition_digest(before, name) != definition_digest(after, name)
    }


def _deploy(deploy: PlannedDeploy, stage: PlannedStage, ground: Ground, tried: Attempt) -> None:
    name = f"file {deploy.to}"
    if deploy.to in tried.written or sum(other.to == deploy.to for other in stage.deploys) > 1:
        message = f"the stage writes {deploy.to} twice, so one of the two is lost"
        help_ = "Deploy one file to a place, and leave edits of it to a later stage that needs this one."
        tried.faults.append(Diagnostic("E417", message, deploy.place, help_))
        return
    current = tried.written.get(deploy.to, ground.tree.get(deploy.to))
    definition = Definition(deploy.to, FILE)
    writer = next((stage for d, stage in ground.writers.items() if d.file == deploy.to), None)
    if current == deploy.content and writer is None:
        tried.present.append(name)
        return
    if current is not None and deploy.replaces is None:
        by = f"; stage '{writer}' wrote it" if writer else ""
        message = f"{deploy.to} exists already{by}"
        help_ = "Say `replaces:` with the reason if the whole file is meant to go, or change it by edits."
        tried.faults.append(Diagnostic("E417", message, deploy.place, help_))
        return
    tried.pending.append(name)
    tried.written[deploy.to] = deploy.content
    tried.touched.add(definition)
