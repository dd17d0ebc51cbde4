"""The load: streamed completions of an OpenAI server, so many at a time, on httpx and asyncio."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import TYPE_CHECKING, Self

import httpx
from httpx_sse import SSEError, aconnect_sse

from orchestrator.sweep.model import Answer, Failed, Kind, Load
from orchestrator.sweep.server import HOST
from orchestrator.sweep.stream import Reading, shown
from orchestrator.sweep.wire import Transport, Turns, Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUEST_S = 5.0  # a question about health or models that takes longer is no answer
_POLL_S = 0.2
_BYTES = 16 * 2**20  # of one answer; and for each token of it:
_BYTES_A_TOKEN = 16 * 2**10
_EVENTS = 4  # of one token, at most, where an event brings less than one
_AHEAD = 2**22  # tokens of prompts that are made before the first is sent: some 24 MiB
_OK = 200
_JSON = {"Content-Type": "application/json"}


class Client:
    """A client of the server on `port` of this machine."""

    def __init__(self, port: int, load: Load) -> None:
        self._load = load
        self._turns = Turns()
        self.unhealthy = "no answer"
        self.idle_s = 0.0
        """Seconds of all streams between an answer's end and the next request: the client's own."""
        self._http = httpx.AsyncClient(
            base_url=f"http://{HOST}:{port}",
            transport=Transport(HOST, port, _BYTES + load.output_tokens * _BYTES_A_TOKEN, self._turns),
            timeout=None,  # noqa: S113 - every wait stands under asyncio.timeout, which counts tokens, not bytes
            trust_env=False,  # a proxy of the environment is not on the way to this machine
            headers={
                "Accept-Encoding": "identity",  # what packs a stream keeps its tokens back
                "Connection": "close",
            },
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
            if not isinstance(name, str):
                raise TypeError(name)  # noqa: TRY301 - as what is missing
        except TimeoutError:
            raise Failed(Kind.STALLED, "GET /v1/models: no answer") from None
        except httpx.HTTPError as error:
            raise Failed(Kind.CUT_SHORT, f"GET /v1/models: {_said(error)}") from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Failed(Kind.NOT_A_STREAM, f"GET /v1/models: no list of models: {shown(answer.text)}") from None
        return name

    def requests(self, model: str, prompts: Iterator[list[int]], count: int) -> Iterator[bytes]:
        """Return `count` requests, made before any is sent: while one is made, no other stream is read.

        Where they would fill the memory, those behind the first are made as they are wanted.
        """
        longest = max(self._load.prompt_tokens)
        made = [self._request(model, prompt) for prompt in itertools.islice(prompts, min(count, _AHEAD // longest))]
        rest = itertools.islice(prompts, count - len(made))
        return itertools.chain(made, (self._request(model, prompt) for prompt in rest))

    def _request(self, model: str, prompt: list[int]) -> bytes:
        """Return the body of a request."""
        body = {
            **self._load.body,
            "model": model,
            "prompt": prompt,
            "max_tokens": self._load.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(body, separators=(",", ":")).encode()

    async def ask(self, request: bytes, stall_s: float) -> Answer:
        """Send one request and read its whole answer; raise `Failed` for one that is no proper answer."""
        reading = Reading(most=_EVENTS * (self._load.output_tokens + 1))
        loop = asyncio.get_running_loop()
        try:
            async with (
                asyncio.timeout(stall_s) as patience,
                aconnect_sse(self._http, "POST", "/v1/completions", content=request, headers=_JSON) as source,
            ):
                if source.response.status_code != _OK:
                    await source.response.aread()
                    said = f"HTTP {source.response.status_code}: {shown(source.response.text)}"
                    raise Failed(Kind.REFUSED, said)
                wire = source.response.extensions["wire"]
                assert isinstance(wire, Wire)  # noqa: S101 - for the type checker: our own transport made it
                reading.sent = wire.sent
                async for event in source.aiter_sse():
                    if reading.event(event.event, event.data, wire.came):
                        patience.reschedule(loop.time() + stall_s)
                        wire.joins = True  # the times of the first token and of the last are what is wanted
                    if reading.done:
                        break
        except TimeoutError:
            after = "its last token" if reading.first is not None else "the request"
            raise Failed(Kind.STALLED, f"nothing came for {stall_s:g} s after {after}") from None
        except (SSEError, httpx.DecodingError) as error:
            raise Failed(Kind.NOT_A_STREAM, shown(str(error))) from None
        except httpx.HTTPError as error:
            raise Failed(Kind.CUT_SHORT, _said(error)) from None
        return reading.answer(wire.came)

    async def ask_all(self, requests: Iterator[bytes], concurrency: int, stall_s: float) -> list[Answer]:
        """Send the requests, `concurrency` at a time; the first failure ends it and is raised."""
        answers: list[Answer] = []
        began = time.perf_counter()

        async def client() -> None:
            free = began
            for request in requests:
                await self._turns.request()
                answer = await self.ask(request, stall_s)
                self.idle_s += answer.sent - free
                free = answer.ended
                answers.append(answer)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(client())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return answers


def _said(error: httpx.HTTPError) -> str:
    return f"the connection ended: {shown(str(error)) or type(error).__name__}"
