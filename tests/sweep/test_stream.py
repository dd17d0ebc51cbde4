"""The reader of a streamed answer: the same answer however its bytes are cut, and no answer out of anything else."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sweep.model import Answer, Failed, Kind
from orchestrator.sweep.stream import DONE, Reading, shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
WORD = {"choices": [{"index": 0, "text": " wörd"}]}
SAID = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}


def event(data: object, end: str = "\n") -> str:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"data: {text}{end}{end}"


def proper(word: object = WORD, usage: object = USAGE, end: str = "\n") -> bytes:
    events = [f": hello{end}{end}", *[event(word, end)] * 3, event({"choices": [], "usage": usage}, end)]
    return "".join([*events, event(DONE, end)]).encode()


class Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


def read(pieces: Iterable[bytes]) -> Answer:
    """Return what the pieces come to; the clock ticks once for each event."""

    async def reading() -> Answer:
        response = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Pieces(pieces))
        said, now = Reading(sent=0.0), 0.0
        async for one in EventSource(response).aiter_sse():
            now += 1
            said.event(one.event, one.data, now)
        return said.answer(now)

    return asyncio.run(reading())


def cut(text: bytes, places: Iterable[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(ends)]


@given(st.lists(st.integers(0, 10**6), max_size=30), st.sampled_from(["\n", "\r\n", "\r"]))
def test_an_answer_is_the_same_however_its_bytes_are_cut(places: list[int], end: str) -> None:
    assert read(cut(proper(end=end), places)) == Answer(0.0, 1.0, 3.0, 5.0, 7, 3, 2, 3)


@given(st.integers(0, len(proper()) - len(event(DONE))))
def test_an_answer_that_ends_early_is_cut_short_and_never_an_answer(length: int) -> None:
    with pytest.raises(Failed) as failed:
        read([proper()[:length]])
    assert failed.value.kind is Kind.CUT_SHORT


@given(st.binary(max_size=200))
def test_any_bytes_come_to_an_answer_or_to_a_failure(data: bytes) -> None:
    with pytest.raises(Failed):
        read([data])


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["choices", "usage", "x"]), inner),
    max_leaves=10,
)


@given(json_values)
def test_any_json_comes_to_an_answer_or_to_a_failure(value: object) -> None:
    with pytest.raises(Failed):
        read([event(value).encode(), event(DONE).encode()])


@given(json_values)
def test_any_usage_comes_to_counts_or_to_a_failure(value: object) -> None:
    try:
        answer = read([proper(usage={**USAGE, "prompt_tokens_details": value})])
    except Failed:
        pytest.fail("the details alone do not spoil an answer")
    assert answer.cached is None


@pytest.mark.parametrize("count", [None, True, -1, 1.5, "7"])
def test_a_count_that_is_no_count_is_no_usage(count: object) -> None:
    with pytest.raises(Failed) as failed:
        read([proper(usage={**USAGE, "completion_tokens": count})])
    assert failed.value.kind is Kind.NO_USAGE


def test_a_count_beyond_what_was_asked_for_is_no_answer_and_one_beyond_the_prompt_is_not_cached() -> None:
    said = Reading(most=2, done=True, usage={**USAGE, "completion_tokens": 3}, first=0.0)
    with pytest.raises(Failed) as failed:
        said.answer(1.0)
    assert failed.value.kind is Kind.NOT_A_STREAM
    assert read([proper(usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 8}})]).cached is None


def test_usage_that_says_nothing_takes_nothing_back() -> None:
    text = event(WORD) + event({"usage": USAGE}) + event({"usage": {}}) + event(DONE)
    assert read([text.encode()]).output == 3


def test_a_chat_s_first_chunk_says_who_speaks_and_is_no_token() -> None:
    chat = "".join([event(ROLE), event(SAID), event(SAID), event({"usage": USAGE}), event(DONE)])
    answer = read([chat.encode()])
    assert (answer.first, answer.last) == (2.0, 3.0)


def test_tokens_that_are_no_text_are_tokens() -> None:
    nothing = {"choices": [{"index": 0, "text": ""}]}
    assert read([proper(word=nothing)]).first == 1.0


def test_a_stream_with_more_tokens_than_can_be_is_no_answer() -> None:
    said = Reading(sent=0.0, most=2)
    assert said.event("message", json.dumps(WORD), 1.0)
    assert said.event("message", json.dumps(WORD), 2.0)
    with pytest.raises(Failed) as failed:
        said.event("message", json.dumps(WORD), 3.0)
    assert failed.value.kind is Kind.NOT_A_STREAM


def test_an_error_in_a_stream_is_an_error() -> None:
    for said in (event({"error": "busy"}), event({"object": "error", "message": "busy"}), "event: error\ndata: {}\n\n"):
        with pytest.raises(Failed) as failed:
            read([said.encode()])
        assert failed.value.kind is Kind.REFUSED


def test_the_time_of_a_token_needs_two_of_them_at_two_moments() -> None:
    assert Answer(0.0, 1.0, 4.0, 5.0, 7, 4, None, 4).per_token_s == 1.0
    assert Answer(0.0, 1.0, 1.0, 2.0, 7, 1, None, 1).per_token_s is None
    assert Answer(0.0, 1.0, 1.0, 2.0, 7, 4, None, 1).per_token_s is None


@given(st.text())
def test_what_is_shown_of_a_server_s_text_is_one_short_line(text: str) -> None:
    line = shown(text)
    assert len(line) <= 201
    assert line.isprintable()
