"""The benchmark itself, on a CPU: what it measures is checked first; what is missing or wrong is said and not timed."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import attention
from benchmarks.paged import cells, clock, ours, peers
from benchmarks.paged.contender import Contender, absence, timed, verdict
from benchmarks.paged.data import (
    FEWEST_SETS,
    L2_MULTIPLE,
    MOST_SETS,
    Chunk,
    Paged,
    Step,
    data_for,
    sets_for,
    small_data,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADS = cells.Heads(4, 2, 32)


def names(kind: str) -> list[str]:
    return [contender.family for contender in ours.in_pytorch(kind)]


def test_a_run_on_the_cpu_writes_record_plot_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, plot = tmp_path / "found.json", tmp_path / "found.svg"
    assert attention.main(["--device", "cpu", "--tiny", "--out", str(out), "--plot", str(plot)]) == 0
    record = json.loads(out.read_text())
    assert [row["cell"] for row in record["cells"]] == [str(cell) for cell in cells.tiny_cells()]
    for row in record["cells"]:
        for family in names(row["kind"]):
            time = row["times"][family]
            assert 0 < time["low"] <= time["us"] <= time["high"]
            assert time["error"] < 1e-3
    assert ET.fromstring(plot.read_text()).tag.endswith("svg")  # noqa: S314 - written by the line above
    assert "eager loop" in capsys.readouterr().out


def test_without_cuda_it_says_so_and_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert attention.main([]) == 2
    assert "--device cpu" in capsys.readouterr().err


def test_shapes_and_quick_choose_among_the_cells() -> None:
    def chosen(*given: str) -> list[str]:
        return [str(cell) for cell in attention.chosen_cells(attention.arguments(given))]

    every = chosen()
    assert len(every) == len(set(every)) == 28
    assert chosen("--shapes", "decode 4q.*B8") == [name for name in every if name.startswith("decode 4q/1kv d256 B8")]
    assert 0 < len(chosen("--quick")) < len(every)
    assert all(name.startswith("decode") for name in chosen("--device", "cpu"))


@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_our_paths_are_right_on_ragged_data_with_poisoned_slots(kind: str) -> None:
    data = small_data(kind, HEADS, "cpu")
    assert all(verdict(contender, data)["ok"] for contender in ours.in_pytorch(kind))


@pytest.mark.parametrize("cell", cells.tiny_cells(), ids=str)
def test_torch_s_own_attention_gives_the_float64_answer(cell: cells.Cell) -> None:
    kind = type(cell).__name__.lower()
    own = [peer for peer in peers.peers(kind) if not peer.needs]
    assert own
    assert all(verdict(peer, data_for(cell, "cpu", 2))["ok"] for peer in own)


def test_whole_sequences_in_pages_hold_the_dense_keys_and_values() -> None:
    chunk = Chunk.of(Paged(HEADS, [33, 0, 16], "cpu", sets=2), [20, 3, 16])
    data = peers.whole(chunk)
    for index, (key, value) in enumerate(data.pairs):
        for row, length in enumerate(data.lengths):
            k, v = chunk.dense_of(index, row)
            pages = data.table[row].long()
            assert torch.equal(key[pages].flatten(0, 1)[:length].transpose(0, 1), k)
            assert torch.equal(value[pages].flatten(0, 1)[:length].transpose(0, 1), v)


def test_the_layout_by_token_holds_what_the_cache_holds() -> None:
    step = Step.of(Paged(HEADS, [40, 7], "cpu"))
    key, value = step.paged.by_token[0]
    for row, length in enumerate(step.paged.lengths):
        k, v = step.dense_of(0, row)
        pages = step.paged.table[row].long()
        assert torch.equal(key[pages].flatten(0, 1)[:length].transpose(0, 1), k)
        assert torch.equal(value[pages].flatten(0, 1)[:length].transpose(0, 1), v)


def breaking(contender: Contender, harm: Callable[[torch.Tensor], torch.Tensor]) -> Contender:
    def prepare(data: Step) -> Callable[[int], torch.Tensor]:
        call = contender.prepare(data)
        return lambda index: harm(call(index).clone())

    return dataclasses.replace(contender, prepare=prepare)


@pytest.mark.parametrize(
    "harm",
    [lambda out: out * 1.01, lambda out: out.flip(-1), lambda out: torch.full_like(out, float("nan"))],
    ids=["a little off", "in another order", "NaN"],
)
def test_a_wrong_contender_is_reported_and_not_timed(harm: Callable[[torch.Tensor], torch.Tensor]) -> None:
    wrong = breaking(ours.in_pytorch("decode")[0], harm)
    found = timed(wrong, data_for(cells.tiny_cells()[0], "cpu", 1), 1, "cpu")
    assert "wrong" in found["failed"]
    assert "us" not in found


def test_a_contender_that_raises_does_not_end_the_run() -> None:
    def prepare(_: Step) -> Callable[[int], torch.Tensor]:
        raise ZeroDivisionError("in its plan")

    found = timed(Contender("broken", prepare), data_for(cells.tiny_cells()[0], "cpu", 1), 1, "cpu")
    assert found == {"failed": "ZeroDivisionError: in its plan"}


def test_who_is_not_installed_is_known_before_anything_runs() -> None:
    contender = Contender("nobody", lambda _: lambda _: torch.empty(0), needs="no_such_package_here")
    assert "no_such_package_here" in absence(contender)
    assert absence(dataclasses.replace(contender, needs="torch")) == ""


@given(st.integers(1, 2**33), st.integers(1, 2**27))
def test_sets_exceed_the_l2_or_are_as_many_as_there_may_be(size: int, l2: int) -> None:
    sets = sets_for(size, l2)
    assert FEWEST_SETS <= sets <= MOST_SETS
    assert sets * size >= L2_MULTIPLE * l2 or sets == MOST_SETS
    assert sets == FEWEST_SETS or (sets - 1) * size < L2_MULTIPLE * l2


def test_calls_rotate_over_all_sets() -> None:
    seen: list[int] = []
    time = clock.measure(seen.append, 3, device="cpu", budget_ms=1)
    assert set(seen) == {0, 1, 2}
    assert time.replays >= clock.FEWEST_EAGER


def test_the_operations_of_a_prefill_are_those_of_its_causal_part() -> None:
    cell = cells.Prefill(HEADS, 2, 5, 3)
    pairs = sum(5 + token + 1 for token in range(3))
    assert cell.flop == 2 * 2 * 2 * HEADS.query * HEADS.size * pairs
