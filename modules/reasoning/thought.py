"""A thinking model's output, split at `</think>` into the thought and the answer.

The output comes in pieces. Where they are cut makes no difference: nothing is decided before the text that follows can
no longer change it. The tags belong to neither part, nor do the line ends next to them. A thought that is never closed
has no answer behind it. It knows nothing of vLLM.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

OPEN, CLOSE = "<think>", "</think>"


class Start(Enum):
    """Where an output begins, as far as its prompt says."""

    INSIDE = "the prompt opens a thought"
    OUTSIDE = "the prompt has a thought already, which may be empty"
    EITHER = "the prompt says nothing: a thought opens with the tag or not at all"


class Split(NamedTuple):
    """What a piece of output adds to the thought and to the answer."""

    thought: str
    answer: str


def start_after(prompt: str) -> Start:
    """Return where the output behind a prompt begins; the end of the prompt is enough."""
    end = prompt.rstrip()
    if end.endswith(OPEN):
        return Start.INSIDE
    return Start.OUTSIDE if end.endswith(CLOSE) else Start.EITHER


def start_within(message: str) -> Start:
    """Return where the output that continues a message begins."""
    if message.rfind(OPEN) > message.rfind(CLOSE):
        return Start.INSIDE
    return Start.OUTSIDE if message.strip() else Start.EITHER


class ThoughtSplitter:
    """Splits one output, piece by piece: `feed` each piece, then `close` once."""

    def __init__(self, start: Start) -> None:
        self._held = ""  # what is not decided yet
        self._go_on = {Start.INSIDE: self._at_the_tag, Start.EITHER: self._at_the_tag, Start.OUTSIDE: self._in_answer}[
            start
        ]
        self._otherwise = self._in_answer if start is Start.EITHER else self._before_thought

    def feed(self, text: str) -> Split:
        """Return what `text` decides."""
        self._held += text
        thought = answer = ""
        step = None
        while step != self._go_on:
            step = self._go_on
            more = step()
            thought += more.thought
            answer += more.answer
        return Split(thought, answer)

    def close(self) -> Split:
        """Return what the end of the output decides."""
        held, self._held = self._held, ""
        if self._go_on == self._at_the_tag:
            self._go_on = self._otherwise
        if self._go_on == self._in_answer:
            return Split("", held)
        if self._go_on == self._behind_thought:
            return Split("", "")
        # Line ends next to the place of the missing tag belong to the thought as little as those next to the tag.
        return Split((held.lstrip("\n") if self._go_on == self._before_thought else held).rstrip("\n"), "")

    # The states. Each takes what it can of the held text and names its successor.

    def _at_the_tag(self) -> Split:
        text = self._held.lstrip()
        if text.startswith(OPEN):
            self._held = text[len(OPEN) :]
            self._go_on = self._before_thought
        elif not OPEN.startswith(text):
            self._go_on = self._otherwise
        return Split("", "")

    def _before_thought(self) -> Split:
        self._held = self._held.lstrip("\n")
        if self._held:
            self._go_on = self._in_thought
        return Split("", "")

    def _in_thought(self) -> Split:
        end = self._held.find(CLOSE)
        if end >= 0:
            thought, self._held = self._held[:end].rstrip("\n"), self._held[end + len(CLOSE) :]
            self._go_on = self._behind_thought
            return Split(thought, "")
        # Line ends may yet turn out to stand before the tag, and so may the start of it.
        sure = len(self._held[: len(self._held) - _begun(self._held)].rstrip("\n"))
        thought, self._held = self._held[:sure], self._held[sure:]
        return Split(thought, "")

    def _behind_thought(self) -> Split:
        self._held = self._held.lstrip("\n")
        if self._held:
            self._go_on = self._in_answer
        return Split("", "")

    def _in_answer(self) -> Split:
        answer, self._held = self._held, ""
        return Split("", answer)


def split(output: str, start: Start) -> Split:
    """Return the two parts of a whole output."""
    splitter = ThoughtSplitter(start)
    first, last = splitter.feed(output), splitter.close()
    return Split(first.thought + last.thought, first.answer + last.answer)


def _begun(text: str) -> int:
    """Return how many characters at the end of `text` may be the start of the closing tag."""
    for length in range(min(len(text), len(CLOSE) - 1), 0, -1):
        if CLOSE.startswith(text[-length:]):
            return length
    return 0
