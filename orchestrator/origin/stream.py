"""A stream that is read once, counted, digested and bounded on the way."""

from __future__ import annotations

import hashlib
from typing import IO

CHUNK = 2**16
MAX_PAST_END = 1000  # reads; tarfile goes over what a member says it holds block by block, though nothing is left


class TooLarge(Exception):  # noqa: N818 - a verdict about the input
    """More came out of a stream than was allowed; its text is the limit."""


class Counted:
    """Wraps a stream of bytes that can only be read forward.

    `count` is how many bytes were read, `last_nonzero` the position after the last one that is not zero, `sha256`
    the digest of all of them. Past `limit` bytes it raises `TooLarge`; who goes on reading where nothing is left
    gets an `EOFError`.
    """

    def __init__(self, stream: IO[bytes], limit: int | None = None) -> None:
        self._stream = stream
        self._limit = limit
        self._ahead = b""
        self._digest = hashlib.sha256()
        self._past_end = 0
        self.count = 0
        self.last_nonzero = 0

    def peek(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, without counting them."""
        while len(self._ahead) < size and (more := self._stream.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int = -1) -> bytes:
        """Return exactly `size` bytes, fewer only at the end of the stream, all that is left if negative."""
        parts: list[bytes] = []
        missing = size
        while size < 0 or missing > 0:
            part = self._next(CHUNK if size < 0 else min(missing, CHUNK))
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def drain(self) -> None:
        """Read what is left, so that count and digest cover the whole and the writer of a pipe can end."""
        while self._next(CHUNK):
            pass

    @property
    def sha256(self) -> str:
        """The digest, in hexadecimal, of the bytes read until now."""
        return self._digest.hexdigest()

    def _next(self, size: int) -> bytes:
        if self._ahead:
            part, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            part = self._stream.read(size) or b""
            self._past_end += not part
            if self._past_end > MAX_PAST_END:
                raise EOFError("it ends before its last member does")
        if stripped := len(part.rstrip(b"\0")):
            self.last_nonzero = self.count + stripped
        self.count += len(part)
        self._digest.update(part)
        if self._limit is not None and self.count > self._limit:
            raise TooLarge(f"{self._limit:,}")
        return part
