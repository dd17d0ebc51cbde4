"""The first stage without the others: V1 as far as it goes, PyTorch beyond; no prefix hit fails any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour import cases
from tests.behaviour.expected import assert_refused, assert_right, baseline_path

if TYPE_CHECKING:
    from tests.behaviour.conftest import Attended


@pytest.mark.parametrize("case", cases.DECODES, ids=lambda case: case.name)
def test_decode_is_right_by_v1_or_by_pytorch(case: cases.Decode, on_baseline: Attended) -> None:
    assert_right(case, on_baseline[case.name])
    assert on_baseline[case.name]["paths"] == {baseline_path(case): [case.limit]}


@pytest.mark.parametrize("case", cases.PREFIXES, ids=lambda case: case.name)
def test_prefill_is_right_in_pytorch(case: cases.Prefix, on_baseline: Attended) -> None:
    assert_right(case, on_baseline[case.name])
    assert list(on_baseline[case.name]["paths"]) == ["prefix"]


def test_the_border_is_the_limit_of_the_compiled_kernel(on_baseline: Attended) -> None:
    assert on_baseline["facts"]["threshold"] == cases.V1_LIMIT
    paths = [list(on_baseline[f"1 sequences up to {length}"]["paths"]) for length in (32768, 32769)]
    assert paths == [["v1"], ["long"]]


def test_v2_is_still_missing(on_baseline: Attended) -> None:
    assert_refused(on_baseline[cases.V2_DIRECTLY], "NotImplementedError", "paged_attention_v2")


def test_triton_is_neither_looked_for_nor_asked_about(on_baseline: Attended) -> None:
    assert on_baseline["facts"]["has_triton"] is False
    assert [line for line in on_baseline.lines if "prefix_prefill:" in line] == []
