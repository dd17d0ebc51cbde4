"""The load: streamed completions of an OpenAI server, so many at a time, on httpx and asyncio."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Self

import httpx
from httpx_sse import SSEError, aconnect_sse

from orchestrator.sweep.model import Answer, Failed, Kind, Load
from orchestrator.sweep.server import HOST
from orchestrator.sweep.stream import Reading, shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_REQUEST_S = 5.0  # a question about health or models that takes longer is no answer
_POLL_S = 0.2
_BYTES = 16 * 2**20  # of one answer; and for each token of it:
_BYTES_A_TOKEN = 16 * 2**10
_EVENTS = 4  # of one token, at most, where an event brings less than one
_OK = 200


class _BoundedStream(httpx.AsyncByteStream):
    """An answer's bytes, up to a limit: a server that writes without end must not fill our memory."""

    def __init__(self, inner: httpx.AsyncByteStream, limit: int) -> None:
        self._inner, self._left = inner, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise Failed(Kind.NOT_A_STREAM, "an answer is far longer than its tokens can be")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedTransport(httpx.AsyncHTTPTransport):
    def __init__(self, limit: int) -> None:
        super().__init__(limits=httpx.Limits(max_connections=None, max_keepalive_connections=None))
        self._limit = limit

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - for the type checker
        response.stream = _BoundedStream(response.stream, self._limit)
        return response


class Client:
    """A client of the server on `port` of this machine."""

    def __init__(self, port: int, load: Load) -> None:
        self._load = load
        self.unhealthy = "no answer"
        self._http = httpx.AsyncClient(
            base_url=f"http://{HOST}:{port}",
            transport=_BoundedTransport(_BYTES + load.output_tokens * _BYTES_A_TOKEN),
            timeout=None,  # noqa: S113 - every wait stands under asyncio.timeout, which counts tokens, not bytes
            trust_env=False,  # a proxy of the environment is not on the way to this machine
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._http.aclose()

    async def healthy(self, path: str) -> None:
        """Return once the server answers GET `path` with success; whoever waits sets the limit.

        `unhealthy` is what the last answer was instead.
        """
        while True:
            try:
                async with asyncio.timeout(_REQUEST_S):
                    answer = await self._http.get(path)
                if answer.is_success:
                    return
                self.unhealthy = f"HTTP {answer.status_code}"
            except (httpx.HTTPError, TimeoutError, Failed) as error:  # not yet
                self.unhealthy = shown(str(error)) or "no answer"
            await asyncio.sleep(_POLL_S)

    async def model(self) -> str:
        """Return the name of the first model that the server says it serves."""
        try:
            async with asyncio.timeout(_REQUEST_S * 2):
                answer = await self._http.get("/v1/models")
            if answer.status_code != _OK:
                raise Failed(Kind.REFUSED, f"GET /v1/models: HTTP {answer.status_code}: {shown(answer.text)}")
            name = answer.json()["data"][0]["id"]
        except TimeoutError:
            raise Failed(Kind.STALLED, "GET /v1/models: no answer") from None
        except httpx.HTTPError as error:
            raise Failed(Kind.CUT_SHORT, f"GET /v1/models: {_said(error)}") from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Failed(Kind.NOT_A_STREAM, f"GET /v1/models: no list of models: {shown(answer.text)}") from None
        return str(name)

    async def ask(self, model: str, prompt: list[int], stall_s: float) -> Answer:
        """Send one prompt and read its whole answer; raise `Failed` for one that is no proper answer."""
        body = {
            **self._load.body,
            "model": model,
            "prompt": prompt,
            "max_tokens": self._load.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        reading = Reading(time.perf_counter(), most=_EVENTS * (self._load.output_tokens + 1))
        loop = asyncio.get_running_loop()
        try:
            async with (
                asyncio.timeout(stall_s) as patience,
                aconnect_sse(self._http, "POST", "/v1/completions", json=body) as source,
            ):
                if source.response.status_code != _OK:
                    await source.response.aread()
                    said = f"HTTP {source.response.status_code}: {shown(source.response.text)}"
                    raise Failed(Kind.REFUSED, said)
                async for event in source.aiter_sse():
                    if reading.event(event.event, event.data, time.perf_counter()):
                        patience.reschedule(loop.time() + stall_s)
                    if reading.done:
                        break
        except TimeoutError:
            after = "its last token" if reading.first is not None else "the request"
            raise Failed(Kind.STALLED, f"nothing came for {stall_s:g} s after {after}") from None
        except (SSEError, httpx.DecodingError) as error:
            raise Failed(Kind.NOT_A_STREAM, shown(str(error))) from None
        except httpx.HTTPError as error:
            raise Failed(Kind.CUT_SHORT, _said(error)) from None
        return reading.answer(time.perf_counter())

    async def ask_all(
        self, model: str, prompts: Iterator[list[int]], count: int, concurrency: int, stall_s: float
    ) -> list[Answer]:
        """Send `count` prompts, `concurrency` at a time; the first failure ends it and is raised."""
        answers: list[Answer] = []
        waiting = itertools.islice(prompts, count)

        async def client() -> None:
            answers.extend([await self.ask(model, prompt, stall_s) for prompt in waiting])

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, count)):
                    group.create_task(client())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return answers


def _said(error: httpx.HTTPError) -> str:
    return f"the connection ended: {shown(str(error)) or type(error).__name__}"
