"""Imports that are calls: `importlib.import_module("pkg.x")`, `__import__("pkg.x")`, `runpy.run_module("pkg.x")`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.checks.house.expressions import accesses
from orchestrator.code.imports import Import, absolute, module_names, package_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.code.source import Source

_IMPORTERS = {"importlib.import_module": "name", "runpy.run_module": "mod_name", "__import__": "name"}
_TEXTS = (b"import_module", b"__import__", b"run_module")


def dynamic_imports(source: Source) -> tuple[Import, ...]:
    """Return the imports of a file that are calls with a literal name, as if they were statements."""
    if not any(text in source.raw for text in _TEXTS):
        return ()
    return source.derived(_dynamic_imports)


def _dynamic_imports(source: Source) -> tuple[Import, ...]:
    return tuple(_found(source))


def _found(source: Source) -> Iterator[Import]:
    for node, _, guard in accesses(source):
        if not isinstance(node, ast.Call) or (keyword := _IMPORTERS.get(_spelled(node.func, source))) is None:
            continue
        given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == keyword)]
        match given:
            case [ast.Constant(value=str(name))]:
                module = _absolute(name, node, source)
                if module is not None:
                    here = ast.copy_location(ast.Import([ast.copy_location(ast.alias(module), node)]), node)
                    yield Import(here, here.names[0], module, None, guard)


def _spelled(function: ast.expr, source: Source) -> str:
    """Return the dotted name of what is called, through the imports of the module."""
    match function:
        case ast.Name(id=name):
            bound = module_names(source).bindings.get(name, ())
            if not bound:
                return name
            entry = bound[0].imported if len(bound) == 1 else None
            return f"{entry.module}.{entry.name}" if entry is not None else ""
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            entry = next((b.imported for b in module_names(source).bindings.get(name, ())), None)
            return f"{entry.module}.{attr}" if entry is not None and entry.name is None else ""
        case _:
            return ""


def _absolute(name: str, call: ast.Call, source: Source) -> str | None:
    """Return the absolute name of a module, None where it cannot be known or is none."""
    level = len(name) - len(name.lstrip("."))
    if not level:
        return name if all(part.isidentifier() for part in name.split(".")) else None
    package = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "package")]
    match package:
        case [ast.Constant(value=str(text))]:
            return absolute(name[level:], level, text)
        case [ast.Name(id="__package__")]:
            return absolute(name[level:], level, package_of(source.path))
        case [ast.Name(id="__name__")] if source.path.endswith("/__init__.py"):
            return absolute(name[level:], level, package_of(source.path))
        case _:
            return None
