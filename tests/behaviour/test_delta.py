"""What a client is told after each step: new tokens once, none while a prompt is computed in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.drive_delta import CHUNKS, NEW, PROMPT
from tests.behaviour.driven import driven

if TYPE_CHECKING:
    from pathlib import Path

DELTAS = {"delta": 1, "delta, one result object": 1, "delta of two": 2}
WHOLES = {"whole": 1, "whole of two": 2}


def tokens(tree: Path, name: str) -> list[list[list[int]]]:
    """Return the tokens of each output of each step."""
    return [[output[0] for output in step] for step in driven(tree)[name]]


def counted(steps: list[list[list[int]]], n: int) -> list[int]:
    """Return the completion tokens of each answer as the OpenAI server adds them up."""
    return [sum(len(step[answer]) for step in steps if answer < len(step)) for answer in range(n)]


@pytest.mark.parametrize(("name", "n"), DELTAS.items())
def test_the_chunks_of_a_prompt_add_nothing_to_the_completion(name: str, n: int, patched: Path) -> None:
    steps = tokens(patched, name)
    assert steps[: CHUNKS - 1] == [[[]]] * (CHUNKS - 1)
    assert counted(steps[: CHUNKS - 1], n) == [0] * n


@pytest.mark.parametrize(("name", "n"), DELTAS.items())
def test_the_first_and_every_later_token_counts_once(name: str, n: int, patched: Path) -> None:
    steps = tokens(patched, name)
    assert steps[CHUNKS - 1 :] == [[[token]] * n for token in NEW]
    assert counted(steps, n) == [len(NEW)] * n


def test_the_server_counts_the_new_tokens_alone(patched: Path, unpatched: Path) -> None:
    name = "delta, counted by the server"
    assert driven(patched)[name]["completion_tokens"] == len(NEW)
    assert driven(patched)[name]["prompt_tokens"] == PROMPT
    assert driven(unpatched)[name]["completion_tokens"] == (CHUNKS - 1) * PROMPT + len(NEW)


@pytest.mark.parametrize(("name", "n"), WHOLES.items())
def test_without_delta_every_result_has_all_tokens_so_far(name: str, n: int, patched: Path) -> None:
    steps = tokens(patched, name)
    assert steps[: CHUNKS - 1] == [[[]]] * (CHUNKS - 1)
    assert steps[CHUNKS - 1 :] == [[list(NEW[: count + 1])] * n for count in range(len(NEW))]


def test_a_request_that_is_computed_again_repeats_neither_tokens_nor_log_probabilities(patched: Path) -> None:
    assert driven(patched)["recomputed"] == [[[[7], 1]], [[[8], 1]], [[[], 0]], [[[9], 1]]]


@pytest.mark.parametrize(("name", "n"), DELTAS.items())
def test_before_the_stage_every_chunk_counts_the_prompt(name: str, n: int, unpatched: Path) -> None:
    assert counted(tokens(unpatched, name)[: CHUNKS - 1], 1) == [(CHUNKS - 1) * PROMPT]
    assert counted(tokens(unpatched, name), n)[0] == (CHUNKS - 1) * PROMPT + len(NEW)


def test_before_the_stage_a_request_computed_again_repeats_everything(unpatched: Path) -> None:
    repeated = driven(unpatched)["recomputed"][2][0]
    assert [len(repeated[0]), repeated[1]] == [PROMPT + 2, 2]
