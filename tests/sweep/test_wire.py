"""Connections that know when their bytes came: the times do not depend on when somebody reads them."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sweep.client import Client
from orchestrator.sweep.model import Load
from orchestrator.sweep.prompts import prompts
from orchestrator.sweep.wire import Turns, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchestrator.sweep.model import Answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the time of the wires, which stands still until it is set."""
    now = [1.0]
    monkeypatch.setattr("orchestrator.sweep.wire.time.perf_counter", lambda: now[0])
    return now


def came(one: Wire, data: bytes) -> None:
    one.get_buffer(-1)[: len(data)] = data
    one.buffer_updated(len(data))


def test_bytes_have_the_time_at_which_they_came_however_late_they_are_read(clock: list[float]) -> None:
    async def reading() -> list[tuple[float, bytes]]:
        one = Wire(Turns())
        for number in range(3):
            clock[0] = 1.0 + number
            came(one, b"%d" % number)
        one.connection_lost(None)
        clock[0] = 99.0
        return [(one.came, data) async for data in all_of(one)]

    assert asyncio.run(reading()) == [(1.0, b"0"), (2.0, b"1"), (3.0, b"2")]


def test_who_is_behind_reads_at_once_what_came_with_the_time_of_its_end(clock: list[float]) -> None:
    async def reading() -> tuple[bytes, float]:
        one = Wire(Turns())
        one.joins = True
        came(one, b"a")
        clock[0] = 5.0
        came(one, b"b")
        clock[0] = 99.0
        return await one.read(), one.came

    assert asyncio.run(reading()) == (b"ab", 5.0)


async def all_of(one: Wire):  # type: ignore[no-untyped-def]  # noqa: ANN201 - an iterator of bytes; `came` is of the last
    while data := await one.read():
        yield data


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=30), st.booleans())
def test_no_byte_is_lost_or_comes_twice(pieces: list[bytes], joins: bool) -> None:  # noqa: FBT001 - an example's
    async def reading() -> bytes:
        one = Wire(Turns())
        one.joins = joins
        task = asyncio.create_task(whole(one))
        for piece in pieces:
            came(one, piece)
            await asyncio.sleep(0)
        one.connection_lost(None)
        return await task

    async def whole(one: Wire) -> bytes:
        return b"".join([data async for data in all_of(one)])

    assert asyncio.run(reading()) == b"".join(pieces)


def test_a_request_does_not_wait_for_the_reads_of_others(clock: list[float]) -> None:
    async def order() -> list[str]:
        turns, done = Turns(), []
        clock[0] = 9.0  # the turn in which bytes came is over

        async def one(name: str, wait: Callable[[], object]) -> None:
            await wait()  # type: ignore[misc]  # a coroutine
            done.append(name)

        reads = [one("read", turns.read) for _ in range(50)]
        await asyncio.gather(*reads, one("request", turns.request))
        return done

    found = asyncio.run(order())
    assert found.count("read") == 50
    assert found[0] == "request"


def test_all_requests_are_made_before_the_first_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    made = itertools.count()
    seen: list[int] = []
    load = Load(prompt_tokens=(4, 2), shared_tokens=1)

    async def asking(self: Client, request: bytes, stall_s: float) -> Answer:  # noqa: ARG001 - the client's
        seen.append(next(made))
        raise NotImplementedError

    def counted() -> Iterator[list[int]]:
        for prompt in prompts(load):
            next(made)
            yield prompt

    async def asked() -> None:
        async with Client(1, load) as client:
            await client.ask_all(client.requests("model", counted(), 7), 3, 1.0)

    monkeypatch.setattr(Client, "ask", asking)
    with pytest.raises(NotImplementedError):
        asyncio.run(asked())
    assert seen[0] == 7


def test_requests_that_would_fill_the_memory_are_made_as_they_are_wanted() -> None:
    async def made() -> list[bytes]:
        async with Client(1, Load(prompt_tokens=(2**22,), shared_tokens=0)) as client:
            return [next(client.requests("model", iter([[1]] * 10**9), 10**9))]

    assert b'"prompt":[1]' in asyncio.run(made())[0]
