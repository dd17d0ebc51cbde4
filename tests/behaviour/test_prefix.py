"""Prefill against a cached context on the patched tree, without trust in Triton: PyTorch, and the dense answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour import cases
from tests.behaviour.expected import assert_right

if TYPE_CHECKING:
    from tests.behaviour.conftest import Attended

each = pytest.mark.parametrize("case", cases.PREFIXES, ids=lambda case: case.name)


@each
def test_prefill_agrees_with_dense_attention(case: cases.Prefix, on_patched: Attended) -> None:
    assert_right(case, on_patched[case.name])


@each
def test_without_trust_prefill_runs_in_pytorch(case: cases.Prefix, on_patched: Attended) -> None:
    assert list(on_patched[case.name]["paths"]) == ["prefix"]


def test_chunks_of_a_prompt_build_on_each_other_through_the_cache(on_patched: Attended) -> None:
    result = on_patched[cases.IN_CHUNKS]
    assert "raised" not in result, result
    assert result["error"] < 1e-3
    assert {path: len(calls) for path, calls in result["paths"].items()} == {"prefix": 3, "v1": 1}
