"""The four guarantees of the order, over random graphs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Place, Rejected
from orchestrator.engine.graph import ancestors, order
from orchestrator.engine.model import Deploy, Provides, Render, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def stage(
    id_: str, needs: Sequence[str] = (), *, after: Sequence[str] = (), provides: bool = False, renders: bool = False
) -> Stage:
    deploy = [Deploy(source="k.py", to="pkg/k.py")]
    render = [Render(template="t.j2", to="run.yaml", schema="run-config")] if renders else []  # type: ignore[call-arg]  # its alias
    return Stage(
        id=id_,
        kind="template" if renders else "codemod",
        summary="s",
        needs=list(needs),
        after=list(after),
        deploy=deploy,
        render=render,
        provides=Provides(environment={"A": "1"}) if provides else Provides(),
    )


def place(index: int, key: str) -> Place:
    return Place("pipeline.yaml", index + 1, len(key))


@st.composite
def graphs(draw: st.DrawFn) -> list[Stage]:
    """Stages in any order of writing, whose needs have no circle."""
    count = draw(st.integers(1, 9))
    needs: dict[str, list[str]] = {}
    for i in range(count):
        needs[f"s{i}"] = draw(st.lists(st.sampled_from(sorted(needs)), unique=True)) if needs else []
    stages = [
        stage(id_, wanted, provides=draw(st.booleans()), renders=draw(st.booleans())) for id_, wanted in needs.items()
    ]
    return draw(st.permutations(stages))


@given(graphs())
def test_a_stage_comes_after_all_that_it_needs(stages: list[Stage]) -> None:
    position = {id_: i for i, id_ in enumerate(order(stages, place))}
    assert sorted(position) == sorted(s.id for s in stages)
    assert all(position[need] < position[s.id] for s in stages for need in s.needs)


@given(graphs())
def test_a_run_configuration_comes_after_all_that_provide_to_it(stages: list[Stage]) -> None:
    position = {id_: i for i, id_ in enumerate(order(stages, place))}
    above = ancestors(stages)
    renderers = [s.id for s in stages if s.render]
    providers = [s.id for s in stages if s.provides.environment]
    only_renderer = len(renderers) == 1
    for renderer in renderers if only_renderer else ():
        for provider in providers:
            if provider != renderer and renderer not in above[provider]:
                assert position[provider] < position[renderer]


@given(graphs())
def test_among_the_stages_that_may_go_the_one_written_first_goes(stages: list[Stage]) -> None:
    plain = [s.model_copy(update={"render": [], "provides": Provides()}) for s in stages]
    ordered = order(plain, place)
    written = {s.id: i for i, s in enumerate(plain)}
    needs: Mapping[str, list[str]] = {s.id: s.needs for s in plain}
    for i, id_ in enumerate(ordered):
        done = set(ordered[:i])
        ready = [other for other in ordered[i:] if done >= set(needs[other])]
        assert id_ == min(ready, key=written.__getitem__)


@given(graphs())
def test_the_same_stages_always_give_the_same_order(stages: list[Stage]) -> None:
    assert order(stages, place) == order(list(stages), place)


@given(graphs(), st.data())
def test_a_circle_is_shown_as_a_path_that_really_goes_round(stages: list[Stage], data: st.DataObject) -> None:
    above = ancestors(stages)
    pairs = [(low, high) for high in above for low in above[high]]
    if not pairs:
        return
    low, high = data.draw(st.sampled_from(sorted(pairs)))
    closed = [s.model_copy(update={"needs": [*s.needs, high]}) if s.id == low else s for s in stages]
    with pytest.raises(Rejected) as caught:
        order(closed, place)
    (found,) = caught.value.diagnostics
    path = found.message.rpartition(": ")[2].split(" → ")
    needs = {s.id: s.needs for s in closed}
    assert found.code == "E213"
    assert path[0] == path[-1]
    assert len(path) > 1
    assert all(before in needs[after] for before, after in itertools.pairwise(path))


def test_faults_of_the_graph_are_all_reported() -> None:
    with pytest.raises(Rejected) as caught:
        order([stage("a", ["a"]), stage("b", ["c"]), stage("a")], place)
    assert [(d.code, d.place.line if d.place else 0) for d in caught.value.diagnostics] == [
        ("E210", 3),
        ("E212", 1),
        ("E211", 2),
    ]


def test_a_stage_comes_after_what_it_names_in_after_without_needing_it() -> None:
    stages = [stage("late", after=["early"]), stage("early")]
    assert order(stages, place) == ("early", "late")
    assert ancestors(stages)["late"] == {"early"}


def test_needs_and_after_together_may_not_go_round_in_a_circle() -> None:
    stages = [stage("one", after=["two"]), stage("two", needs=["one"])]
    with pytest.raises(Rejected) as caught:
        order(stages, place)
    assert caught.value.diagnostics[0].code == "E213"
