"""The same cases on the tree before the stages: they fail exactly where the vendor's code does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour import cases
from tests.behaviour.expected import assert_refused, assert_right

if TYPE_CHECKING:
    from tests.behaviour.conftest import Attended

WITHIN = [case for case in cases.DECODES if case.limit <= cases.V1_LIMIT]
BEYOND = [case for case in cases.DECODES if case.limit > cases.V1_LIMIT]


@pytest.mark.parametrize("case", WITHIN, ids=lambda case: case.name)
def test_within_the_limit_of_the_compiled_kernel_decode_is_right(case: cases.Decode, on_unpatched: Attended) -> None:
    assert_right(case, on_unpatched[case.name])
    assert on_unpatched[case.name]["paths"] == {"v1": [case.limit]}


@pytest.mark.parametrize("case", BEYOND, ids=lambda case: case.name)
def test_beyond_its_limit_the_compiled_kernel_refuses(case: cases.Decode, on_unpatched: Attended) -> None:
    assert_refused(on_unpatched[case.name], "RuntimeError", f"context of {case.limit} tokens: the kernel takes")


@pytest.mark.parametrize("name", [*(case.name for case in cases.PREFIXES), cases.IN_CHUNKS])
def test_a_prefix_hit_is_a_name_error(name: str, on_unpatched: Attended) -> None:
    assert_refused(on_unpatched[name], "NameError", "context_attention_fwd")


def test_v2_is_not_implemented(on_unpatched: Attended) -> None:
    assert_refused(on_unpatched[cases.V2_DIRECTLY], "NotImplementedError", "paged_attention_v2")


def test_there_is_no_threshold_and_no_triton(on_unpatched: Attended) -> None:
    assert on_unpatched["facts"]["threshold"] is None
    assert on_unpatched["facts"]["has_triton"] is False
