"""Replacements without a `replace`: loops and comprehensions over the lines of a file, and what is cut in two."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.inspect.pyflow import mentions, walk_scope
from orchestrator.inspect.pyvalues import called_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.inspect.pyflow import Flow

_WRITES = frozenset({"write", "write_text", "write_bytes", "writelines"})
_MISSED = frozenset({"ValueError", "Exception", "BaseException"})


def is_line_loop(node: ast.For, is_text: Callable[[ast.AST], bool]) -> bool:
    """Tell whether a loop goes through the lines of a file and changes those that hold something."""
    source = node.iter
    if isinstance(source, ast.Call) and called_name(source) in {"enumerate", "list", "reversed"} and source.args:
        source = source.args[0]
    if isinstance(source, ast.Call) and any(keyword.arg == "inplace" for keyword in source.keywords):
        return called_name(source) in {"fileinput.input", "fileinput.FileInput"}
    if not is_text(source):
        return False
    for inner in walk_scope(node.body):
        if isinstance(inner, ast.If) and any(
            isinstance(c, ast.Compare) and isinstance(c.ops[0], ast.In) for c in ast.walk(inner.test)
        ):
            changed = [n for n in walk_scope(inner.body) if isinstance(n, ast.Assign | ast.Call)]
            if any(_changes(n) for n in changed):
                return True
    return False


def loop_is_checked(node: ast.For, name: str, body: list[ast.stmt], flow: Flow) -> bool:
    """Tell whether somebody asks, in the loop or after it, whether it found anything."""
    if node.orelse and flow.raises(node.orelse):
        return True
    named = {n.id for n in walk_scope(node.body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    named |= {
        n.value.id for n in walk_scope(node.body) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    }
    for inner in walk_scope(body):
        if isinstance(inner, ast.Assert) and inner.lineno > node.lineno and mentions(inner.test, named):
            return True
        if isinstance(inner, ast.If) and inner.lineno > (node.end_lineno or 0) and mentions(inner.test, named):
            return flow.raises([*inner.body, *inner.orelse]) or flow.hands_on(inner.body, name)
    return flow.raises(node.body)


def looked_for_in_lines(
    node: ast.ListComp | ast.GeneratorExp, is_text: Callable[[ast.AST], bool], body: list[ast.stmt]
) -> ast.expr | None:
    """Return what a comprehension over a file's lines changes or leaves out in what is written, None otherwise."""
    if not any(is_text(generator.iter) for generator in node.generators) or not _is_written(node, body):
        return None
    tests = [test for generator in node.generators for test in generator.ifs]
    tests += [inner.test for inner in ast.walk(node.elt) if isinstance(inner, ast.IfExp)]
    for test in tests:
        match test:
            case ast.Compare(left=ast.Constant(value=str()) as left, ops=[ast.In() | ast.NotIn()]):
                return left
    return None


def _is_written(node: ast.AST, body: list[ast.stmt]) -> bool:
    """Tell whether an expression is part of what is written, by itself or by the name that holds it."""
    written = [
        inner
        for call in walk_scope(body)
        if isinstance(call, ast.Call) and called_name(call).rpartition(".")[2] in _WRITES
        for given in call.args
        for inner in ast.walk(given)
    ]
    names = {inner.id for inner in written if isinstance(inner, ast.Name)}
    held = {
        target.id
        for statement in walk_scope(body)
        if isinstance(statement, ast.Assign) and any(inner is node for inner in ast.walk(statement.value))
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    return any(inner is node for inner in written) or bool(names & held)


def is_put_together(parts: Sequence[ast.expr], body: list[ast.stmt]) -> bool:
    """Tell whether the parts that a text is cut into are put together again in what is written."""
    named = {part.id for part in parts if isinstance(part, ast.Name)}
    for node in walk_scope(body):
        if isinstance(node, ast.Call) and called_name(node).rpartition(".")[2] in _WRITES:
            used = {n.id for a in node.args for n in ast.walk(a) if isinstance(n, ast.Name)} & named
            if len(used) > 1:
                return True
    return False


def is_swallowed(call: ast.Call, body: list[ast.stmt], flow: Flow, function: str) -> bool:
    """Tell whether the error of `.index()` is caught, and nothing comes of it."""
    for node in walk_scope(body):
        if isinstance(node, ast.Try) and any(inner is call for inner in walk_scope(node.body)):
            for handler in node.handlers:
                names = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} if handler.type else _MISSED
                if names & _MISSED and not flow.raises(handler.body) and not flow.hands_on(handler.body, function):
                    return True
    return False


def _changes(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Subscript()]):
            return True
        case ast.Call(func=ast.Attribute(attr="append" | "insert" | "extend")):
            return True
        case _:
            return False
