"""Which files make names and modules in ways that no reading of their statements shows."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.code.source import Source


def makes_modules(source: Source) -> bool:
    """Tell whether a module may enter others by hand, as `os` does with `os.path`."""
    return b"sys.modules[" in source.raw


def makes_names(source: Source) -> bool:
    """Tell whether a file makes names in ways that no reading of it shows: `exec`, `globals()`, `sys.modules`."""
    if not any(text in source.raw for text in _MAKERS):
        return False
    harmless: set[ast.AST] = set()
    for node in ast.walk(source.tree):
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


_MAKERS = (b"exec(", b"globals(", b"vars()", b"locals()", b"sys.modules[", b"global_enum", b"_convert_")
