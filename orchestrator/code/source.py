"""One Python file: its bytes, its text, its syntax tree, and the way between their positions.

`ast` counts columns in UTF-8 bytes and lines the way Python's tokenizer does; editors and YAML count
characters. All conversions are here. Edits are splices of the text: nothing outside a span can change.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import io
import itertools
import tokenize
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, order=True)
class Span:
    """A half-open range of characters in a source's text."""

    start: int
    end: int


@dataclass(frozen=True)
class Splice:
    """Text that takes the place of a span."""

    span: Span
    text: str


def parse_python(text: str, name: str = "<code>", version: tuple[int, int] | None = None) -> ast.Module:
    """Return the syntax tree of `text`; raise `Rejected` (E408) where Python cannot read it.

    `version` asks for the grammar of an older Python as far as `ast` knows it (`feature_version`).
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the vendor's file is the vendor's business
            # Never under its own name: for the column of an error Python would read the file of that name on disk.
            return ast.parse(text, feature_version=version)
    except SyntaxError as error:
        place = Place(name, error.lineno or 0, max(1, error.offset or 1)) if error.lineno else Place(name)
        shown = f" for Python {version[0]}.{version[1]}" if version else ""
        message = f"not valid Python{shown}: {error.msg}"
        raise Rejected(Diagnostic("E408", message, place, help="Mend the code at this place.")) from None
    except (ValueError, RecursionError, MemoryError) as error:
        what = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise Rejected(Diagnostic("E408", f"not valid Python: {what}", Place(name), help="Look at the file.")) from None


@dataclass(frozen=True)
class Source:
    """A Python file. `raw` is what stands on disk; `text` is it decoded, without a byte order mark."""

    path: str
    raw: bytes

    @classmethod
    def parsed(cls, path: str, raw: bytes, tree: ast.Module) -> Source:
        """Return a source whose syntax tree is known already."""
        source = cls(path, raw)
        source.__dict__["tree"] = tree  # where the cached property keeps it
        return source

    @cached_property
    def encoding(self) -> str:
        """The encoding that the file declares (PEP 263), `utf-8` if none."""
        try:
            found, _ = tokenize.detect_encoding(io.BytesIO(self.raw).readline)
        except SyntaxError as error:
            raise Rejected(
                Diagnostic("E409", f"cannot be decoded: {error.msg}", Place(self.path), help="Correct the coding line.")
            ) from None
        return "utf-8" if found == "utf-8-sig" else found

    @cached_property
    def text(self) -> str:
        """The file's text with its own line ends."""
        body = self.raw.removeprefix(_BOM)
        try:
            return body.decode(self.encoding)
        except (UnicodeDecodeError, LookupError) as error:
            line = body[: error.start].count(b"\n") + 1 if isinstance(error, UnicodeDecodeError) else 1
            message = f"cannot be decoded as {self.encoding}: {error}"
            help_ = "Declare the file's encoding in its first line."
            raise Rejected(Diagnostic("E409", message, Place(self.path, line, 1), help=help_)) from None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the text."""
        return parse_python(self.text, self.path)

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends, split where Python's tokenizer splits."""
        return io.StringIO(self.text, newline="").readlines()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *itertools.accumulate(map(len, self.lines))]

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    def once(self, key: str, make: Callable[[], T]) -> T:
        """Return what `make` derives from this text, made at the first call and kept as long as the source."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[no-any-return]  # what `make` returned

    def derived(self, function: Callable[[Source], T]) -> T:
        """Return `function` of this source, asked at the first call and kept as long as the source."""
        return self.once(f"{function.__module__}.{function.__qualname__}", lambda: function(self))

    def offset(self, line: int, column: int) -> int:
        """Return the index into `text` of `ast`'s position (line from 1, column in UTF-8 bytes)."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if not text.isascii():
            column = len(text.encode()[:column].decode(errors="replace"))
        return self._starts[min(line, len(self._starts)) - 1] + column

    def span(self, node: ast.AST) -> Span:
        """Return where `node` stands; a decorated definition starts at its first `@`."""
        first = node
        decorators = getattr(node, "decorator_list", None)
        if decorators:
            start = self.offset(decorators[0].lineno, decorators[0].col_offset)
            return Span(self.text.rindex("@", 0, start), self.offset(node.end_lineno, node.end_col_offset))  # type: ignore[attr-defined]  # statements have positions
        return Span(
            self.offset(first.lineno, first.col_offset),  # type: ignore[attr-defined]  # callers pass nodes with positions
            self.offset(first.end_lineno, first.end_col_offset),  # type: ignore[attr-defined]
        )

    def segment(self, node: ast.AST) -> str:
        """Return the text of `node`."""
        span = self.span(node)
        return self.text[span.start : span.end]

    def place(self, node: ast.AST) -> Place:
        """Return line and column (characters, from 1) where `node` starts."""
        return self.place_of(self.span(node).start)

    def place_of(self, index: int) -> Place:
        """Return line and column of an index into the text."""
        line = self.line_of(index)
        return Place(self.path, line, index - self._starts[line - 1] + 1)

    def line_of(self, index: int) -> int:
        """Return the number (from 1) of the line that holds `index`."""
        line = max(1, bisect.bisect_right(self._starts, index))
        return min(line, max(1, len(self.lines)))

    def line_span(self, line: int) -> Span:
        """Return the range of a whole line, its end included."""
        return Span(self._starts[line - 1], self._starts[line])

    def indent_of(self, line: int) -> str:
        """Return the blanks that a line starts with."""
        text = self.lines[line - 1].lstrip("\f")
        return text[: len(text) - len(text.lstrip(" \t"))]

    @cached_property
    def indent_unit(self) -> str:
        """The blanks by which the first indented block of the file is indented, empty where there is none."""
        pending: list[ast.AST] = [self.tree]
        for node in pending:
            body = [s for s in getattr(node, "body", ()) if isinstance(s, ast.stmt)] if _has_block(node) else []
            if body and isinstance(node, ast.stmt) and body[0].lineno > node.lineno:
                outer, inner = self.indent_of(node.lineno), self.indent_of(body[0].lineno)
                if inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer) :]
            pending.extend(body)
        return ""

    def newline_at(self, line: int) -> str:
        """Return the end of this line or, where it has none, of the nearest line above that has one."""
        for text in reversed(self.lines[:line]):
            end = text[len(text.rstrip("\r\n")) :]
            if end:
                return end
        return "\n"

    def splice(self, splices: Iterable[Splice]) -> Source:
        """Return the source with each span replaced; bytes outside the spans stay as they are."""
        parts: list[str] = []
        position = 0
        for splice in sorted(splices, key=lambda s: (s.span.start, s.span.end)):
            if splice.span.start < position:
                raise ValueError("overlapping splices")
            parts += [self.text[position : splice.span.start], splice.text]
            position = splice.span.end
        parts.append(self.text[position:])
        return Source(self.path, self.encoded("".join(parts)))

    def encoded(self, text: str) -> bytes:
        """Return `text` as bytes in this file's encoding, with its byte order mark if it has one."""
        try:
            body = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = error.object[error.start : error.end]
            message = f"{character!r} cannot be written in this file's encoding, {self.encoding}"
            help_ = "Use an escape such as \\u00e9 in the inserted code."
            raise Rejected(Diagnostic("E409", message, Place(self.path), help=help_)) from None
        return _BOM + body if self.raw.startswith(_BOM) else body


def _has_block(node: ast.AST) -> bool:
    return isinstance(getattr(node, "body", None), list)


@contextlib.contextmanager
def not_too_deep(path: str) -> Iterator[None]:
    """Turn a RecursionError inside the block into `Rejected` (E408): the code of `path` is nested too deeply."""
    try:
        yield
    except RecursionError:
        help_ = "Split the deeply nested expression or block into smaller ones, or leave this file alone."
        raise Rejected(Diagnostic("E408", "the code is nested too deeply", Place(path), help=help_)) from None
