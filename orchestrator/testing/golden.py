"""Golden folders: one a stage, with the tree that it meets in `before/` and what it makes of it in `after/`.

`after/` holds only what the stage writes itself: edited files, artefacts, and what it makes from templates. A deployed
file is its source, byte for byte, and is not kept twice. The trees are small modules of our own that have the shape of
the real code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orchestrator.core.tree import Tree
from orchestrator.engine.lock import chain_of
from orchestrator.engine.run import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan


@dataclass(frozen=True)
class Golden:
    """A stage's id, the tree before it, and the files and artefacts that it must make."""

    stage: str
    before: Tree
    after: Tree

    def varied(self, change: Callable[[bytes], bytes]) -> Golden:
        """Return the same stage with `change` made to the edited files, before and after alike."""
        edited = [path for path in self.after if path in self.before]
        return Golden(
            self.stage,
            self.before.with_files({path: change(self.before[path]) for path in edited}),
            self.after.with_files({path: change(self.after[path]) for path in edited}),
        )


def read_golden(folder: Path) -> Golden:
    """Return the golden stage in `folder`, which is named after the stage."""
    before, after = (_read(folder / part) for part in ("before", "after"))
    return Golden(folder.name, before, after)


def _read(folder: Path) -> Tree:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return Tree({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})


def alone(plan: Plan, stage: str) -> Plan:
    """Return the plan with one stage only, which needs nothing: the tree that it is given is as if others had run."""
    planned = next(each for each in plan.stages if each.id == stage)
    free = replace(planned, stage=planned.stage.model_copy(update={"needs": [], "enabled": True}))
    return replace(plan, stages=(free,), ancestors={stage: frozenset()})


def apply(plan: Plan, golden: Golden) -> Run:
    """Return the run of the stage alone on its own tree."""
    return run(alone(plan, golden.stage), golden.before)


def apply_again(plan: Plan, golden: Golden, first: Run, tree: Tree | None = None) -> Run:
    """Return the run of the stage alone on what a first run made, or on `tree`, with the first run's chain."""
    return run(alone(plan, golden.stage), first.tree if tree is None else tree, chain=chain_of(first))


def made(done: Run) -> dict[str, bytes]:
    """Return what a run wrote: changed files and artefacts. Of deployed files only those that are not their source."""
    deployed = _verbatim(done)
    changed = {path: done.tree[path] for path in done.tree.changed_since(done.base)}
    return {path: raw for path, raw in changed.items() if deployed.get(path) != raw} | dict(done.artefacts)


def deployed_files(done: Run) -> set[str]:
    """Return the paths of which the tree had nothing, or something else, and now has the source byte for byte."""
    sources = _verbatim(done)
    return {
        path for path, content in sources.items() if done.base.get(path) != content and done.tree.get(path) == content
    }


def _verbatim(done: Run) -> dict[str, bytes]:
    """Return path → content of the files that stages deploy as they are."""
    filled = {d.to for result in done.results for d in result.planned.stage.deploy if d.template}
    deploys = (d for result in done.results for d in result.planned.deploys)
    return {d.to: d.content for d in deploys if d.to not in filled}
