"""Registry-like tables of a module: string keys to the names of a module and of what is defined in it.

An entry is read from `NAME = {...}`, `NAME = OrderedDict([...])`, `NAME["key"] = ...`, `NAME |= {...}`,
`NAME.update({...})` and `NAME.setdefault("key", ...)`; `NAME` may be `module.NAME`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.imports import statements_in

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
    """Return the entries of all tables that a file makes or adds to, in order."""
    return source.derived(_entries)


def _entries(source: Source) -> tuple[Entry, ...]:
    # What a function does to a table counts as well: whoever registers something does it in one, more often than not.
    return tuple(entry for statement, guard in statements_in(source) for entry in _of(statement, bool(guard.scopes)))


def _of(statement: ast.stmt, inner: bool) -> Iterator[Entry]:  # noqa: FBT001 - private, one meaning
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=table)], value=value)
            | ast.AnnAssign(target=ast.Name(id=table), value=ast.expr() as value)
            | ast.AugAssign(target=ast.Name(id=table), op=ast.BitOr(), value=value)
        ) if not inner:
            yield from _all(table, value)
        case ast.AugAssign(target=ast.Attribute() as table_, op=ast.BitOr(), value=value):
            yield from _all(ast.unparse(table_), value)
        case ast.Assign(
            targets=[
                ast.Subscript(value=ast.Name() | ast.Attribute() as table_, slice=ast.Constant(value=str() as key))
            ],
            value=value,
        ):
            yield from _one(ast.unparse(table_), key, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as table_)) as call):
            yield from _called(ast.unparse(table_), call)


def _called(table: str, call: ast.Call) -> Iterator[Entry]:
    match call:
        case ast.Call(func=ast.Attribute(attr="update"), args=args, keywords=keywords):
            for value in args[:1]:
                yield from _all(table, value)
            yield from _keywords(table, keywords)
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[ast.Constant(value=str() as key), value]):
            yield from _one(table, key, value)


def _keywords(table: str, keywords: list[ast.keyword]) -> Iterator[Entry]:
    for keyword in keywords:
        if keyword.arg is not None:
            yield from _one(table, keyword.arg, keyword.value)
        else:
            yield from _all(table, keyword.value)


def _all(table: str, value: ast.expr) -> Iterator[Entry]:
    match value:
        case ast.Dict(keys=keys, values=values):
            for written, each in zip(keys, values, strict=True):
                if written is None:  # `**{...}`
                    yield from _all(table, each)
                elif isinstance(written, ast.Constant) and isinstance(written.value, str):
                    yield from _one(table, written.value, each)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _all(table, left)
            yield from _all(table, right)
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            yield from _keywords(table, keywords)
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
