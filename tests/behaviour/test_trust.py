"""Triton's prefill kernel runs exactly where it is trusted, with the tuned tiles, and then it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour import cases
from tests.behaviour.expected import assert_right

if TYPE_CHECKING:
    from tests.behaviour.conftest import Attended

each = pytest.mark.parametrize("case", cases.SMALL_PREFIXES, ids=lambda case: case.name)


def decisions(attended: Attended) -> list[str]:
    """Return what was logged about trust, without what the logger puts in front."""
    return [line[line.index("Triton prefix_prefill:") :] for line in attended.lines if "Triton prefix_prefill:" in line]


def test_without_a_word_about_trust_one_line_is_logged(on_patched: Attended) -> None:
    assert decisions(on_patched) == [
        "Triton prefix_prefill: not trusted, its fallback runs (VLLM_TRITON_TRUST is not set)"
    ]


def test_trust_is_logged_once(trusted: Attended) -> None:
    assert decisions(trusted) == ["Triton prefix_prefill: trusted (VLLM_TRITON_TRUST=prefix_prefill names it)"]


@each
def test_where_it_is_trusted_the_kernel_runs_and_is_right(case: cases.Prefix, trusted: Attended) -> None:
    result = trusted[case.name]
    assert list(result["paths"]) == ["triton"]
    assert_right(case, result)


@each
def test_the_kernel_is_launched_with_the_tuned_tile(case: cases.Prefix, trusted: Attended) -> None:
    tile = (64 if case.head_size <= 128 else 32) // (2 if case.dtype == "float32" else 1)
    launch = {"BLOCK_M": tile, "BLOCK_N": tile, "num_warps": 4, "num_stages": 1}
    assert trusted[case.name]["launches"] == [launch]


@each
def test_where_triton_is_missing_trust_changes_nothing(case: cases.Prefix, hidden: Attended) -> None:
    result = hidden[case.name]
    assert list(result["paths"]) == ["prefix"]
    assert_right(case, result)


def test_the_flag_says_whether_triton_is_there(on_patched: Attended, hidden: Attended) -> None:
    assert (on_patched["facts"]["has_triton"], on_patched["facts"]["context_attention_fwd"]) == (True, True)
    assert (hidden["facts"]["has_triton"], hidden["facts"]["context_attention_fwd"]) == (False, False)


@pytest.mark.parametrize("process", ["on_patched", "trusted", "hidden"])
def test_the_kernels_of_lora_stay_off(process: str, request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue(process)["facts"]
    assert facts["lora_has_triton"] is False
    assert facts["lora_kernels"] == []
