"""The order of the stages: networkx, and only here.

Guarantees of `order`:
1. a stage comes after everything that it needs, and after all that it names in `after`;
2. a stage that renders the run configuration comes after every stage that provides to it, unless that
   would make a cycle;
3. among stages that are free to go, the one written first goes first;
4. the same pipeline always gives the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import networkx as nx

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.engine.model import Stage

Placed = Callable[[int, str], Place]


def order(stages: Sequence[Stage], place: Placed) -> tuple[str, ...]:
    """Return the ids in order; raise `Rejected` (E210 … E213) with every fault of the graph.

    `place(index, key)` says where key `key` of stage `index` stands.
    """
    faults = [*_duplicates(stages, place), *_bad_needs(stages, place)]
    if faults:
        raise Rejected(faults)
    graph = _graph(stages)
    cycle = _cycle(graph)
    if cycle:
        index = next(i for i, stage in enumerate(stages) if stage.id == cycle[0])
        message = f"the stages need each other in a circle: {' → '.join([*cycle, cycle[0]])}"
        raise Rejected(Diagnostic("E213", message, place(index, "needs"), help="Remove one of these needs."))
    _order_providers(graph, stages)
    position = {stage.id: i for i, stage in enumerate(stages)}
    return tuple(nx.lexicographical_topological_sort(graph, key=position.__getitem__))


def ancestors(stages: Sequence[Stage]) -> dict[str, frozenset[str]]:
    """Return, for each stage, every stage that is ordered before it by `needs` or `after`, directly or not."""
    graph = _graph(stages)
    return {stage.id: frozenset(nx.ancestors(graph, stage.id)) for stage in stages}


def _graph(stages: Sequence[Stage]) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(stage.id for stage in stages)
    graph.add_edges_from((first, stage.id) for stage in stages for first in (*stage.needs, *stage.after))
    return graph


def _order_providers(graph: nx.DiGraph[str], stages: Sequence[Stage]) -> None:
    renderers = [s.id for s in stages if any(r.schema_ == "run-config" for r in s.render)]
    providers = [s.id for s in stages if s.provides.flags or s.provides.environment]
    for renderer in renderers:
        for provider in providers:
            if provider != renderer and not nx.has_path(graph, renderer, provider):
                graph.add_edge(provider, renderer)


def _duplicates(stages: Sequence[Stage], place: Placed) -> list[Diagnostic]:
    first: dict[str, int] = {}
    faults = []
    for i, stage in enumerate(stages):
        if stage.id in first:
            where = place(first[stage.id], "id")
            message = f"stage '{stage.id}' exists already in line {where.line}"
            faults.append(Diagnostic("E210", message, place(i, "id"), stage=stage.id, help="Give it another id."))
        first.setdefault(stage.id, i)
    return faults


def _bad_needs(stages: Sequence[Stage], place: Placed) -> list[Diagnostic]:
    known = [stage.id for stage in stages]
    faults = []
    for i, stage in enumerate(stages):
        others = [k for k in known if k != stage.id]
        for key, says, first in [("needs", "needs", n) for n in stage.needs] + [
            ("after", "comes after", a) for a in stage.after
        ]:
            if first == stage.id:
                message = f"stage '{stage.id}' {says} itself"
                faults.append(Diagnostic("E212", message, place(i, key), "Remove this need.", stage=stage.id))
            elif first not in known:
                message = f"stage '{stage.id}' {says} '{first}', which does not exist"
                help_ = did_you_mean(first, others) or "There is no other stage."
                faults.append(Diagnostic("E211", message, place(i, key), help_, stage=stage.id))
    return faults


def _cycle(graph: nx.DiGraph[str]) -> list[str]:
    try:
        edges = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return []
    return [edge[0] for edge in edges]
