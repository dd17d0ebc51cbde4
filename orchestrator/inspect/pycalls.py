"""What single calls of a Python script do to files."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.inspect.pyflow import walk_scope
from orchestrator.inspect.pyvalues import argument, called_name, value_of

if TYPE_CHECKING:
    from orchestrator.inspect.pyflow import FunctionNode
    from orchestrator.inspect.pyvalues import Names


def written(node: ast.Call) -> ast.expr | None:
    """Return the path that a call writes to."""
    match node.func:
        case ast.Attribute(value=value, attr="write_text" | "write_bytes"):
            return value
        case ast.Attribute(value=value, attr="open") if is_write_mode(node, at=0) and not isinstance(
            value, ast.Name | ast.Attribute
        ):
            return value
        case ast.Attribute(value=ast.Name(id=name) as value, attr="open") if name not in {
            "io",
            "os",
            "gzip",
            "codecs",
            "tarfile",
            "zipfile",
        }:
            return value if is_write_mode(node, at=0) else None
        case ast.Name(id="open") | ast.Attribute(value=ast.Name(id="io" | "codecs"), attr="open"):
            return argument(node, 0, "file") if is_write_mode(node) else None
        case ast.Attribute(value=ast.Name(id="fileinput")):
            return argument(node, 0, "files") if any(k.arg == "inplace" for k in node.keywords) else None
        case ast.Name(id="FileInput"):
            return argument(node, 0, "files")
    return None


def is_write_mode(node: ast.Call, at: int = 1) -> bool:
    """Tell whether the mode that `open` is given is one for writing."""
    mode = argument(node, at, "mode")
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and bool(set("wax+") & set(mode.value))


def positional(node: ast.Call, at: int, function: FunctionNode | None) -> ast.expr | None:
    """Return the argument that stands at a place of a function, by place or by name."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)] if function else []
    return argument(node, at, *names[at : at + 1])


def word_of(node: ast.expr, names: Names) -> str:
    """Return a word of a command line."""
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="executable"):
            return "python3"
        case _:
            return value_of(node, names)


def gives_up(body: list[ast.stmt]) -> bool:
    """Tell whether a branch leaves without doing its work; one that raises has to be told apart before."""
    for node in walk_scope(body):
        if isinstance(node, ast.Return | ast.Continue | ast.Break | ast.Raise):
            return True
        if isinstance(node, ast.Call) and called_name(node) in {"sys.exit", "exit", "quit", "os._exit"}:
            return True
    return all(isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)) for s in body)
