"""Of the stages of a group exactly one is enabled, and the group's name stands for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.diagnostics import Place, Rejected
from orchestrator.engine.groups import chosen
from orchestrator.engine.model import Deploy, Stage


def stage(id_: str, *, one_of: str | None = None, enabled: bool = True, needs: tuple[str, ...] = ()) -> Stage:
    made = Stage(
        id=id_,
        kind="codemod",
        summary="s",
        enabled=enabled,
        needs=list(needs),
        deploy=[Deploy(source="k.py", to="pkg/k.py")],
    )
    return made.model_copy(update={"one_of": one_of})


def place(index: int, key: str) -> Place:
    return Place("pipeline.yaml", index + 1, len(key))


def faults(*stages: Stage) -> list[str]:
    with pytest.raises(Rejected) as caught:
        chosen(stages, place)
    return [f"{d.code} {d.place}: {d.message}" for d in caught.value.diagnostics]


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_a_need_for_the_group_is_a_need_for_its_enabled_stage(shape: tuple[int, int]) -> None:
    count, on = shape
    members = [stage(f"m{i}", one_of="g", enabled=i == on) for i in range(count)]
    user = stage("user", needs=("g", "other"))
    assert chosen([*members, user, stage("other")], place)[count].needs == [f"m{on}", "other"]


def test_stages_without_a_group_stay_as_they_are() -> None:
    stages = (stage("a"), stage("b", needs=("a",)))
    assert chosen(stages, place) == stages


def test_two_enabled_stages_of_a_group_are_refused_at_the_second() -> None:
    found = faults(stage("a", one_of="g"), stage("b", one_of="g"))
    assert found == ["E214 pipeline.yaml:2:6: 'b' is enabled as well as 'a', and exactly one of 'g' may be"]


def test_a_group_that_is_switched_off_wholly_is_refused() -> None:
    found = faults(stage("a", one_of="g", enabled=False), stage("b", one_of="g", enabled=False))
    assert found == ["E214 pipeline.yaml:1:7: none of 'a', 'b' is enabled, and exactly one of 'g' has to be"]


def test_every_group_is_judged() -> None:
    found = faults(stage("a", one_of="g"), stage("b", one_of="g"), stage("c", one_of="h", enabled=False))
    assert [line.split(":")[0] for line in found] == ["E214 pipeline.yaml"] * 2


def test_a_group_may_not_have_the_name_of_a_stage() -> None:
    found = faults(stage("a", one_of="b"), stage("b"))
    assert found == ["E214 pipeline.yaml:1:6: `one_of: b` has the name of a stage, so a need for it could mean either"]
