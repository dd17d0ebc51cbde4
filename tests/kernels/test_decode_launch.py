"""The second call of one layout launches what the first had compiled, and only where that is the same launch.

Triton is replaced by a double that writes down what it is given: nothing is compiled and no GPU is needed.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest
import torch

from tests.kernels.decode import Step, buffers, v2_into
from tests.kernels.dense import cached, queries

pytestmark = pytest.mark.triton

Launches = list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]]


class Compiled:
    """What Triton's launch returns: it can be launched again."""

    def __init__(self, name: str, launches: Launches) -> None:
        self.name = f"compiled {name}"
        self.launches = launches

    def __getitem__(self, grid: tuple[int, ...]) -> Any:  # noqa: ANN401 - takes whatever the kernel takes
        return lambda *given, **named: self.launches.append((self.name, grid, given, named))


class Kernel(Compiled):
    """A kernel that has not been compiled; `returns` says whether its launch gives the compiled one."""

    def __init__(self, name: str, launches: Launches, *, returns: bool) -> None:
        super().__init__(name, launches)
        self.name = name
        self.returns = returns

    def __getitem__(self, grid: tuple[int, ...]) -> Any:  # noqa: ANN401 - takes whatever the kernel takes
        def launch(*given: Any, **named: Any) -> Compiled | None:  # noqa: ANN401 - the same
            self.launches.append((self.name, grid, given, named))
            return Compiled(self.name, self.launches) if self.returns else None

        return launch


class Scene:
    """The kernels' file with doubles for its two kernels."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *, returns: bool = True, recent: bool = True, splits: int = 3
    ) -> None:
        pytest.importorskip("triton")
        self.kernels = importlib.import_module("kernels.paged_attention_v2_triton")
        self.launches: Launches = []
        for name in ("_attend_split", "_join_splits"):
            patch.setattr(self.kernels, name, Kernel(name, self.launches, returns=returns))
        patch.setattr(self.kernels, "_RECENT", recent)
        patch.setattr(self.kernels, "split_count", lambda *_: splits)
        self.kernels._plan.cache_clear()  # noqa: SLF001 - it remembers splits and launches

    def run(self, step: Step, out: torch.Tensor | None = None) -> list[str]:
        """Return which kernels one call launched, in their order."""
        before = len(self.launches)
        target = torch.empty_like(step.query) if out is None else out
        v2_into(step, target, buffers(step), self.kernels.paged_attention_v2)
        return [name for name, *_ in self.launches[before:]]


ORDINARY = ["_attend_split", "_join_splits"]
DIRECT = ["compiled _attend_split", "compiled _join_splits"]


@pytest.fixture(autouse=True)
def _own_plans() -> Any:  # noqa: ANN401 - a fixture
    yield
    if "TRITON_INTERPRET" not in os.environ:
        importlib.import_module("kernels.paged_attention_v2_triton")._plan.cache_clear()  # noqa: SLF001 - of doubles


def step_of(lengths: list[int], **changes: Any) -> Step:  # noqa: ANN401 - fields of a step
    return Step(queries(len(lengths), 4, 64, torch.float16), cached(lengths), **changes)


def test_the_second_call_launches_what_the_first_compiled_with_the_same_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    step = step_of([300, 20])
    out = torch.empty_like(step.query)
    assert scene.run(step, out) == ORDINARY
    assert scene.run(step, out) == DIRECT
    for (_, grid, given, _), (_, again, repeated, named) in zip(scene.launches[:2], scene.launches[2:], strict=True):
        assert grid == again
        assert tuple(one.data_ptr() if isinstance(one, torch.Tensor) else one for one in given) == repeated
        assert named == {"stream": 0}


def test_without_a_split_there_is_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, splits=1)
    step = step_of([300, 20])
    assert [scene.run(step), scene.run(step)] == [ORDINARY[:1], DIRECT[:1]]


def test_a_growing_sequence_keeps_its_plan_and_gets_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    pages = cached([300], spare_columns=60)
    query = queries(1, 4, 64, torch.float16)
    assert scene.run(Step(query, pages, max_seq_len=300)) == ORDINARY
    assert scene.run(Step(query, pages, max_seq_len=301)) == DIRECT
    first, second = (scene.launches[at][2] for at in (0, 2))
    assert [place for place in range(8, len(first)) if first[place] != second[place]] == [14]
    assert (first[14], second[14]) == (300, 301)


@pytest.mark.parametrize(
    "other",
    [
        step_of([300, 20, 5]),
        Step(queries(2, 8, 64, torch.float16), cached([300, 20])),
        Step(queries(2, 4, 64, torch.float32), cached([300, 20], dtype=torch.float32)),
        step_of([300, 20], slopes=torch.ones(4)),
        step_of([300, 20], max_seq_len=400),
        Step(queries(2, 4, 64, torch.float16), cached([300, 20], block_size=8)),
        Step(queries(2, 4, 64, torch.float16), cached([300, 20], spare_columns=9)),
    ],
    ids=["batch", "heads", "type", "slopes", "bound", "page", "table"],
)
def test_another_layout_is_compiled_for_itself(other: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    assert scene.run(step_of([300, 20])) == ORDINARY
    assert scene.run(other) == ORDINARY


def test_addresses_that_16_does_not_divide_are_launched_as_triton_s_users_do(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    step = step_of([300, 20])
    odd = torch.empty(step.query.numel() + 1, dtype=torch.float16)[1:].view(step.query.shape)
    assert [scene.run(step, odd) for _ in range(2)] == [ORDINARY, ORDINARY]
    assert [scene.run(step) for _ in range(2)] == [ORDINARY, DIRECT]
    assert scene.run(step, odd) == ORDINARY


@pytest.mark.parametrize("lacking", [{"recent": False}, {"returns": False}])
def test_where_the_compiled_kernel_is_not_known_to_be_the_same_it_is_never_launched_by_itself(
    lacking: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(monkeypatch, **lacking)
    assert [scene.run(step_of([300, 20])) for _ in range(3)] == [ORDINARY] * 3


def test_few_parts_are_joined_in_a_smaller_tile_with_fewer_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for splits in (2, 64, 500):
        scene = Scene(monkeypatch, splits=splits)
        scene.run(step_of([300, 20]))
        _, _, given, named = scene.launches[1]
        found.append((given[8], named["num_warps"]))
    assert found == sorted(found)
    assert found[0] < found[-1]
    assert len({tile // warps for tile, warps in found}) == 1
