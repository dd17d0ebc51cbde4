"""The scheduler notes how much of a prompt is in the prefix cache, and every kind of OpenAI answer says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.driven import driven

if TYPE_CHECKING:
    from pathlib import Path

REPORTED = {
    "chat": 32,
    "chat, streamed": 32,
    "completion": 32,
    "completion, streamed": 32,
    "completion of two": 48,
    "completion, nothing cached": 0,
}
UNKNOWN = ("chat, no cache", "chat, streamed, no cache", "completion, no cache")


@pytest.mark.parametrize("manager", ["v1", "v2"])
@pytest.mark.parametrize("chunks", ["", ", chunks"])
def test_a_request_has_the_cached_tokens_of_its_first_moment(manager: str, chunks: str, patched: Path) -> None:
    # New; 80 of 100 tokens shared; the same prompt again, whose last block is always computed; another prompt.
    assert driven(patched)[f"cached, {manager}{chunks}"] == [0, 80, 96, 0]


@pytest.mark.parametrize("manager", ["v1", "v2"])
def test_what_is_computed_in_the_same_step_is_not_cached_yet(manager: str, patched: Path) -> None:
    assert driven(patched)[f"cached together, {manager}"] == [0, 0]


def test_a_preempted_request_keeps_its_number(patched: Path) -> None:
    assert driven(patched)["cached, preempted"] == [80, 80]


def test_without_a_prefix_cache_the_number_is_unknown(patched: Path) -> None:
    assert driven(patched)["cached, off"] == [None] * 4


@pytest.mark.parametrize(("name", "cached"), REPORTED.items())
def test_an_answer_reports_the_cached_tokens(name: str, cached: int, patched: Path) -> None:
    assert driven(patched)[name]["prompt_tokens_details"] == {"cached_tokens": cached}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_answer_says_nothing_of_what_is_unknown(name: str, patched: Path) -> None:
    assert driven(patched)[name].get("prompt_tokens_details") is None


@pytest.mark.parametrize("name", [*REPORTED, *UNKNOWN])
def test_the_other_counts_stay_as_they_were(name: str, patched: Path, unpatched: Path) -> None:
    usage = driven(patched)[name]
    usage = {key: value for key, value in usage.items() if key != "prompt_tokens_details"}
    assert usage == driven(unpatched)[name]


def test_before_the_stage_nobody_notes_the_number(unpatched: Path) -> None:
    found = driven(unpatched)
    assert found["cached, v2"]["message"] == "'RequestMetrics' object has no attribute 'num_cached_tokens'"
    assert not any("prompt_tokens_details" in found[name] for name in REPORTED)
