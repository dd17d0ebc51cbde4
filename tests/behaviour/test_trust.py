"""Triton's kernels run exactly where they are trusted, and then they are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour import cases
from tests.behaviour.expected import assert_right, patched_path

if TYPE_CHECKING:
    from tests.behaviour.conftest import Attended

OPERATIONS = ("prefix_prefill", "paged_decode_v2")
each_prefix = pytest.mark.parametrize("case", cases.SMALL_PREFIXES, ids=lambda case: case.name)
each_decode = pytest.mark.parametrize("case", cases.SMALL_DECODES, ids=lambda case: case.name)
each_operation = pytest.mark.parametrize("operation", OPERATIONS)


def decisions(attended: Attended, operation: str) -> list[str]:
    """Return what was logged about trust, without what the logger puts in front."""
    head = f"Triton {operation}: "
    return [line.partition(head)[2] for line in attended.lines if head in line]


@each_operation
def test_without_a_device_one_line_says_why_the_fallback_runs(operation: str, on_patched: Attended) -> None:
    lines = decisions(on_patched, operation)
    assert len(lines) == 1
    assert lines[0].startswith("not trusted, its fallback runs (")


@each_operation
def test_one_line_says_that_the_trial_passed(operation: str, tried: Attended) -> None:
    lines = decisions(tried, operation)
    assert len(lines) == 1
    assert lines[0].startswith("trusted (")


@each_prefix
def test_after_its_trial_the_prefill_kernel_runs_and_is_right(case: cases.Prefix, tried: Attended) -> None:
    result = tried[case.name]
    assert list(result["paths"]) == ["triton"]
    assert_right(case, result)


@each_decode
def test_after_its_trial_the_decode_kernel_runs_and_is_right(case: cases.Decode, tried: Attended) -> None:
    result = tried[case.name]
    assert result["paths"] == {"triton v2": [case.limit]}
    assert_right(case, result)


def test_a_user_s_word_is_logged_once(on_edited: Attended) -> None:
    assert decisions(on_edited, "prefix_prefill") == ["trusted (VLLM_TRITON_TRUST=prefix_prefill names it)"]


@each_prefix
def test_the_edited_kernel_is_launched_with_the_tuned_tile_and_is_right(
    case: cases.Prefix, on_edited: Attended
) -> None:
    result = on_edited[case.name]
    tile = (64 if case.head_size <= 128 else 32) // (2 if case.dtype == "float32" else 1)
    assert result["launches"] == [{"BLOCK_M": tile, "BLOCK_N": tile, "num_warps": 4, "num_stages": 1}]
    assert list(result["paths"]) == ["triton"]
    assert_right(case, result)


@each_decode
def test_an_operation_that_the_user_does_not_name_stays_with_pytorch(case: cases.Decode, on_edited: Attended) -> None:
    result = on_edited[case.name]
    assert result["paths"] == {patched_path(case): [case.limit]}
    assert_right(case, result)


@pytest.mark.parametrize("case", [*cases.SMALL_PREFIXES, *cases.SMALL_DECODES], ids=lambda case: case.name)
def test_where_triton_is_missing_trust_changes_nothing(case: cases.Prefix | cases.Decode, hidden: Attended) -> None:
    result = hidden[case.name]
    assert list(result["paths"]) == ["prefix" if isinstance(case, cases.Prefix) else patched_path(case)]
    assert_right(case, result)


def test_the_flag_says_whether_triton_is_there(on_patched: Attended, hidden: Attended) -> None:
    assert (on_patched["facts"]["has_triton"], on_patched["facts"]["context_attention_fwd"]) == (True, True)
    assert (hidden["facts"]["has_triton"], hidden["facts"]["context_attention_fwd"]) == (False, False)


@pytest.mark.parametrize("process", ["on_patched", "tried", "hidden"])
def test_the_kernels_of_lora_stay_off(process: str, request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue(process)["facts"]
    assert facts["lora_has_triton"] is False
    assert facts["lora_kernels"] == []
