"""Wrappers that leave a signature as it is: they pass on all that they are called with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.code.imports import guarded, module_names
from orchestrator.code.scopes import FunctionNode, first_line
from orchestrator.code.symbols import own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.code.source import Source

_ONLY_LOOK = frozenset({"items", "keys", "values", "get", "update", "copy"})
_BUILTINS = frozenset({"globals", "type", "isinstance", "callable", "any", "all", "list", "dict", "tuple", "set"})


def is_transparent(function: FunctionNode) -> bool:
    """Tell whether `function(f)` gives `f`, or a `wrapper(*args, **kwargs)` that calls `f` with just that."""
    arguments = function.args
    if len(arguments.args) != 1 or arguments.posonlyargs or arguments.vararg or arguments.kwonlyargs or arguments.kwarg:
        return False
    wrapped = arguments.args[0].arg
    returned = [s.value for s, _ in guarded(function.body, nested=False) if isinstance(s, ast.Return)]
    inner = {s.name: s for s in function.body if isinstance(s, FunctionNode)}
    if not returned or not all(isinstance(value, ast.Name) for value in returned):
        return False
    names = {value.id for value in returned if isinstance(value, ast.Name)}
    return all(name == wrapped or (name in inner and _passes_on(inner[name], wrapped)) for name in names)


def _passes_on(wrapper: FunctionNode, wrapped: str) -> bool:
    arguments = wrapper.args
    if arguments.args or arguments.posonlyargs or arguments.kwonlyargs or not (arguments.vararg and arguments.kwarg):
        return False
    positional, named = arguments.vararg.arg, arguments.kwarg.arg
    calls = [
        node
        for node in ast.walk(wrapper)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == wrapped
    ]
    # What else reads them may take something out: `kwargs.pop("own")`.
    reads = sum(isinstance(node, ast.Name) and node.id in (positional, named) for node in ast.walk(wrapper))
    passed = f"{wrapped}(*{positional}, **{named})"
    return bool(calls) and reads == 2 * len(calls) and all(ast.unparse(call) == passed for call in calls)


def keeps_signatures(source: Source) -> bool:
    """Tell whether code that rebinds a module's names through `globals()` only wraps them, and so leaves signatures.

    Only what the module does itself counts, from the first `globals()` on: each call there must be one of a
    transparent wrapper of this module or one that only looks, and what is stored must be what a wrapper gave.
    """
    return source.derived(_keeps_signatures)


def _keeps_signatures(source: Source) -> bool:
    if any(text in source.raw for text in (b"exec(", b"vars()", b"locals()", b"sys.modules[", b"global_enum")):
        return False
    own = [s for s, _ in guarded(source.tree.body, nested=False) if not isinstance(s, FunctionNode | ast.ClassDef)]
    first = next((s.lineno for s in sorted(own, key=lambda s: s.lineno) if _asks(s, source)), None)
    inside = any(_asks(s, source) for s in source.tree.body if isinstance(s, FunctionNode | ast.ClassDef))
    if first is None or inside:
        return False
    return all(_is_harmless(node, source) for s in own if s.lineno >= first for node in _parts(s))


def _asks(statement: ast.stmt, source: Source) -> bool:
    lines = source.lines[first_line(statement) - 1 : statement.end_lineno]
    # An identifier outside of ASCII has several spellings.
    spelt = any("globals" in line or not line.isascii() for line in lines)
    return spelt and "globals()" in ast.unparse(statement)


def _parts(statement: ast.stmt) -> Iterator[ast.AST]:
    yield statement
    for expression in own_expressions(statement):
        yield from ast.walk(expression)


def _is_harmless(node: ast.AST, source: Source) -> bool:
    match node:
        case ast.Assign(targets=[ast.Subscript()], value=value):
            return isinstance(value, ast.Call) and _wraps(value.func, source)
        case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS:
            return True
        case ast.Call(func=ast.Attribute(attr="update"), args=[ast.Name()], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr=name), keywords=[]):
            return name in _ONLY_LOOK - {"update"}
        case ast.Call(func=function):
            return _wraps(function, source)
        case ast.Dict() | ast.DictComp():
            return not getattr(node, "keys", None) and isinstance(node, ast.Dict)
        case _:
            return True


def _wraps(function: ast.expr, source: Source) -> bool:
    if not isinstance(function, ast.Name):
        return False
    several = [binding.statement for binding in module_names(source).bindings.get(function.id, ())]
    return bool(several) and all(isinstance(s, FunctionNode) and is_transparent(s) for s in several)
