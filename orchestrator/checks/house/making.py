"""Which files make names and modules in ways that no reading of their statements shows."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.code.nodes import parts_of
from orchestrator.code.spotting import lines_with, spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.code.source import Source


def makes_modules(source: Source) -> bool:
    """Tell whether a module may enter others by hand, as `os` does with `os.path`."""
    return b"sys.modules[" in source.raw


def makes_names(source: Source) -> bool:
    """Tell whether a file makes names in ways that no reading of it shows: `exec`, `globals()`, `sys.modules`."""
    return source.derived(_makes_names)


def _makes_names(source: Source) -> bool:
    if not any(text in source.raw for text in _MAKERS):
        return False
    harmless: set[ast.AST] = set()
    for node in _near(source.tree, lines_with(source, _MAKING)):
        match node:
            case (
                ast.Subscript(value=ast.Call() as call, ctx=ast.Load())
                | ast.Attribute(value=ast.Call() as call, attr="get" | "keys" | "items")
            ):
                harmless.add(call)  # it only looks
            case ast.Call(func=ast.Name(id="exec")):
                return True
            case ast.Call(func=ast.Name(id="globals" | "vars" | "locals"), args=[]) if node not in harmless:
                return True
            case ast.Subscript(value=ast.Attribute(attr="modules"), ctx=ast.Store()):
                return True
            case ast.Attribute(attr="global_enum" | "_convert_") | ast.Name(id="global_enum"):
                return True  # the enum module's own way
    return False


def _near(tree: ast.Module, lines: Sequence[int]) -> Iterator[ast.AST]:
    """Yield the nodes of the statements that span one of the lines, outer ones first."""
    pending: list[ast.AST] = [tree]
    for node in pending:
        yield node
        pending += (part for part in parts_of(node) if not isinstance(part, ast.stmt) or spans(part, lines))


_MAKING = ("exec", "globals", "vars", "locals", "modules", "global_enum", "_convert_")
"""The identifiers of all that follows; `_MAKERS` are the ways to write them that make a file be looked at."""
_MAKERS = (b"exec(", b"globals(", b"vars()", b"locals()", b"sys.modules[", b"global_enum", b"_convert_")
