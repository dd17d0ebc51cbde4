"""One streamed answer of an OpenAI server: events in, times and counts out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.sweep.model import Answer, Failed, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

DONE = "[DONE]"
_SHOWN = 200


@dataclass
class Reading:
    """What a stream has said so far. `now` is when an event came, by the clock of whoever reads it, in seconds."""

    sent: float = 0.0
    most: float = math.inf
    """More events with tokens than this are no answer to what was asked."""
    events: int = 0
    first: float | None = None
    last: float = 0.0
    done: bool = False
    usage: Mapping[str, Any] = field(default_factory=dict)

    def event(self, kind: str, data: str, now: float) -> bool:
        """Take one event; return whether it brought a token. Raises `Failed` for what is no part of such a stream."""
        if data == DONE:
            self.done = True
            return False
        if not data:
            return False
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            raise Failed(Kind.NOT_A_STREAM, f"an event is no JSON: {shown(data)}") from None
        if not isinstance(chunk, dict):
            raise Failed(Kind.NOT_A_STREAM, f"an event is no object: {shown(data)}")
        if chunk.get("error") or "error" in {kind, chunk.get("object")}:
            raise Failed(Kind.REFUSED, f"the stream says an error: {shown(data)}")
        usage = chunk.get("usage")
        if isinstance(usage, dict) and usage:
            self.usage = usage
        if not any(_has_token(choice) for choice in _list(chunk.get("choices"))):
            return False
        self.events += 1
        if self.events > self.most:
            raise Failed(Kind.NOT_A_STREAM, "a stream has far more tokens than were asked for")
        self.first = now if self.first is None else self.first
        self.last = now
        return True

    def answer(self, ended: float) -> Answer:
        """Return what the whole stream came to; raise `Failed` where it ended early or says too little."""
        if not self.done:
            raise Failed(Kind.CUT_SHORT, f"a stream ended without `data: {DONE}`")
        prompt, output = (_count(self.usage.get(key)) for key in ("prompt_tokens", "completion_tokens"))
        if prompt is None or output is None:
            raise Failed(Kind.NO_USAGE, "a stream ended without `usage`, so that its tokens cannot be counted")
        if self.first is None or not output:
            raise Failed(Kind.CUT_SHORT, "a stream ended without a token")
        if output > self.most:
            raise Failed(Kind.NOT_A_STREAM, f"`usage` counts {output} tokens, far more than were asked for")
        details = self.usage.get("prompt_tokens_details")
        cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
        if cached is not None and cached > prompt:
            cached = None  # whatever it counts, these are no tokens of this prompt
        return Answer(self.sent, self.first, self.last, ended, prompt, output, cached, self.events)


def shown(text: str) -> str:
    """Return text from elsewhere on one line, cut to a length that can be read."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _has_token(choice: object) -> bool:
    """Tell whether a choice of a chunk stands for a token; a chat's first chunk only says who speaks."""
    if not isinstance(choice, dict):
        raise Failed(Kind.NOT_A_STREAM, "an event has `choices` that are no choices")
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(value for key, value in delta.items() if key != "role")
    return "text" in choice


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
