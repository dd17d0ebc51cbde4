"""Which earlier stages an edit rests on: those that wrote the code that it matches, or the definition around it.

An edit that matches in the base as well rests on nobody: where two stages then write one definition, their order is
all that matters.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.house.edited_lines import chunks
from orchestrator.code.edits import Transform
from orchestrator.code.rewrite import examine
from orchestrator.code.scopes import enclosing, first_line, named
from orchestrator.code.sites import Pending
from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.engine.attempt import attempt
from orchestrator.engine.outcome import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.checks.view import Sources
    from orchestrator.code.source import Source
    from orchestrator.core.tree import Tree
    from orchestrator.engine.ground import Ground
    from orchestrator.engine.outcome import StageResult
    from orchestrator.engine.plan import PlannedEdit, PlannedStage

_GONE = frozenset({"E401", "E402", "E403"})
_OF_TRANSFORMS = frozenset({"E401", "E415", "E416"})

Authors = dict[str, tuple[str, ...]]
"""File → for each of its lines the stage that wrote it, empty for one that was there."""


def authors_after(authors: Authors, result: StageResult, sources: Sources) -> Authors:
    """Return who wrote each line once a stage is applied; files that are no text of Python are left out."""
    found = dict(authors)
    deployed = {deploy.to for deploy in result.planned.deploys}
    for path, raw in result.after.items():
        if not path.endswith(".py"):
            continue
        after = sources.get(path, raw)
        before = result.before.get(path)
        try:
            if before is None or path in deployed:
                found[path] = (result.id,) * len(after.lines)
                continue
            found[path] = _carried(found.get(path, ()), sources.get(path, before), after, result.id)
        except Rejected:
            found.pop(path, None)
    return found


def _carried(was: tuple[str, ...], before: Source, after: Source, stage: str) -> tuple[str, ...]:
    was = was or ("",) * len(before.lines)
    lines: list[str] = []
    position = 1
    for chunk in chunks(before, after):
        lines += was[position - 1 : chunk.old.start - 1]
        lines += [stage] * len(chunk.new)
        position = chunk.old.stop
    return (*lines, *was[position - 1 :])


def rested_on(planned: PlannedStage, result: StageResult, authors: Authors, base: Tree, sources: Sources) -> set[str]:
    """Return the stages without whose output an applied stage would not have matched."""
    found: set[str] = set()
    for edit in planned.edits:
        file = edit.edit.file
        raw = result.before.get(file)
        if file not in authors or raw is None or not any(authors[file]):
            continue
        here = sources.get(file, raw)
        lines = pending(edit, here)
        if lines is None:
            continue
        wrote = {authors[file][line - 1] for line in lines} - {""}
        if not wrote and isinstance(edit.edit.edit, Transform):
            # A transform may ask for code that it leaves alone: then it rests on whoever wrote any of the file.
            wrote = set(authors[file])
        wrote -= {"", planned.id, *found}
        there = base.get(file) if wrote else None  # the base is asked last: most edits match what was there
        if there is None or pending(edit, sources.get(file, there)) is None:
            found |= wrote
    return found


def pending(planned: PlannedEdit, source: Source) -> set[int] | None:
    """Return the lines that an edit that is still to be done works on, None where it does nothing or fails."""
    scoped = planned.edit
    if isinstance(scoped.edit, Transform):
        return _transformed(planned, scoped.edit, source)
    try:
        state = examine(scoped.edit, source, scoped.within)
    except Rejected:
        return None
    return _lines(planned, state, source) if isinstance(state, Pending) else None


def _transformed(planned: PlannedEdit, edit: Transform, source: Source) -> set[int] | None:
    """Return the lines that a transform replaces or writes beside."""
    from orchestrator.code.transforms import run_transform  # noqa: PLC0415 - libcst only where used

    try:
        rewritten = run_transform(edit, source, planned.source)
        if rewritten is None:
            return None
        changed = [chunk.old for chunk in chunks(source, rewritten.source)]
    except (Rejected, SystemExit):
        return None
    beside = {line for old in changed for line in (*old, old.start - 1, old.stop)}
    around = {
        first_line(node)
        for line in beside
        for node in named(source, enclosing(source.tree, line))
        if not isinstance(node, ast.Module)
    }
    return {line for line in beside | around if 1 <= line <= len(source.lines)}


def _lines(planned: PlannedEdit, state: Pending, source: Source) -> set[int]:
    """Return the lines that an edit matches, and the first one of the definition that it works in."""
    lines = {site.place.line for site in state.sites}
    for change in state.changes:
        for node in change.removed:
            lines.update(_span(node))
    if planned.edit.within:
        lines.update(
            first_line(node) for node in named(source, planned.edit.within) if not isinstance(node, ast.Module)
        )
    return {line for line in lines if 1 <= line <= len(source.lines)}


def _span(node: ast.AST) -> range:
    start = getattr(node, "lineno", 0)
    return range(start, (getattr(node, "end_lineno", None) or start) + 1)


def undeclared(
    rests: Mapping[str, set[str]], results: Sequence[StageResult], ancestors: Mapping[str, frozenset[str]]
) -> Iterator[Diagnostic]:
    """Yield E515 for every stage that rests on the output of another without saying so."""
    for result in results:
        for other in sorted(rests.get(result.id, set()) - ancestors[result.id]):
            message = f"stage '{result.id}' anchors on code that stage '{other}' writes, and does not need it"
            help_ = f"Add '{other}' to its needs; with `after` alone it fails where '{other}' is switched off."
            yield Diagnostic("E515", message, result.planned.place, help=help_, stage=result.id)


def would_have_written(
    fault: Diagnostic,
    planned: PlannedStage,
    others: Sequence[tuple[PlannedStage, StageResult | None]],
    ground: Ground,
) -> Diagnostic:
    """Name, in a fault about code that is gone, the stage that would have written it: one that is off, or comes later.

    `others` are the stages not in the tree, in order: with their result where they were skipped.
    """
    edit = next((e for e in planned.edits if e.place == fault.place), None)
    if edit is None or fault.code not in (_OF_TRANSFORMS if isinstance(edit.edit.edit, Transform) else _GONE):
        return fault
    for skipped in (True, False):
        tree = ground.tree
        for other, result in others:
            if skipped is not (result is not None) or not _writes(other, edit.edit.file):
                continue
            tried = attempt(other, _on(ground, tree))
            if tried.faults or not tried.written:
                continue
            tree = tree.with_files(tried.written)
            raw = tree.get(edit.edit.file)
            if (
                edit.edit.file in tried.written
                and raw is not None
                and pending(edit, ground.sources.get(edit.edit.file, raw)) is not None
            ):
                return _naming(fault, other, result)
    return fault


def _writes(stage: PlannedStage, file: str) -> bool:
    return any(e.edit.file == file for e in stage.edits) or any(d.to == file for d in stage.deploys)


def _on(ground: Ground, tree: Tree) -> Ground:
    return dataclasses.replace(ground, tree=tree)


def _naming(fault: Diagnostic, other: PlannedStage, result: StageResult | None) -> Diagnostic:
    if result is not None and isinstance(result.outcome, Skipped):
        message = f"{fault.message}; stage '{other.id}' would have written it and is off ({result.outcome.reason})"
        help_ = f"Switch '{other.id}' on, or let this stage need it, so that it is skipped with it."
    else:
        message = f"{fault.message}; stage '{other.id}' writes it, but only after this stage"
        help_ = f"Add '{other.id}' to the needs of this stage."
    return dataclasses.replace(fault, message=message, help=help_)
