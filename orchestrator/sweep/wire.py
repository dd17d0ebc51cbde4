"""Connections that know when their bytes came and went, so that a client that is behind does not call a server slow.

httpx's own transport reads a connection when its turn comes. With many streams under way that is long after the bytes
came, and the busier the client, the longer. Here bytes are taken from the system, with the time, before anything is
done about bytes that came before; what reads a stream gets them one after another, with the time of each. HTTP is
h11's, as it is httpx's.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, cast

import h11
import httpx

from orchestrator.sweep.model import Failed, Kind
from orchestrator.sweep.stream import shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_AHEAD_BYTES = 2**20  # taken from the system, not yet read: with more than that, the server has to wait
_BUFFER_BYTES = 2**16
_TURN_S = 0.002  # after so long a time the system is asked for bytes again
_TURN = 4  # what is begun then, in reads, each of some events: as much as takes about that time
_BEGIN = 2  # how many reads a request costs that is begun


class Turns:
    """Divides the work of a client into turns, between which bytes are taken from the system and get their time.

    Requests come before reads: a request that is late is a server less loaded, a read that is late is only late.
    """

    def __init__(self) -> None:
        self._requests: deque[asyncio.Future[None]] = deque()
        self._reads: deque[asyncio.Future[None]] = deque()
        self._goes_on = False
        self._until = 0.0
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        """What bytes come into, of every connection, before each keeps its own."""

    def came(self, now: float) -> None:
        """Hear that bytes came just now."""
        self._until = now + _TURN_S

    async def request(self) -> None:
        """Wait for a turn to begin a request in."""
        await self._wait(self._requests)

    async def read(self) -> None:
        """Wait for a turn to read in, unless this one goes on."""
        if time.perf_counter() > self._until:
            await self._wait(self._reads)

    async def _wait(self, queue: deque[asyncio.Future[None]]) -> None:
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        queue.append(mine)
        if not self._goes_on:
            self._goes_on = True
            loop.call_soon(self._turn)
        await mine

    def _turn(self) -> None:
        left = _TURN
        while left > 0 and (self._requests or self._reads):
            left -= _BEGIN if self._requests else 1
            _wake((self._requests or self._reads).popleft())
        self._goes_on = bool(self._requests or self._reads)
        if self._goes_on:
            asyncio.get_running_loop().call_soon(self._turn)


class Wire(asyncio.BufferedProtocol):
    """One connection. `sent` is when it was last written to, `came` when the bytes came that were last read.

    With `joins` whoever is behind reads at once all that came meanwhile, with the time of its end.
    """

    def __init__(self, turns: Turns) -> None:
        self.sent = self.came = 0.0
        self.joins = False
        self._turns = turns
        self._ready: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's
        """Give the place that bytes come into."""
        return self._turns.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Keep bytes with their time."""
        data = bytes(self._turns.buffer[:nbytes])
        now = time.perf_counter()
        self._turns.came(now)
        self._ready.append((now, data))
        self._bytes += len(data)
        if self._bytes > _AHEAD_BYTES and self._transport is not None:
            self._transport.pause_reading()
        _wake(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end, which is read behind what came before it."""
        self._error, self._ended = exc, True
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        """Have whoever writes wait."""
        self._writer = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let whoever writes go on."""
        _wake(self._writer)
        self._writer = None

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end; every wait stands under a limit of the client's."""
        if not self._ready and not self._ended:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        await self._turns.read()
        if not self._ready:
            if self._error is not None:
                raise httpx.ReadError(str(self._error)) from None
            return b""
        self.came, data = self._ready.popleft()
        if self.joins and self._ready:
            self.came = self._ready[-1][0]
            data = b"".join([data, *(more for _, more in self._ready)])
            self._ready.clear()
        self._bytes -= len(data)
        if self._bytes <= _AHEAD_BYTES and self._transport is not None and not self._ended:
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Write, and note when."""
        if self._ended or self._transport is None:
            raise httpx.WriteError(str(self._error or "the connection is closed"))
        self.sent = time.perf_counter()
        self._transport.write(data)
        if self._writer is not None:
            await self._writer

    def close(self) -> None:
        """Close; nothing is waited for."""
        if self._transport is not None:
            self._transport.abort()


class Transport(httpx.AsyncBaseTransport):
    """What httpx sends its requests with, to one port of this machine: a connection for each, `wire` of its response.

    Answers end at `limit` bytes: a server that writes without end must not fill our memory.
    """

    def __init__(self, host: str, port: int, limit: int, turns: Turns) -> None:
        self._host, self._port, self._limit, self._turns = host, port, limit, turns

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer; raises what httpx raises, and `Failed`."""
        loop = asyncio.get_running_loop()
        try:
            _, wire = await loop.create_connection(lambda: Wire(self._turns), self._host, self._port)
        except OSError as error:
            raise httpx.ConnectError(error.strerror or str(error), request=request) from None
        http = h11.Connection(h11.CLIENT)
        try:
            await wire.write(_written(http, request, await request.aread()))
            head = await _next(http, wire)
            while isinstance(head, h11.InformationalResponse):
                head = await _next(http, wire)
            if not isinstance(head, h11.Response):
                raise httpx.RemoteProtocolError("no HTTP response")  # noqa: TRY301 - closed below, as after any error
            response = httpx.Response(
                head.status_code,
                headers=list(head.headers.raw_items()),
                stream=_Body(http, wire, self._limit),
                extensions={"wire": wire},
            )
            response.encoding = "utf-8"  # as events and JSON are; what is named instead may be no encoding of text
            packed = response.headers.get("content-encoding", "").strip().lower()
            if packed not in {"", "identity"}:  # unpacked it may be of any length
                said = f"an answer is packed ({shown(packed)}), which was not asked for"
                raise Failed(Kind.NOT_A_STREAM, said)  # noqa: TRY301 - the same
        except BaseException:
            wire.close()
            raise
        return response


class _Body(httpx.AsyncByteStream):
    """The body of an answer, as it comes."""

    def __init__(self, http: h11.Connection, wire: Wire, limit: int) -> None:
        self._http, self._wire, self._left = http, wire, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while isinstance(event := await _next(self._http, self._wire), h11.Data):
            self._left -= len(event.data)
            if self._left < 0:
                raise Failed(Kind.NOT_A_STREAM, "an answer is far longer than its tokens can be")
            yield bytes(event.data)

    async def aclose(self) -> None:
        self._wire.close()


def _written(http: h11.Connection, request: httpx.Request, content: bytes) -> bytes:
    """Return a request as bytes, so that it goes out whole."""
    head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
    events: tuple[h11.Event, ...] = (head, h11.Data(data=content), h11.EndOfMessage())
    return b"".join(http.send(event) or b"" for event in events)


async def _next(http: h11.Connection, wire: Wire) -> h11.Event | type[h11.PAUSED]:
    """Return the next part of an answer."""
    try:
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await wire.read())
    except h11.RemoteProtocolError as error:
        raise httpx.RemoteProtocolError(str(error)) from None
    return cast("h11.Event | type[h11.PAUSED]", event)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
