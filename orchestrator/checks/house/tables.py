"""Registry-like tables of a module: string keys to the names of a module and of what is defined in it.

An entry is read from `NAME = {...}`, `NAME = OrderedDict([...])`, `NAME["key"] = ...` and `NAME.update({...})`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.imports import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.code.source import Source

_PAIR = 2


@dataclass(frozen=True)
class Entry:
    """One entry of a table: its key and the strings that make up its value."""

    table: str
    key: str
    value: tuple[str, ...]
    node: ast.expr
    """What stands for the whole entry: its value, in the file."""


def entries(source: Source) -> tuple[Entry, ...]:
    """Return the entries of all tables that a file makes at its top level, in order."""
    return source.derived(_entries)


def _entries(source: Source) -> tuple[Entry, ...]:
    return tuple(entry for statement, _ in guarded(source.tree.body, nested=False) for entry in _of(statement))


def _of(statement: ast.stmt) -> Iterator[Entry]:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=table)], value=value)
            | ast.AnnAssign(target=ast.Name(id=table), value=ast.expr() as value)
            | ast.AugAssign(target=ast.Name(id=table), op=ast.BitOr(), value=value)
        ):
            yield from _all(table, value)
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str() as key))], value=value
        ):
            yield from _one(table, key, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr="update"), args=[value])):
            yield from _all(table, value)


def _all(table: str, value: ast.expr) -> Iterator[Entry]:
    match value:
        case ast.Dict(keys=keys, values=values):
            for written, each in zip(keys, values, strict=True):
                if isinstance(written, ast.Constant) and isinstance(written.value, str):
                    yield from _one(table, written.value, each)
        case ast.Call(args=[ast.Dict() as inner]):
            yield from _all(table, inner)
        case ast.Call(args=[ast.List(elts=pairs) | ast.Tuple(elts=pairs)]):
            for pair in pairs:
                match pair:
                    case ast.Tuple(elts=[ast.Constant(value=str() as key), each]):
                        yield from _one(table, key, each)


def _one(table: str, key: str, value: ast.expr) -> Iterator[Entry]:
    match value:
        case ast.Constant(value=str() as text):
            yield Entry(table, key, (text,), value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if len(parts) == _PAIR:
            texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if len(texts) == _PAIR:
                yield Entry(table, key, (texts[0], texts[1]), value)
