"""Indentation: code written with one unit of indentation, written with another."""

from __future__ import annotations

import io
import re
import tokenize

_NO_CODE = {tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER}


def with_unit(text: str, unit: str) -> str:
    r"""Return statements with every block indented by `unit`; what is aligned inside a statement moves with it.

    `text` starts at the margin and has `\n` for its line ends. Lines inside strings stay as they are.
    """
    own = _blocks(text)
    if not own or all(blanks == unit * depth for blanks, depth in own.values()):
        return text
    by_blanks = dict([*own.values(), ("", 0)])
    inside = string_lines(text)
    shown: list[str] = []
    now = ("", 0)
    for number, line in enumerate(text.split("\n"), start=1):
        blanks = line[: len(line) - len(line.lstrip(" \t"))]
        if number in own:
            now = own[number]
        elif line.lstrip().startswith("#") and blanks in by_blanks:
            now = (blanks, by_blanks[blanks])
        if number in inside or not blanks or not blanks.startswith(now[0]):
            shown.append(line)
        else:
            shown.append(unit * now[1] + line[len(now[0]) :])
    return "\n".join(shown)


def _blocks(text: str) -> dict[int, tuple[str, int]]:
    """Return for each line that starts a statement inside a block: its blanks, and how deep the block is."""
    found: dict[int, tuple[str, int]] = {}
    depth, fresh = 0, True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.INDENT:
                depth += 1
            elif token.type == tokenize.DEDENT:
                depth -= 1
            elif token.type == tokenize.NEWLINE:
                fresh = True
            elif fresh and token.type not in _NO_CODE:
                found[token.start[0]] = (token.line[: token.start[1]], depth)
                fresh = False
    except (tokenize.TokenError, SyntaxError):
        return {}
    return found if any(depth for _, depth in found.values()) else {}


_MAY_SPAN_LINES = re.compile(r"\"\"\"|'''|\\\n")


def string_lines(text: str) -> frozenset[int]:
    r"""Return the lines (from 1) of some statements that start inside a string literal: blanks there are content.

    Line ends are `\n`. The statements stand as they do in a file: all as far indented as the first or further.
    """
    if not _MAY_SPAN_LINES.search(text):
        return frozenset()
    start, end = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)
    inside: set[int] = set()
    opened: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            first = token.start[0]
            if token.type == start:
                opened.append(first)
            elif token.type == tokenize.STRING or (token.type == end and opened):
                inside.update(range((opened.pop() if token.type == end else first) + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        pass  # the lines read so far are known; the proof of an edit refuses what came out wrong
    return frozenset(inside)
