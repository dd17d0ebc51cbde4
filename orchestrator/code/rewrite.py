"""Apply one edit to one source: find its sites, splice, prove.

`examine` tells the state of an edit from the code alone; `apply` splices a pending one and checks that
the result is closed: nothing is left that the edit would change again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.edits import Assign, Delete, Edit, Import, Insert, Replace, Transform
from orchestrator.code.operations import assign, delete, import_, insert, replace
from orchestrator.code.patterns import find_matches, same_code, written
from orchestrator.code.proof import Replacements, proved
from orchestrator.code.scopes import ScopeNode, definitions_in, named
from orchestrator.code.sites import Change, Pending, Present, Site, first_line_of, site_notes
from orchestrator.code.source import not_too_deep
from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from orchestrator.code.source import Source


@dataclass(frozen=True)
class Rewritten:
    """A source after an edit, with the edit's sites and the lines it changed (in the source before), and those new."""

    source: Source
    sites: tuple[Site, ...]
    old_lines: tuple[range, ...]
    new_lines: tuple[range, ...]


def scope_of(source: Source, within: str | None) -> ScopeNode:
    """Return the one definition that `within` names; raise `Rejected` (E402, E405) for none or several."""
    found = named(source, within)
    if len(found) == 1:
        return found[0]
    if found:
        sites = tuple(f"{source.place(node)}   {first_line_of(source, node)}" for node in found)
        message = f"`{within}` is defined {len(found)} times in {source.path}"
        raise Rejected(Diagnostic("E405", message, notes=("sites:", *sites), help="Name an enclosing definition."))
    names = [name for name, _ in definitions_in(source)]
    help_ = did_you_mean(within or "", names)
    last = (within or "").rpartition(".")[2]
    moved = [name for name in names if name.rpartition(".")[2] == last]
    if moved:
        help_ = f"It may have moved: {', '.join(f'`{name}`' for name in moved)}."
    raise Rejected(Diagnostic("E402", f"no definition `{within}` in {source.path}", help=help_))


def examine(edit: Edit, source: Source, within: str | None) -> Pending | Present:
    """Return whether `edit` is pending in `source` or present; raise `Rejected` (E402 … E412) if neither."""
    with not_too_deep(source.path):
        return _examine(edit, source, scope_of(source, within))


def _examine(edit: Edit, source: Source, scope: ScopeNode) -> Pending | Present:
    match edit:
        case Assign():
            return assign(edit, source, scope)
        case Replace():
            return replace(edit, source, scope)
        case Delete():
            return delete(edit, source, scope)
        case Insert():
            return insert(edit, source, scope)
        case Import():
            return import_(edit, source, scope)
        case Transform():
            raise TypeError("transforms are run by orchestrator.code.transforms")


@dataclass(frozen=True)
class Examined:
    """An edit, the definition that it works in, and its state in a source."""

    edit: Edit
    within: str | None
    state: Pending | Present


def apply(edit: Edit, source: Source, within: str | None, pending: Pending) -> Rewritten:
    """Return `source` with the pending edit applied; raise `Rejected` (E406, E411) where the result is not right."""
    return apply_together(source, [Examined(edit, within, pending)])


def apply_together(source: Source, examined: Sequence[Examined]) -> Rewritten:
    """Return `source` with several edits applied that were examined in it: one splice, one parse, one proof.

    The result is that of one edit after the other, or `Rejected` (E405, E406, E411): edits that meet, that rest
    on one another, or that match what another wrote have to be applied one by one.
    """
    with not_too_deep(source.path):
        return _applied(source, examined)


