"""The cached tokens of an answer: of one prompt or several, in one result or many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modules.cached_tokens import CachedTokens


def result(request: str, cached: int | None) -> Any:  # noqa: ANN401 - stands for a result of vLLM
    return SimpleNamespace(request_id=request, metrics=SimpleNamespace(num_cached_tokens=cached))


def test_many_results_of_one_request_count_once() -> None:
    tokens = CachedTokens()
    for _ in range(3):
        tokens.note(result("a", 32))
    details = tokens.details()
    assert details is not None
    assert details.model_dump() == {"cached_tokens": 32}


def test_the_prompts_of_one_answer_are_added_up() -> None:
    details = CachedTokens(result("a", 32), result("b", 0), result("c", 16)).details()
    assert details is not None
    assert details.cached_tokens == 48


@pytest.mark.parametrize("results", [[], [result("a", None)], [SimpleNamespace(request_id="a", metrics=None)]])
def test_what_no_result_tells_is_unknown(results: list[Any]) -> None:
    assert CachedTokens(*results).details() is None


def test_nothing_cached_is_known_to_be_nothing() -> None:
    details = CachedTokens(result("a", 0)).details()
    assert details is not None
    assert details.cached_tokens == 0
