"""Operators whose name the vendor's library lacks: served under the name it has, or refused in words at the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.drive_vendor_ops import SYMBOLS
from tests.behaviour.driven import driven
from tests.standins.ixformer import functions as standin

if TYPE_CHECKING:
    from pathlib import Path

RENAMED = {"copy_blocks": "copied", "swap_blocks": "swapped"}


@pytest.mark.parametrize("symbol", [*SYMBOLS.values(), *RENAMED])
def test_the_stand_in_lacks_the_symbol_as_the_image_does(symbol: str) -> None:
    assert not hasattr(standin, symbol)


def test_copying_blocks_fills_every_target_of_every_layer(patched: Path) -> None:
    first, second = driven(patched)["copied"]  # 0 → 3 and 5, 1 → 4
    assert first == [[0, 1, 2, 0, 1, 0], [6, 7, 8, 6, 7, 6]]
    assert second == [[100 + number for number in half] for half in first]


def test_copying_nothing_changes_nothing(patched: Path) -> None:
    assert driven(patched)["copied nothing"][0] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


def test_swapping_blocks_fills_the_other_cache_and_leaves_its_own(patched: Path) -> None:
    source, target = driven(patched)["swapped"]  # 0 → 3, 4 → 1
    assert source == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert target == [[1000, 4, 1002, 0, 1004, 1005], [1006, 10, 1008, 6, 1010, 1011]]


def test_one_block_cannot_be_swapped_to_two_places(patched: Path) -> None:
    assert driven(patched)["swapped twice"]["raised"] == "ValueError"


@pytest.mark.parametrize(("operator", "symbol"), SYMBOLS.items())
def test_a_call_that_cannot_be_served_names_the_missing_symbol(operator: str, symbol: str, patched: Path) -> None:
    found = driven(patched)[f"call of {operator}"]
    assert found["raised"] == "NotImplementedError"
    assert f"this image has no ixformer.functions.{symbol}" in found["message"]


def test_a_symbol_that_a_later_library_has_is_used(patched: Path) -> None:
    assert driven(patched)["served later"] == [2.0, 2.0]


@pytest.mark.parametrize("call", [*(f"call of {operator}" for operator in SYMBOLS), *RENAMED.values()])
def test_before_the_stages_the_same_call_is_an_attribute_error(call: str, unpatched: Path) -> None:
    assert driven(unpatched)[call]["raised"] == "AttributeError"
