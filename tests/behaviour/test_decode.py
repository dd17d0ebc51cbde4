"""Decode on the patched tree: the dense answer at every length, by the path that the length alone decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour import cases
from tests.behaviour.expected import assert_right, patched_path

if TYPE_CHECKING:
    from tests.behaviour.conftest import Attended

each = pytest.mark.parametrize("case", cases.DECODES, ids=lambda case: case.name)


@each
def test_decode_agrees_with_dense_attention(case: cases.Decode, on_patched: Attended) -> None:
    assert_right(case, on_patched[case.name])


@each
def test_the_bound_alone_decides_the_path(case: cases.Decode, on_patched: Attended) -> None:
    assert on_patched[case.name]["paths"] == {patched_path(case): [case.limit]}


def test_eight_short_sequences_stay_with_the_compiled_kernel(on_patched: Attended) -> None:
    case = cases.PINNED
    assert (len(case.lengths), case.kv_heads * case.group, case.limit) == (8, 4, 1000)
    assert on_patched[case.name]["paths"] == {"v1": [1000]}


def test_the_operator_itself_computes_v2(on_patched: Attended) -> None:
    result = on_patched[cases.V2_DIRECTLY]
    assert result["paths"] == {"v2": [1300]}
    assert result["error"] < 1e-3


@pytest.mark.parametrize("path", cases.READS)
def test_dispatch_and_paths_never_read_the_device(path: str, on_patched: Attended) -> None:
    result = on_patched[f"reads of {path}"]
    bound = cases.READS[path]
    assert result["reads"] == []
    assert result["device"] == "meta"  # tensors without data went through to the end
    assert result["paths"] == {path: [bound, bound]}


def test_a_read_of_the_device_would_be_noticed(on_patched: Attended) -> None:
    assert on_patched["known reads"]["reads"] == ["aten._local_scalar_dense.default", "aten.nonzero.default"]


def test_the_class_names_the_threshold(on_patched: Attended) -> None:
    assert on_patched["facts"]["threshold"] == cases.DECODE_THRESHOLD
