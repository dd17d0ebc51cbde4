"""Python that the image's own Python cannot read."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place

if TYPE_CHECKING:
    from orchestrator.inspect.text import Chunk

Version = tuple[int, int]
FSTRINGS: Version = (3, 12)
STARRED_INDEX: Version = (3, 11)
OLDEST: Version = (3, 7)


def syntax_fault(chunk: Chunk, version: Version | None) -> Diagnostic | None:
    """Return an E820 where a text does not parse for a version; without one, for the newest that is known here."""
    text = chunk.text
    shown = f"Python {version[0]}.{version[1]}" if version else "Python"
    help_ = "Correct it; nothing of this file would run." if version is None else f"Use only what {shown} knows."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, feature_version=max(version, OLDEST) if version else None)
            compile(tree, "a script", "exec", dont_inherit=True)  # `return` outside of a function, and the like
    except SyntaxError as error:
        line, column = error.lineno or 1, max(1, error.offset or 1)
        return Diagnostic("E820", f"{shown} cannot read this: {error.msg}", _place(chunk, line, column), help=help_)
    except (ValueError, RecursionError, MemoryError):
        return Diagnostic("E820", f"{shown} cannot read this: nested too deeply", Place(chunk.file), help=help_)
    if version is None:
        return None
    found = _newer(tree, text, version)
    if found is None:
        return None
    line, column, what = found
    return Diagnostic("E820", f"{shown} cannot read this: {what}", _place(chunk, line, column), help=help_)


def _place(chunk: Chunk, line: int, column: int) -> Place:
    lines = chunk.text.split("\n")
    before = "".join(f"{text}\n" for text in lines[: line - 1]) + (
        lines[line - 1][: column - 1] if line <= len(lines) else ""
    )
    return chunk.place(len(before.encode("utf-8", errors="surrogatepass")))


def _newer(tree: ast.Module, text: str, version: Version) -> tuple[int, int, str] | None:
    """Find what `feature_version` lets through."""
    if version < STARRED_INDEX:
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
                for item in node.slice.elts:
                    if isinstance(item, ast.Starred) and not _in_parentheses(text, node.slice):
                        return item.lineno, item.col_offset + 1, "a star in an index is new in Python 3.11"
    return _newer_fstring(text) if version < FSTRINGS else None


def _in_parentheses(text: str, node: ast.expr) -> bool:
    line = text.split("\n")[node.lineno - 1].encode()
    return line[node.col_offset : node.col_offset + 1] == b"("


def _newer_fstring(text: str) -> tuple[int, int, str] | None:
    """Find an f-string that uses its own quotes, a backslash or a comment inside of braces."""
    start = getattr(tokenize, "FSTRING_START", None)
    if start is None:  # this Python would have refused it
        return None
    quotes: list[tuple[str, int, int]] = []
    depth: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == start:
                quote = token.string.lstrip("rRfFbBuU")
                if any(quote[0] == outer[0][0] and len(outer[0]) <= len(quote) for outer in quotes):
                    return (
                        token.start[0],
                        token.start[1] + 1,
                        "an f-string with its own quotes inside is new in Python 3.12",
                    )
                quotes.append((quote, *token.start))
                depth.append(0)
            elif token.type == getattr(tokenize, "FSTRING_END", None):
                quotes.pop()
                depth.pop()
            elif quotes and token.type == tokenize.STRING:
                inner = re.sub(r"^\w*", "", token.string)
                if inner[0] == quotes[-1][0][0] and len(quotes[-1][0]) == 1:
                    return (
                        token.start[0],
                        token.start[1] + 1,
                        "an f-string with its own quotes inside is new in Python 3.12",
                    )
                if "\\" in token.string:
                    return (
                        token.start[0],
                        token.start[1] + 1,
                        "a backslash inside of an f-string's braces is new in Python 3.12",
                    )
            elif quotes and token.type == tokenize.COMMENT:
                return token.start[0], token.start[1] + 1, "a comment inside of an f-string is new in Python 3.12"
    except (tokenize.TokenError, SyntaxError, IndentationError, IndexError):
        return None
    return None
