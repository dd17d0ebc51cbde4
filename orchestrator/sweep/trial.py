"""One value: write its run configuration, start the server, wait for health, put the load on it, end it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.sweep.cause import cause
from orchestrator.sweep.client import Client
from orchestrator.sweep.command import Filling, filled
from orchestrator.sweep.folder import write
from orchestrator.sweep.model import Failed, Fault, Kind, Limits, Load, Measured, percentiles, rates
from orchestrator.sweep.prompts import prompts
from orchestrator.sweep.server import Server, free_port, is_free, last_words, older, tail

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from orchestrator.sweep.model import Answer, Rates

T = TypeVar("T")
LOG = "server.log"
_PORT_TRIES = 3
_DYING_S = 1.0  # a server that takes a request with it into its end is seen to end in this time


@dataclass(frozen=True)
class Rendered:
    """What the pipeline renders for one value: the run configuration as bytes and as what it says.

    `refused` says why there is none.
    """

    value: str
    number: float
    name: str = ""
    content: bytes = b""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    concurrency: int = 1
    patchset: str = ""
    """Digest of what the pipeline installs in the image."""
    refused: str = ""


@dataclass(frozen=True)
class Serving:
    """How a server is started and asked, whatever the value."""

    words: tuple[str, ...]
    port: int | None = None
    """A free one if None."""
    model: str | None = None
    """The first one that the server lists if None."""
    health: str = "/health"
    limits: Limits = field(default_factory=Limits)


async def measure(
    rendered: Rendered, serving: Serving, load: Load, folder: Path, tell: Callable[[str], None]
) -> Measured | Fault:
    """Return what one value comes to; whatever happens, nothing of the server is left running.

    `tell` gets a line for each step. `folder` gets the run configuration and the server's log.
    """
    config = folder / rendered.name
    write(config, rendered.content)
    for attempt in range(1, _PORT_TRIES + 1):
        port = serving.port or free_port()
        words = filled(serving.words, Filling(rendered.value, port, config.absolute(), rendered.command))
        found = await _Trial(rendered, serving, load, folder / LOG, tell).run(words, port)
        lost = isinstance(found, Fault) and found.kind is Kind.PORT_TAKEN
        if not lost or serving.port or attempt == _PORT_TRIES:
            break
        tell(f"somebody else took port {port}; trying another")
    return found


@dataclass
class _Trial:
    """A server's life for one value; `phase` is the part of it that a failure belongs to."""

    rendered: Rendered
    serving: Serving
    load: Load
    log: Path
    tell: Callable[[str], None]
    phase: str = "start"

    async def run(self, words: list[str], port: int) -> Measured | Fault:
        if not is_free(port):
            return Fault(Kind.PORT_TAKEN, self.phase, f"somebody listens on port {port} already")
        environment = {**os.environ, **self.rendered.environment}
        for former in (self.log, older(self.log)):
            with contextlib.suppress(OSError):
                former.unlink()  # a server that cannot be started has no log
        try:
            server = await Server.start(words, environment, Path.cwd(), self.log, self.serving.limits.grace_s)
        except Failed as failure:
            return self._fault(failure)
        self.tell(f"started {words[0]} as process {server.pid}; log in {self.log}")
        try:
            return await self._serve(server, port)
        except Failed as failure:
            await asyncio.wait({server.exited}, timeout=_DYING_S)
            code = server.exited.result() if server.exited.done() else None
            return self._fault(cause(failure, code, last_words(self.log)))
        finally:
            if not await server.stop():
                self.tell(f"process {server.pid} may have left something running: its guard was killed")

    def _fault(self, failure: Failed) -> Fault:
        return Fault(failure.kind, self.phase, str(failure), tail(self.log))

    async def _serve(self, server: Server, port: int) -> Measured:
        began = time.perf_counter()
        async with Client(port, self.load) as client:
            try:
                async with asyncio.timeout(self.serving.limits.health_s):
                    await _unless_it_ends(server, client.healthy(self.serving.health))
            except TimeoutError:
                within = f"GET {self.serving.health} was not answered well in {self.serving.limits.health_s:g} s"
                raise Failed(Kind.NO_HEALTH, f"{within}; at last: {client.unhealthy}") from None
            start_s = time.perf_counter() - began
            self.tell(f"healthy after {start_s:.1f} s")
            try:
                async with asyncio.timeout(self.serving.limits.load_s):
                    found = await _unless_it_ends(server, self._answers(client))
            except TimeoutError:
                limit = f"{self.serving.limits.load_s:g} s"
                raise Failed(Kind.TOO_SLOW, f"the load was not through in {limit}") from None
        return self._measured(*found, start_s)

    @property
    def _concurrency(self) -> int:
        return self.load.concurrency or self.rendered.concurrency

    async def _answers(self, client: Client) -> tuple[list[Rates], list[Answer], float]:
        """Return the rates of each repeat, the answers of all of them, and the client's share of its streams' time."""
        self.phase = "warm-up"
        concurrency, stall_s = self._concurrency, self.serving.limits.stall_s
        model = self.serving.model or await client.model()
        source = prompts(self.load)
        if self.load.warm_up:
            requests = client.requests(model, source, concurrency * self.load.warm_up)
            await client.ask_all(requests, concurrency, stall_s)
        self.phase = "load"
        gc.collect()
        gc.freeze()  # what the pipeline left in memory is not looked through again while tokens come
        found: list[Rates] = []
        every: list[Answer] = []
        client.idle_s = 0.0
        for number in range(1, self.load.repeats + 1):
            requests = client.requests(model, source, concurrency * self.load.rounds)
            answers = await client.ask_all(requests, concurrency, stall_s)
            found.append(rates(answers))
            every.extend(answers)
            self.tell(f"repeat {number} of {self.load.repeats}: {found[-1].output:.1f} output tokens/s")
        return found, every, client.idle_s / (client.idle_s + sum(answer.ended - answer.sent for answer in every))

    def _measured(self, found: list[Rates], every: list[Answer], share: float, start_s: float) -> Measured:
        lengths = [answer.prompt for answer in every]
        return Measured(
            repeats=tuple(found),
            first_token_s=percentiles([answer.first_token_s for answer in every]),
            per_token_s=percentiles([answer.per_token_s for answer in every if answer.per_token_s is not None]),
            concurrency=self._concurrency,
            prompt_tokens=(min(lengths), max(lengths)),
            start_s=start_s,
            output_tokens=(min(answer.output for answer in every), max(answer.output for answer in every)),
            client_share=share,
        )


async def _unless_it_ends(server: Server, work: Awaitable[T]) -> T:
    """Return the result of `work`; raise `Failed` as soon as the server has ended."""
    task = asyncio.ensure_future(work)
    try:
        either: set[asyncio.Future[Any]] = {task, server.exited}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if server.exited.done():
            raise Failed(Kind.DIED, "the server ended")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # seen: what the server's end did to the requests is no news
