"""What a condition of a script takes for a sign that its patch is in: a text in a file, or that a file is there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.inspect.pycalls import gives_up, written
from orchestrator.inspect.pyflow import walk_scope
from orchestrator.inspect.pyvalues import called_name, text_of, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.inspect.pyflow import Flow
    from orchestrator.inspect.pyvalues import Names

_DEPTH = 8
_PLAIN = re.compile(r"[^.^$*+?{}\[\]\\|()]+")
_THERE = frozenset({"os.path.exists", "os.path.isfile", "path.exists", "path.isfile"})


@dataclass(frozen=True)
class Sign:
    """A text that a file must have, or with `is_path` a path that must be there."""

    text: str
    node: ast.expr
    is_path: bool = False


def signs(body: list[ast.stmt], names: Names, flow: Flow) -> Iterator[Sign]:
    """Yield what a block takes for a sign: where it is there, the block does without its work and without a failure."""
    for node in walk_scope(body):
        if not isinstance(node, ast.If):
            continue
        if not flow.raises(node.body) and gives_up(node.body):
            yield from _told(node.test, names, holds=True)
        works = any(isinstance(n, ast.Call) and _works(n) for n in walk_scope(node.body))
        if works and not flow.raises(node.orelse):
            yield from _told(node.test, names, holds=False)


def _works(call: ast.Call) -> bool:
    return written(call) is not None or called_name(call).rpartition(".")[2] in {"replace", "sub", "copy", "copyfile"}


def _told(test: ast.expr, names: Names, *, holds: bool, depth: int = 0) -> Iterator[Sign]:  # noqa: C901 - one case for each kind
    """Yield the signs that are there exactly when a condition holds, or does not."""
    if depth > _DEPTH:
        return
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _told(inner, names, holds=not holds, depth=depth + 1)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.Or) is holds:
            for value in values:
                yield from _told(value, names, holds=holds, depth=depth + 1)
        case ast.NamedExpr(value=value):
            yield from _told(value, names, holds=holds, depth=depth + 1)
        case ast.Name(id=name):
            bound, scope = names.lookup(name)
            if bound is not None:
                yield from _told(bound, scope, holds=holds, depth=depth + 1)
        case ast.Call(func=ast.Name(id="any" | "bool"), args=[ast.GeneratorExp() | ast.ListComp() as every]) if holds:
            yield from _any_of(every, names)
        case ast.ListComp() if holds:
            yield from _any_of(test, names)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op]) if isinstance(op, ast.In) is holds:
            yield from _text(left, names)
        case ast.Compare(left=ast.Call() as call, ops=[op], comparators=[bound]) if _is_found(call, op, bound) is holds:
            yield from _text(call.args[0], names)
        case ast.Call() if holds:
            yield from _asked(test, names)


def _asked(call: ast.Call, names: Names) -> Iterator[Sign]:
    name = called_name(call)
    match call.func:
        case ast.Attribute(value=value, attr="exists" | "is_file") if name not in _THERE:
            yield Sign(value_of(value, names), call, is_path=True)
        case _ if name in _THERE and call.args:
            yield Sign(value_of(call.args[0], names), call, is_path=True)
        case ast.Attribute(attr="count" | "startswith" | "endswith" | "__contains__") if call.args:
            yield from _text(call.args[0], names)
        case ast.Attribute(value=ast.Name(id="re"), attr="search" | "match" | "findall") if call.args:
            yield from (sign for sign in _text(call.args[0], names) if _PLAIN.fullmatch(sign.text))


def _any_of(every: ast.GeneratorExp | ast.ListComp, names: Names) -> Iterator[Sign]:
    """`any(m in s for m in ["a", "b"])`, `[line for line in lines if "a" in line]`."""
    for generator in every.generators:
        for test in (every.elt, *generator.ifs):
            match test, generator.iter:
                case ast.Compare(left=ast.Name(), ops=[ast.In()]), ast.List(elts=texts) | ast.Tuple(elts=texts):
                    for text in texts:
                        yield from _text(text, names)
                case ast.Compare(left=left, ops=[ast.In()]), _:
                    yield from _text(left, names)


def _is_found(call: ast.Call, op: ast.cmpop, bound: ast.expr) -> bool | None:
    """Tell whether a comparison of `.find()` or `.count()` says that the text is there, None where it is none."""
    if called_name(call).rpartition(".")[2] not in {"find", "rfind", "count"} or not call.args:
        return None
    none = 0 if called_name(call).endswith("count") else -1
    try:
        value = ast.literal_eval(bound)
    except ValueError:
        return None
    match op:
        case ast.Gt() | ast.NotEq() if value == none:
            return True
        case ast.GtE() if value == none + 1:
            return True
        case ast.Eq() | ast.LtE() if value == none:
            return False
        case ast.Lt() if value == none + 1:
            return False
        case _:
            return None


def _text(node: ast.expr, names: Names) -> Iterator[Sign]:
    text = text_of(node, names)
    if text:
        yield Sign(text, node)
