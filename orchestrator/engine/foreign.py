"""Foreign changes: what of a tree differs from the base and from all that the stages make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.checks.view import Sources
from orchestrator.code.scopes import MODULE, Definition, definitions_in, outermost_function
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.images import image
from orchestrator.engine.likeness import same_code
from orchestrator.engine.states import State
from orchestrator.engine.wheels import edited_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.core.tree import Tree
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.states import Judgement


@dataclass(frozen=True)
class Foreign:
    """A file that is not as the base has it, and that no stage makes so.

    `change` is added, changed or removed. `definitions` are those that differ, where a stage edits the file too.
    `layout` says that only comments or blank space differ.
    """

    path: str
    change: str
    definitions: tuple[str, ...] = ()
    layout: bool = False

    def record(self) -> dict[str, Any]:
        """Return the record of JSON output."""
        return {
            "event": "foreign",
            "path": self.path,
            "change": self.change,
            "definitions": list(self.definitions),
            "layout": self.layout,
        }


def foreign_changes(tree: Tree, made: Run, judged: Judgement) -> tuple[Foreign, ...]:
    """Return the foreign changes of `tree`, sorted by path; `made` is the run on the base.

    Only package roots that both have are compared. In a file that stages edit it is definitions that count: those
    that are not the pipeline's even with all that is missing put in, and that no stage's state speaks of.
    """
    roots = {path.partition("/")[0] for path in tree} & {path.partition("/")[0] for path in made.base}
    paths = sorted(path for path in {*tree, *made.base, *made.tree} if path.partition("/")[0] in roots)
    targets = edited_files(made.plan.stages)
    return tuple(
        found
        for path in paths
        if (found := _foreign(path, tree, made, judged if path in targets else None)) is not None
    )


def _foreign(path: str, tree: Tree, made: Run, judged: Judgement | None) -> Foreign | None:
    here = tree.get(path)
    known = [side.get(path) for side in (made.base, made.installed, made.tree)]
    if here in known:
        return None
    if judged is not None:
        names = tuple(_other_definitions(path, tree, made, judged)) if here is not None else ()
        return Foreign(path, "changed", names) if names else None
    if here is None:
        return Foreign(path, "removed")
    wanted = made.installed.get(path)
    if wanted is None:
        return Foreign(path, "added")
    return Foreign(path, "changed", layout=same_code(path, wanted, here))


def _other_definitions(path: str, tree: Tree, made: Run, judged: Judgement) -> Iterator[str]:
    """Yield the definitions of a file that differ from base and result alike, and that no stage's state speaks of."""
    if made.installed.get(path) is None or not path.endswith(".py"):
        return  # a deployed file is its stage's own
    sources = Sources()
    parts = (part for standing in judged.stages for part in standing.parts)
    told = {part.definition for part in parts if part.state not in {State.APPLIED, State.NOT}}
    try:
        sides = [sources.get(path, side[path]) for side in (made.installed, tree)]
        names = {outermost_function(source.tree, name) for source in sides for name, _ in definitions_in(source)}
    except Rejected:
        return
    for name in sorted({MODULE, *names}):
        definition = Definition(path, name)
        original, here, completed, wanted = (
            image(definition, side.get(path), sources) for side in (made.installed, tree, judged.completed, made.tree)
        )
        if definition not in told and here != original and completed != wanted:
            yield name
