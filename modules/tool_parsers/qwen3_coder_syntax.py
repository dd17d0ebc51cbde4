"""Qwen3-Coder's tool calls in a model's output: what is a call, and what is text.

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

A block has one function or more, blank space may stand between the tags, and a block counts only as a whole: what
breaks the form, or ends too early, is text, up to the place where it breaks. A value is verbatim but for one line end
next to each of its tags. It ends at the first `</parameter>` behind which the form goes on, so it may hold any text,
tags and `</parameter>` too. Text that is nothing but blank space next to a call is dropped.

The scanner takes the output in pieces. Where they are cut makes no difference: it decides nothing before the text
that follows can no longer change it. It knows nothing of vLLM.
"""

from __future__ import annotations

from typing import Generator, NamedTuple, Union

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FUNCTION, END_FUNCTION = "<function=", "</function>"
PARAMETER, END_PARAMETER = "<parameter=", "</parameter>"
_LONGEST = max(len(tag) for tag in (OPEN, CLOSE, FUNCTION, END_FUNCTION, PARAMETER, END_PARAMETER))


class Text(NamedTuple):
    """A piece of text for the reader."""

    text: str


class Call(NamedTuple):
    """A complete call; the values are as the model wrote them."""

    name: str
    parameters: dict[str, str]


class Refused(NamedTuple):
    """What began as a call at `offset` of the output (in characters) is text, and why."""

    reason: str
    offset: int


Event = Union[Text, Call, Refused]


class _NoCallError(Exception):
    """The form is broken at the cursor."""


class CallScanner:
    """Reads one output, piece by piece: `feed` each piece, then `close` once."""

    def __init__(self) -> None:
        self._text = ""  # what is not decided yet
        self._offset = 0  # where that starts in the output
        self._cursor = 0  # how far into it a block has been read
        self._ended = False
        self._blank = ""  # blank space that is text only if other text follows
        self._speaking = False  # some text was found since the last call
        self._called = False
        self._events: list[Event] = []
        self._reading = self._read()

    def feed(self, text: str) -> list[Event]:
        """Return what `text` decides, in the order of the output."""
        self._text += text
        return self._go_on()

    def close(self) -> list[Event]:
        """Return what the end of the output decides."""
        self._ended = True
        events = self._go_on()
        if self._blank and not self._called:
            events.append(Text(self._blank))
        return events

    def _go_on(self) -> list[Event]:
        next(self._reading, None)
        events, self._events = self._events, []
        return events

    # Each of these reads on from where the output is cut; a `yield` waits for more of it.

    def _read(self) -> Generator[None, None, None]:
        while (yield from self._read_text()):
            self._cursor = len(OPEN)
            try:
                calls = yield from self._read_block()
            except _NoCallError as fault:
                self._events.append(Refused(str(fault), self._offset))
                self._say(self._take(self._cursor))
                continue
            self._take(self._cursor)
            self._events.extend(calls)
            self._called, self._speaking, self._blank = True, False, ""

    def _read_text(self) -> Generator[None, None, bool]:
        """Read up to the next block; return whether there is one."""
        while True:
            start = self._text.find(OPEN)
            if start >= 0:
                self._say(self._take(start))
                return True
            kept = 0 if self._ended else begun(self._text, OPEN)
            self._say(self._take(len(self._text) - kept))
            if self._ended:
                return False
            yield

    def _read_block(self) -> Generator[None, None, list[Call]]:
        calls = []
        tag = yield from self._read_tag(FUNCTION)
        while tag == FUNCTION:
            calls.append((yield from self._read_function()))
            tag = yield from self._read_tag(FUNCTION, CLOSE)
        return calls

    def _read_function(self) -> Generator[None, None, Call]:
        name = yield from self._read_name("function")
        parameters: dict[str, str] = {}
        while (yield from self._read_tag(PARAMETER, END_FUNCTION)) == PARAMETER:
            key = yield from self._read_name("parameter")
            if key in parameters:
                raise _NoCallError("a parameter is given twice")
            parameters[key] = yield from self._read_value()
        return Call(name, parameters)

    def _read_tag(self, *tags: str) -> Generator[None, None, str]:
        """Return which of `tags` comes next, behind blank space."""
        while True:
            tag, start, may_come = self._next_tag(self._cursor, tags)
            if tag:
                self._cursor = start + len(tag)
                return tag
            if not may_come:
                self._cursor = start
                raise _NoCallError("there should be " + " or ".join(tags))
            yield from self._wait()

    def _read_name(self, what: str) -> Generator[None, None, str]:
        end = self._cursor
        while True:
            while end < len(self._text) and self._text[end] not in "<>\r\n":
                end += 1
            if end < len(self._text):
                break
            yield from self._wait()
        name = self._text[self._cursor : end].strip()
        self._cursor = end
        if self._text[end] != ">" or not name:
            raise _NoCallError("the name of a " + what + " is broken")
        self._cursor += 1
        return name

    def _read_value(self) -> Generator[None, None, str]:
        seen = self._cursor
        while True:
            end = self._text.find(END_PARAMETER, seen)
            if end < 0:
                seen = max(self._cursor, len(self._text) - len(END_PARAMETER) + 1)
            else:
                seen = end
                # `</tool_call>` goes on with nothing, but a value that took it would take the next call too.
                behind = end + len(END_PARAMETER)
                tag, _, may_come = self._next_tag(behind, (PARAMETER, END_FUNCTION, CLOSE))
                if tag:
                    break
                if not may_come:
                    seen = behind
                    continue
            yield from self._wait()
        value = self._text[self._cursor : end]
        self._cursor = end + len(END_PARAMETER)
        return _without_line_ends(value)

    def _next_tag(self, start: int, tags: tuple[str, ...]) -> tuple[str, int, bool]:
        """Return the tag that stands behind blank space ("" for none), where, and whether it may still come."""
        while start < len(self._text) and self._text[start].isspace():
            start += 1
        ahead = self._text[start : start + _LONGEST]
        for tag in tags:
            if ahead.startswith(tag):
                return tag, start, True
        return "", start, any(tag.startswith(ahead) for tag in tags)

    def _wait(self) -> Generator[None, None, None]:
        if self._ended:
            self._cursor = len(self._text)
            raise _NoCallError("the output ends inside it")
        yield

    def _take(self, length: int) -> str:
        taken, self._text = self._text[:length], self._text[length:]
        self._offset += length
        return taken

    def _say(self, text: str) -> None:
        text = self._blank + text
        if self._speaking or text.strip():
            self._speaking, self._blank = True, ""
            if text:
                self._events.append(Text(text))
        else:
            self._blank = text


def scan(output: str) -> list[Event]:
    """Return the events of a whole output."""
    scanner = CallScanner()
    return scanner.feed(output) + scanner.close()


def begun(text: str, tag: str) -> int:
    """Return how many characters at the end of `text` may be the start of `tag`."""
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0


def _without_line_ends(value: str) -> str:
    """Return a value without the line end behind its opening tag and the one before its closing tag."""
    value = value[1:] if value.startswith("\n") else value
    return value[:-1] if value.endswith("\n") else value
