"""A long context turns chunked prefill on only where the flag says so; ranks that sample nothing get through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.driven import driven

if TYPE_CHECKING:
    from pathlib import Path

OTHER_RANKS = {"logits of other ranks, none sampled": [0, 8], "logits of other ranks": [3, 8]}


def test_a_long_context_is_prefilled_in_one_pass_where_no_flag_says_otherwise(patched: Path) -> None:
    assert driven(patched)["long context, no flag"] == {"chunked": False, "batched": 65536}


def test_the_flag_is_obeyed(patched: Path) -> None:
    assert driven(patched)["long context, chunked"] == {"chunked": True, "batched": 4096}
    assert driven(patched)["long context, not chunked"] == {"chunked": False, "batched": 65536}


def test_before_the_stage_the_engine_decides_by_itself(unpatched: Path) -> None:
    assert driven(unpatched)["long context, no flag"] == {"chunked": True, "batched": 512}


@pytest.mark.parametrize(("name", "shape"), OTHER_RANKS.items())
def test_a_rank_that_does_not_know_the_groups_keeps_its_logits(name: str, shape: list[int], patched: Path) -> None:
    assert driven(patched)[name] == shape


def test_the_first_rank_still_applies_logits_processors(patched: Path) -> None:
    assert driven(patched)["logits of the first rank"] == [3.0] * 4


@pytest.mark.parametrize("name", OTHER_RANKS)
def test_before_the_stage_such_a_rank_dies(name: str, unpatched: Path) -> None:
    assert driven(unpatched)[name] == {"raised": "TypeError", "message": "'NoneType' object is not iterable"}
