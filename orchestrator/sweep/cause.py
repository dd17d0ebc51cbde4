"""Why a value failed: what the client saw, how the server ended, and what its log says, put together. Pure."""

from __future__ import annotations

import re
import signal

from orchestrator.sweep.model import Failed, Kind

_KILLED = {-9, 137}
"""How a killed process ends, and a shell whose child was killed."""
_NO_MEMORY = re.compile(
    r"out of memory|OutOfMemory|\bOOM\b(?!-score)|MemoryError|bad_alloc|Cannot allocate memory|ENOMEM"
    r"|No available memory for the cache blocks|than the maximum number of tokens that can be stored in KV cache",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"\b(if|may|might|could|can|avoids?|prevents?|in case)\b[^.:;!]*$", re.IGNORECASE)
"""What stands before the word where a line says what may happen, or what to do if it does, and not what did."""
_TAKEN = re.compile(r"address (is )?already in use|EADDRINUSE|port .{0,20}(already )?(in use|taken)", re.IGNORECASE)
_SAYING = 200


def cause(seen: Failed | None, code: int | None, log: str) -> Failed:
    """Return the failure as it is recorded.

    `seen` is what the client saw, None if it saw nothing wrong before the server ended; `code` is the exit code of a
    server that ended by itself (negative: the signal), None for one that was still running.
    """
    memory = _line(_NO_MEMORY, log)
    if code is None and seen is not None:
        if memory and seen.kind is not Kind.NOT_STARTED:
            return Failed(Kind.OUT_OF_MEMORY, f"{seen}; the log says: {memory}")
        return seen
    ended = _ended(code)
    if memory:
        return Failed(Kind.OUT_OF_MEMORY, f"{ended}; the log says: {memory}")
    if code in _KILLED:
        return Failed(Kind.OUT_OF_MEMORY, f"{ended}, as the system does where memory runs out; the log does not say")
    taken = _line(_TAKEN, log)
    if taken:
        return Failed(Kind.PORT_TAKEN, f"{ended}; the log says: {taken}")
    return Failed(Kind.DIED, ended)


def _ended(code: int | None) -> str:
    if code is None:
        return "the server ended"
    if -code in {signal.SIGTTIN, signal.SIGTTOU}:
        return f"the server wants to use the terminal, which is the sweep's, and was stopped (signal {-code})"
    stays = "; it has to stay in the foreground" if code == 0 else ""
    return f"the server was ended by signal {-code}" if code < 0 else f"the server ended with exit code {code}{stays}"


def _line(pattern: re.Pattern[str], log: str) -> str:
    """Return the last line of the log that a pattern finds, '' if none."""
    lines = [line.strip() for line in log.splitlines() if _said(pattern, line)]
    return lines[-1][:_SAYING] if lines else ""


def _said(pattern: re.Pattern[str], line: str) -> bool:
    return any(not _ADVICE.search(line[: match.start()]) for match in pattern.finditer(line))