def _applied(source: Source, examined: Sequence[Examined]) -> Rewritten:
    pending = Pending(
        tuple(site for each in examined if isinstance(each.state, Pending) for site in each.state.sites),
        tuple(change for each in examined if isinstance(each.state, Pending) for change in each.state.changes),
    )
    if _meet(pending.changes):
        message = "sites of the pattern lie inside one another"
        raise Rejected(Diagnostic("E405", message, notes=site_notes(pending.sites), help="Narrow the pattern."))
    result = source.splice(change.splice for change in pending.changes)
    try:
        after = result.tree
    except Rejected as error:
        found = error.diagnostics[0]
        message = f"the result does not parse: {found.message}"
        raise Rejected(Diagnostic("E411", message, found.place, help="Look at the inserted code.")) from None
    if not _says(source, result, after, pending.changes):
        message = "the result does not say what the edit says"
        help_ = "The site shares its line or its string with other code: replace the whole statement."
        raise Rejected(Diagnostic("E411", message, pending.sites[0].place, help=help_))
    for each in examined:
        _closed(each.edit, result, each.within)
    old_lines = tuple(_touched(source, [change]) for change in pending.changes)
    return Rewritten(result, pending.sites, old_lines, _new_lines(result, pending.changes))


def _meet(changes: Sequence[Change]) -> bool:
    """Tell whether changes overlap, or hang on one and the same statement."""
    spans = sorted(change.splice.span for change in changes)
    if any(left.end > right.start for left, right in itertools.pairwise(spans)):
        return True
    anchors = [id(node) for change in changes for node in (*change.removed, change.neighbour) if node is not None]
    return len(set(anchors)) < len(anchors)


def _says(source: Source, result: Source, after: ast.Module, changes: Sequence[Change]) -> bool:
    """Tell whether the tree after is the tree before with the changes, and nothing else."""
    if not source.tree.body:  # an insertion into a module without statements
        return same_code(tuple(after.body), tuple(node for change in changes for node in change.brought))
    added = len(result.lines) - len(source.lines)
    return proved(source.tree, after, _replacements(changes), _touched(source, changes), added)


def _touched(source: Source, changes: Sequence[Change]) -> range:
    """Return the lines of `source` from the first to the last that a change spans or stands beside."""
    spans = [change.splice.span for change in changes]
    spans += [source.span(change.neighbour) for change in changes if change.neighbour]
    first = source.line_of(min(span.start for span in spans))
    return range(first, source.line_of(max(span.end for span in spans)) + 1)


def _replacements(changes: Sequence[Change]) -> Replacements:
    replaced: Replacements = {}
    for change in changes:
        if change.removed:
            replaced[id(change.removed[0])] = (len(change.removed), change.brought)
        elif change.neighbour is not None:
            # An insertion is the replacement of a neighbour by itself and the new statements.
            together = (change.neighbour, *change.brought) if change.below else (*change.brought, change.neighbour)
            replaced[id(change.neighbour)] = (1, together)
    return replaced


def _new_lines(result: Source, changes: Sequence[Change]) -> tuple[range, ...]:
    lines: list[range] = []
    shift = 0
    for change in sorted(changes, key=lambda c: c.splice.span):
        start = change.splice.span.start + shift
        end = start + len(change.splice.text)
        shift += len(change.splice.text) - (change.splice.span.end - change.splice.span.start)
        if change.brought:
            text = change.splice.text
            start += len(text) - len(text.lstrip())
            end -= len(text) - len(text.rstrip())
            lines.append(range(result.line_of(start), result.line_of(max(start, end - 1)) + 1))
    return tuple(lines)


def _closed(edit: Edit, result: Source, within: str | None) -> None:
    """Refuse an edit whose result it would change again (rule 3)."""
    help_ = "Make the pattern narrower than the replacement, so that it cannot match what it wrote."
    if isinstance(edit, Replace | Delete):
        again = find_matches(edit.pattern, scope_of(result, within))
        if again:
            what = first_line_of(result, again[0].first)
            message = f"the pattern matches its own result: {what}"
            raise Rejected(Diagnostic("E406", message, result.place(again[0].first), help=help_))
        return
    try:
        state = examine(edit, result, within)
    except Rejected as error:
        message = f"the edit does not recognise its own result: {error.diagnostics[0].message}"
        raise Rejected(Diagnostic("E406", message, help=help_)) from None
    if isinstance(state, Pending):
        message = "the edit would apply to its own result again"
        if isinstance(edit, Assign):
            message = f"`{written(edit.target.code)}` is given a value that `from` still takes for the old one"
            help_ = "Let `from` and `value` differ; where the value is to stay, switch the stage off by `enabled:`."
        raise Rejected(Diagnostic("E406", message, help=help_))
