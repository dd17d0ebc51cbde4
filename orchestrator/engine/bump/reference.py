"""The run on the base that a pipeline was made for: what every other base is compared with."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.checks.view import Sources
from orchestrator.code.edits import Transform
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.lock import Chain, Lock
from orchestrator.engine.outcome import Applied, Run
from orchestrator.engine.rests import Authors, authors_after, pending, rested_on
from orchestrator.engine.run import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.core.tree import Tree
    from orchestrator.engine.outcome import StageResult
    from orchestrator.engine.plan import Plan, PlannedStage


@dataclass(frozen=True)
class Reference:
    """What the pipeline does to its own base: the results by stage, the chain, and what each edit rests on."""

    base: Tree
    """The base with the wheels of all stages."""
    made: Tree
    chain: Chain
    lock: Lock
    """A lock that knows this run and nothing else."""
    results: Mapping[str, StageResult]
    rests: Mapping[tuple[str, int], frozenset[str]]
    """(stage, number of the edit) → the stages whose code it anchors on."""
    own: Mapping[tuple[str, int], frozenset[int]]
    """(stage, number of the edit) → the earlier edits of its stage that it may anchor on."""
    sources: Sources = field(repr=False)
    plain: Tree | None = None
    """The base before the workspaces that made it, where such made it."""


def stage_results(plan: Plan, run: Iterator[StageResult | Run]) -> Iterator[StageResult]:
    """Yield the results of a run's stages; the run is not finished, so nothing of the end is judged."""
    for event in itertools.islice(run, len(plan.stages)):
        assert not isinstance(event, Run)  # noqa: S101 - the stages come first
        yield event


def make_reference(plan: Plan, base: Tree, lock: Lock | None, plain: Tree | None = None) -> Reference:
    """Return the run of `plan` on its own base, as far as other bases are compared with it.

    `plain` is the base before the workspaces that made it.
    """
    sources = Sources()
    authors: Authors = {}
    rests: dict[tuple[str, int], frozenset[str]] = {}
    own: dict[tuple[str, int], frozenset[int]] = {}
    results: dict[str, StageResult] = {}
    installed = made = base
    for result in stage_results(plan, events(plan, base, lock, sources=sources)):
        for edit in result.planned.edits:
            alone = dataclasses.replace(result.planned, edits=(edit,))
            rests[result.id, edit.number] = frozenset(rested_on(alone, result, authors, installed, sources))
        own.update(_own(result.planned, result, sources))
        authors = authors_after(authors, result, sources)
        results[result.id] = result
        made = made.with_roots(result.roots).with_files(result.after)
        installed = installed.with_roots(result.roots)
    links = (link for result in results.values() if isinstance(result.outcome, Applied) for link in result.links)
    chain = Chain(tuple(links))
    return Reference(
        installed, made, chain, Lock().with_base(base.digest, "", chain), results, rests, own, sources, plain
    )


def _own(
    planned: PlannedStage, result: StageResult, sources: Sources
) -> Iterator[tuple[tuple[str, int], frozenset[int]]]:
    """Yield for each edit that does not apply to what reaches its stage the edits of its file that come before it."""
    for index, edit in enumerate(planned.edits):
        earlier = [other.number for other in planned.edits[:index] if other.edit.file == edit.edit.file]
        raw = result.before.get(edit.edit.file)
        if not earlier or raw is None or isinstance(edit.edit.edit, Transform):
            continue
        try:
            alone = pending(edit, sources.get(edit.edit.file, raw)) is not None
        except Rejected:
            alone = False
        if not alone:
            yield (planned.id, edit.number), frozenset(earlier)
