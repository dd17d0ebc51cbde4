"""One spelling for one thing: a script's tree in which names of known modules are written out.

`from subprocess import run as r; r(…)` becomes `subprocess.run(…)`, and `f = lambda s: …` becomes a function. What
reads the tree then knows one form.
"""

from __future__ import annotations

import ast

_KNOWN = frozenset(
    [
        "asyncio", "atexit", "codecs", "contextlib", "fileinput", "glob", "httpx", "importlib", "importlib.util", "io",
        "os", "os.path", "re", "requests", "runpy", "shutil", "subprocess", "sys", "threading", "urllib.request",
    ]
)  # fmt: skip


def plainly_named(tree: ast.Module) -> ast.Module:
    """Return the tree with every name of a known module written as the module and the name."""
    written_out: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                written_out |= {a.asname: a.name for a in names if a.asname and a.name in _KNOWN}
            case ast.ImportFrom(module=str(module), names=names, level=0) if module in _KNOWN:
                written_out |= {a.asname or a.name: f"{module}.{a.name}" for a in names if a.name != "*"}
    for node in ast.walk(tree):  # a name that means something else as well is left alone
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                written_out.pop(name, None)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                written_out.pop(name, None)
    _Writer(written_out).visit(tree)
    return tree


class _Writer(ast.NodeTransformer):
    def __init__(self, written_out: dict[str, str]) -> None:
        self.written_out = written_out

    def visit_Name(self, node: ast.Name) -> ast.expr:
        dotted = self.written_out.get(node.id)
        if dotted is None or not isinstance(node.ctx, ast.Load):
            return node
        first, *rest = dotted.split(".")
        found: ast.expr = ast.copy_location(ast.Name(first, ast.Load()), node)
        for part in rest:
            found = ast.copy_location(ast.Attribute(found, part, ast.Load()), node)
        return found

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=arguments, body=body)):
                result = ast.copy_location(ast.Return(body), body)
                function = ast.FunctionDef(name, arguments, [result], [])
                function.type_params = []  # type: ignore[attr-defined]  # from Python 3.12 on
                return ast.copy_location(function, node)
            case _:
                return node
