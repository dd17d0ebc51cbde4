"""The tokens of a piece of code in one spelling, no matter which Python runs: what a definition's digest is made of."""

from __future__ import annotations

import functools
import io
import re
import tokenize
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER, tokenize.ENCODING}
_SPELLINGS = {tokenize.INDENT: "<in>", tokenize.DEDENT: "<out>", tokenize.NEWLINE: "<nl>"}
_FSTRING_START = getattr(tokenize, "FSTRING_START", None)
_FSTRING_END = getattr(tokenize, "FSTRING_END", None)


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a dedented or indented piece of code whose lines end with a line feed.

    Comments and blank lines are left out, the layout of blocks is `<in>`, `<out>` and `<nl>`, and an f-string is one
    token on every Python.
    """
    quick = _split(text) if _FSTRING_START is None else None  # from Python 3.12 on `tokenize` is quick itself
    return list(_tokenized(text)) if quick is None else quick


def _tokenized(text: str) -> Iterator[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    depth = 0
    opened = (0, 0)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if _FSTRING_START is not None and token.type == _FSTRING_START:
                opened = opened if depth else token.start
                depth += 1
            elif _FSTRING_END is not None and token.type == _FSTRING_END:
                depth -= 1
                if not depth:
                    yield _between(lines, opened, token.end)
            elif not depth and token.type not in _LAYOUT:
                yield _SPELLINGS.get(token.type) or token.string
    except (tokenize.TokenError, IndentationError):
        yield text  # nothing that `ast` could read gets here; if something does, its spelling counts


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    middle = lines[start[0] : end[0] - 1]
    return lines[start[0] - 1][start[1] :] + "".join(middle) + lines[end[0] - 1][: end[1]]


def _split(text: str) -> list[str] | None:
    """Return what `_tokenized` yields, None for code with anything unusual: one expression splits the whole text."""
    found: list[str] = []
    margins = [0]
    depth, before = 0, ""
    for match in _token().finditer(text):
        kind = match.lastgroup or ""
        if kind == "token":  # most of them
            found.append(match[kind])
        elif kind in _DEPTHS:
            found.append(match[kind])
            depth += _DEPTHS[kind]
        elif kind in {"odd", "strange"} or depth < 0:
            return None
        elif not depth and kind == "end" and found and found[-1] != "<nl>":
            found.append("<nl>")
        elif not depth and kind == "margin" and before != "joined" and not _indented(len(match[kind]), margins, found):
            return None
        before = kind
    return None if depth or before == "joined" else found + ["<out>"] * (len(margins) - 1)


_DEPTHS = {"open": 1, "close": -1}


def _indented(margin: int, margins: list[int], found: list[str]) -> bool:
    """Note what a logical line's margin opens or closes; False where it fits no block."""
    if margin > margins[-1]:
        margins.append(margin)
        found.append("<in>")
    while margin < margins[-1]:
        margins.pop()
        found.append("<out>")
    return margin == margins[-1]


@functools.cache
def _token() -> re.Pattern[str]:
    """Return the expression of one token with the blanks before it; `margin` is that of a line with code."""
    prefix = r"(?:[bB][rR]?|[rR][bBfF]?|[uU]|[fF][rR]?)?"
    strings = "|".join(
        f"{quotes}{inside}{quotes}"
        for quotes, inside in (
            ("'''", r"[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*"),
            ('"""', r'[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*'),
            ("'", r"(?!'')[^\n'\\]*(?:\\.[^\n'\\]*)*"),
            ('"', r'(?!"")[^\n"\\]*(?:\\.[^\n"\\]*)*'),
        )
    )
    operators = "|".join(re.escape(text) for text in sorted(tokenize.EXACT_TOKEN_TYPES, reverse=True))
    return re.compile(
        rf"^(?P<margin>[ ]*)(?=[^ \t\f\n#\\])|^[ ]*(?P<odd>\\)|[ ]*(?:"
        rf"(?P<open>[(\[{{])|(?P<close>[)\]}}])|(?P<token>{prefix}(?:{strings})|{tokenize.Number}|\w+|{operators})"
        rf"|(?P<end>\n)|(?P<joined>\\\n)|(?P<comment>\#[^\n]*)|(?P<strange>.))",
        re.DOTALL | re.MULTILINE,
    )
