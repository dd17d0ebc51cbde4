"""Calls that are written as something else: `partial(f, x)`, `Thread(target=f, args=(x,))`, `getattr(m, "f")(x)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.checks.house.expressions import terminal
from orchestrator.checks.house.things import External

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.checks.house.names import Names
    from orchestrator.checks.house.things import Spot

_PARTIAL = "functools.partial"
_STARTERS = frozenset({"threading.Thread", "multiprocessing.Process"})
_WORDS = frozenset({"partial", "Thread", "Process"})


def may_be_indirect(raw: bytes) -> bool:
    """Tell whether a file may have such calls, by its bytes alone."""
    return any(word in raw for word in (b"getattr", *(word.encode() for word in _WORDS)))


def terminals(call: ast.Call) -> tuple[str, ...]:
    """Return the identifiers that a call may be a call of, as far as its text tells."""
    first = terminal(call.func)
    match call:
        case ast.Call(func=ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name))])):
            return (first, name)
        case ast.Call(args=args, keywords=keywords) if first in _WORDS:
            targets = [*args[:1], *(k.value for k in keywords if k.arg == "target")]
            return (first, *map(terminal, targets))
        case _:
            return (first,)


def meant(call: ast.Call, spot: Spot, names: Names) -> ast.Call:
    """Return the call that a call stands for; one that stands for itself has its literal stars written out."""
    match call.func:
        case ast.Call(func=ast.Name(id="getattr") as asked, args=[owner, ast.Constant(value=str(name))]):
            if names.of(asked, spot) == (External("builtins.getattr"),):
                function = ast.copy_location(ast.Attribute(owner, name, ast.Load()), call.func)
                return _as(call, function, call.args, call.keywords)
    if terminal(call.func) in _WORDS:
        known = names.of(call.func, spot)
        if known == (External(_PARTIAL),) and call.args:
            anything = ast.Starred(ast.Name("_", ast.Load()), ast.Load())
            more = ast.keyword(None, ast.Name("_", ast.Load()))
            return _as(call, call.args[0], [*call.args[1:], anything], [*call.keywords, more])
        if len(known) == 1 and isinstance(known[0], External) and known[0].name in _STARTERS:
            return _started(call)
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return _as(call, call.func, call.args, call.keywords)
    return call


def _started(call: ast.Call) -> ast.Call:
    given = {k.arg: k.value for k in call.keywords}
    target, args, keywords = given.get("target"), given.get("args"), given.get("kwargs")
    if target is None or call.args:
        return call
    positional = [ast.Starred(args, ast.Load())] if args is not None else []
    named = [ast.keyword(None, keywords)] if keywords is not None else []
    return _as(call, target, positional, named)


def _as(call: ast.Call, function: ast.expr, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> ast.Call:
    """Return a call at the place of another, with `*(1, 2)` and `**{"a": 1}` written out."""
    positional: list[ast.expr] = []
    for argument in args:
        match argument:
            case ast.Starred(value=ast.Tuple(elts=elts) | ast.List(elts=elts)):
                positional += elts
            case _:
                positional.append(argument)
    named: list[ast.keyword] = []
    for keyword in keywords:
        match keyword:
            case ast.keyword(arg=None, value=ast.Dict(keys=keys, values=values)) if all(map(_is_text, keys)):
                named += [ast.keyword(str(ast.literal_eval(k)), v) for k, v in zip(keys, values, strict=True) if k]
            case _:
                named.append(keyword)
    return ast.copy_location(ast.Call(function, positional, named), call)


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
