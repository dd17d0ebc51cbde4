"""Arithmetic on what is not known says so; a disputed figure carries all its values along."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.device.quantity import Known, Quantity, Unknown, derive, figure, figures_of, plain
from orchestrator.spec.target import Figure
from tests.device.targets import NAMES, target

known = st.integers(-100, 100).map(Known)
unknown = st.builds(lambda name: Unknown((name,)), st.sampled_from("abc"))


def total(*numbers: float) -> float:
    return sum(numbers)


@given(st.lists(known, max_size=4))
def test_arithmetic_on_what_is_known_is_known(quantities: list[Known]) -> None:
    assert derive(total, *quantities) == Known(sum(quantity.value for quantity in quantities))


@given(st.lists(known | unknown, max_size=4), unknown)
def test_arithmetic_on_one_unknown_is_unknown_and_names_every_one(quantities: list[Quantity], more: Unknown) -> None:
    found = derive(total, *quantities, more)
    assert isinstance(found, Unknown)
    assert set(found.missing) == {name for q in (*quantities, more) if isinstance(q, Unknown) for name in q.missing}
    assert len(found.missing) == len(set(found.missing))


def test_a_disputed_figure_makes_what_is_derived_disputed_with_every_value() -> None:
    found = derive(lambda a, b: a * b, Known(2, (2, 3)), Known(10))
    assert found == Known(20, (20, 30))
    assert plain(found) == {"value": 20, "values": [20, 30]}


def test_a_dispute_that_makes_no_difference_is_none() -> None:
    assert derive(lambda a: min(a, 1), Known(2, (2, 3))) == Known(1)


def test_a_figure_that_the_target_does_not_have_is_unknown_by_its_name() -> None:
    assert figure({}, "device.sm_count") == Unknown(("device.sm_count",))
    assert plain(Unknown(("device.sm_count",))) == {"unknown": ["device.sm_count"]}


def test_figures_are_the_numbers_of_a_target_with_their_disputes_and_gaps() -> None:
    chip = target("bi100").model_copy(
        update={
            "device": {
                "plain": 5,
                "word": "text",
                "truth": True,
                "gap": Figure(status="unknown", source="nobody"),
                "both": Figure(value=1, values=[1, 2], status="disputed", source="two tools"),
                "versions": Figure(value="9.0", values=["7.0", "9.0"], status="disputed", source="two tools"),
            },
            "model": {},
            "engine": {},
        }
    )
    assert figures_of(chip) == {
        "device.plain": Known(5),
        "device.gap": Unknown(("device.gap",)),
        "device.both": Known(1, (1, 2)),
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_every_target_has_a_source(name: str) -> None:
    found = target(name)
    for section in (found.device, found.model, found.engine):
        for key, entry in section.items():
            # Words, such as a name or a place in the code, are no figures.
            assert isinstance(entry, Figure | str), key


@pytest.mark.parametrize("name", NAMES)
def test_every_target_has_the_figures_that_the_arithmetic_asks_for_or_says_that_they_are_unknown(name: str) -> None:
    asked = [
        *("device.memory_bytes", "device.sm_count", "device.warp_size", "device.threads_per_sm"),
        *("device.registers_per_sm", "device.shared_memory_per_sm_bytes", "device.shared_memory_per_block_bytes"),
        *("device.memory_bandwidth_bytes_per_s", "model.weight_bytes_per_rank", "model.layers"),
        *("model.attention_layers", "model.kv_heads", "model.head_dim", "engine.block_size"),
        *("engine.cache_element_bytes", "engine.graph_capture_bytes", "engine.default_gpu_memory_utilisation"),
    ]
    found = figures_of(target(name))
    assert [key for key in asked if key not in found] == []
