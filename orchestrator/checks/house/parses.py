"""E501: every touched file is a program for the target's Python."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.world import World
    from orchestrator.code.source import Source

_HELP = "Mend the code at this place: the image would hold a file that cannot be imported."

# Text that newer syntax cannot do without, each with the first Python that reads it. A hit means nothing yet: it
# only makes the syntax tree be looked at. (Each begins with a letter or sign of its own: such a search is quick.)
_SUSPECTS = tuple(
    (since, re.compile(text))
    for since, text in (
        ((3, 11), r"except\s*\*"),
        ((3, 11), r"\[(?:[^\]\n()]*,)?\s*\*\w"),
        ((3, 11), r"\*\w+\s*:\s*\*"),
        ((3, 12), r"def\s+\w+\s*\["),
        ((3, 12), r"class\s+\w+\s*\["),
        ((3, 12), r"type\s+\w+\s*[=\[]"),
        ((3, 14), r"[tT][rR]?[\"']"),
        ((3, 14), r"except\s+[\w.]+\s*,"),
    )
)
_SUSPECTS_ARE_KNOWN = (3, 10)


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each touched file that the target's Python cannot read."""
    for path in sorted(touched):
        source = world.view.source(path) if path.endswith(".py") else None
        if source is not None:
            found = _fault(source, world.view.facts.python)
            if found:
                yield found


def _fault(source: Source, python: tuple[int, int]) -> Diagnostic | None:
    try:
        fault = fault_of_compiling(source)
        if fault is not None:
            raise fault
        return _newer_syntax(source, python) if python < sys.version_info[:2] else None
    except Rejected as error:
        found = error.diagnostics[0]
        return _finding(found.message.removeprefix("not valid Python: "), found.place, python)
    except SyntaxError as error:
        place = Place(source.path, error.lineno or 0, max(1, error.offset or 1)) if error.lineno else None
        return _finding(str(error.msg), place or Place(source.path), python)
    except (ValueError, RecursionError, MemoryError) as error:
        what = str(error) if isinstance(error, ValueError) else "nested too deeply"
        return _finding(what, Place(source.path), python)


def _finding(what: str, place: Place | None, python: tuple[int, int]) -> Diagnostic:
    version = f"{python[0]}.{python[1]}"
    if python > sys.version_info[:2]:
        mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
        message = f"does not parse for Python {mine}, which runs this program; the target has {version}: {what}"
        help_ = f"Run this program with Python {version} to be sure; else the compile step in the image will tell."
        return Diagnostic("E501", message, place, help=help_, severity=Severity.WARNING)
    return Diagnostic("E501", f"does not parse for Python {version}: {what}", place, help=_HELP)


def fault_of_compiling(source: Source) -> Exception | None:
    """Return why the Python that runs us cannot compile a file, None where it can; asked once of a source.

    Only the compiler sees a late `from __future__` or a `return` outside of a function.
    """
    return source.derived(_fault_of_compiling)


def vouched(source: Source) -> Source:
    """Return a source noted as one that compiles: whoever calls has seen to it."""
    source.once(f"{__name__}.{_fault_of_compiling.__qualname__}", lambda: None)
    return source


def _fault_of_compiling(source: Source) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is no fault of this rule
            # The tree is parsed once, for the rules that follow; it raises with a place of its own.
            compile(source.tree, source.path, "exec", dont_inherit=True)
    except (Rejected, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error
    return None


def _newer_syntax(source: Source, python: tuple[int, int]) -> Diagnostic | None:
    suspect = any(python < since <= sys.version_info[:2] and text.search(source.text) for since, text in _SUSPECTS)
    if python >= _SUSPECTS_ARE_KNOWN and not suspect:
        return _strings(source, python)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(source.text, source.path, feature_version=python)
    # `ast` lets some newer syntax pass whatever version it is asked for.
    for node in ast.walk(source.tree):
        since, what = _since(node)
        if since > python:
            return _finding(f"{what} needs Python {since[0]}.{since[1]}", source.place(node), python)
    return _strings(source, python)


def _since(node: ast.AST) -> tuple[tuple[int, int], str]:
    """Return the first Python that can read a node, with words for what it is."""
    match node:
        case ast.TryStar():
            return (3, 11), "`except*`"
        case ast.Subscript(slice=ast.Tuple(elts=parts) as index) if any(isinstance(p, ast.Starred) for p in parts):
            # `a[(*b,)]` is old; without the parentheses the tuple starts where its first part starts.
            bare = (index.lineno, index.col_offset) == (parts[0].lineno, parts[0].col_offset)
            return ((3, 11), "a starred index") if bare else ((3, 0), "")
        case ast.ExceptHandler(type=ast.Tuple(elts=[first, *_]) as several):
            bare = (several.lineno, several.col_offset) == (first.lineno, first.col_offset)
            return ((3, 14), "`except` with several types and no parentheses") if bare else ((3, 0), "")
        case ast.arg(annotation=ast.Starred()):
            return (3, 11), "a starred annotation"
        case ast.Match():
            return (3, 10), "`match`"
        case _ if getattr(node, "type_params", None) or type(node).__name__ == "TypeAlias":
            return (3, 12), "a type parameter or `type` statement"
        case _ if getattr(node, "default_value", None):
            return (3, 13), "a default of a type parameter"
        case _ if type(node).__name__ == "TemplateStr":
            return (3, 14), "a template string"
        case _:
            return (3, 0), ""


def _strings(source: Source, python: tuple[int, int]) -> Diagnostic | None:
    """Find an f-string that only Python 3.12 and later can read (PEP 701), where we are run by such a Python."""
    start = getattr(tokenize, "FSTRING_START", None)
    if start is None or python >= (3, 12):
        return None
    opened: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        what = _new_in_fstring(token, opened)
        if what:
            message = f"{what} inside an f-string needs Python 3.12"
            return _finding(message, Place(source.path, token.start[0], token.start[1] + 1), python)
        if token.type == start:
            opened.append(token.string.lstrip("rRfFbBuU"))
        elif token.type == tokenize.FSTRING_END:  # type: ignore[attr-defined,unused-ignore]  # with FSTRING_START
            opened.pop()
    return None


def _new_in_fstring(token: tokenize.TokenInfo, opened: list[str]) -> str:
    if not opened or token.type in {
        tokenize.FSTRING_MIDDLE,  # type: ignore[attr-defined,unused-ignore]  # only called where it exists
        tokenize.FSTRING_END,  # type: ignore[attr-defined,unused-ignore]
    }:
        return ""
    if token.type == tokenize.COMMENT:
        return "a comment"
    if "\\" in token.string:
        return "a backslash"
    return "the same quote" if any(quote in token.string for quote in opened) else ""
