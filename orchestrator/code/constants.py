"""Folding of expressions: what a piece of code evaluates to, as far as that can be known without running it.

Nothing is ever evaluated by Python itself: a short list of operations on plain values is done here, with
bounds, and everything else folds to `Unknown` with the reason.
"""

from __future__ import annotations

import ast
import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Plain = None | bool | int | float | str | bytes | tuple["Plain", ...]

MAX_BITS = 4_000
MAX_LENGTH = 10_000
_MAX_POWER = 1_000
_MAX_SHIFT = 1_000


@dataclass(frozen=True)
class Unknown:
    """A value that could not be folded, and why."""

    reason: str

    def __str__(self) -> str:
        return f"unknown: {self.reason}"


Value = Plain | Unknown

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_POSITIVE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}
_CALLS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "bool": bool,
    "float": float,
    "len": len,
    "triton.cdiv": lambda a, b: -(-a // b),
    "triton.next_power_of_2": lambda n: 1 << (n - 1).bit_length(),
}


@functools.lru_cache(maxsize=4_096)  # every path through a function folds the same nodes again
def text_of(node: ast.AST) -> str:
    """Return an expression in the one spelling that facts are compared in."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
        case _:
            return ast.unparse(node)


@functools.lru_cache(maxsize=1_024)  # the same facts are stated to many checks
def normal(text: str) -> str:
    """Return expression text in that spelling; text that is not an expression stays as it is."""
    try:
        return ast.unparse(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


def assumption(node: ast.AST) -> str:
    """Return the key under which `known` holds that an expression of unknown value is true or false."""
    return f"bool({text_of(node)})"


def truth(node: ast.AST, names: Mapping[str, Value], known: Mapping[str, Value]) -> bool | Unknown:
    """Return whether a condition holds, as far as `fold` can tell."""
    try:
        return _Folder(names, known).truth(node)
    except RecursionError:
        return Unknown("a condition is nested too deeply")


def positive(node: ast.Compare) -> tuple[str, bool]:
    """Return a comparison as facts state it and whether it says the same: `a is not b` is `a is b`, negated."""
    if len(node.ops) == 1 and type(node.ops[0]) in _POSITIVE:
        return text_of(ast.Compare(node.left, [_POSITIVE[type(node.ops[0])]()], node.comparators)), False
    return text_of(node), True


def key(value: Value) -> tuple[str, str]:
    """Return what two values are compared by: `1`, `1.0` and `True` differ."""
    return ("Unknown", value.reason) if isinstance(value, Unknown) else (type(value).__name__, repr(value))


def fold(node: ast.AST, names: Mapping[str, Value], known: Mapping[str, Value]) -> Value:
    """Return what an expression evaluates to.

    `names` are the variables in reach; `known` maps whole expressions, spelt as by `normal`, to their values.
    """
    try:
        return _Folder(names, known).value(node)
    except RecursionError:
        return Unknown("an expression is nested too deeply")


class _Folder:
    def __init__(self, names: Mapping[str, Value], known: Mapping[str, Value]) -> None:
        self.names = names
        self.known = known

    def value(self, node: ast.AST) -> Value:
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str() | bytes() as plain):
                return plain
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
        if self.known:
            text = text_of(node)
            if text in self.known:
                return self.known[text]
        return self.composed(node)

    def composed(self, node: ast.AST) -> Value:
        match node:
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return self.all_known(items, tuple)
            case ast.UnaryOp() | ast.BinOp() | ast.BoolOp() | ast.Compare():
                return self.operation(node)
            case ast.IfExp(test=test, body=body, orelse=other):
                truth = self.truth(test)
                return truth if isinstance(truth, Unknown) else self.value(body if truth else other)
            case ast.NamedExpr(value=inner):
                return self.value(inner)
            case ast.Subscript(value=inner, slice=index):
                return self.all_known([inner, index], lambda both: operator.getitem(*both))
            case ast.Call(func=func, args=arguments, keywords=[]) if self.pure(func):
                return self.all_known(arguments, lambda values: _CALLS[text_of(func)](*values))
            case _:
                return Unknown(f"`{text_of(node)}` is not known")

    def operation(self, node: ast.UnaryOp | ast.BinOp | ast.BoolOp | ast.Compare) -> Value:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = self.truth(operand)
                return truth if isinstance(truth, Unknown) else not truth
            case ast.UnaryOp(op=unary, operand=operand):
                return self.all_known([operand], lambda values: _UNARY[type(unary)](values[0]))
            case ast.BinOp(left=left, op=binary, right=right):
                return self.all_known([left, right], lambda both: _arithmetic(binary, *both))
            case ast.Compare():
                return self.comparison(node)
            case _:
                return self.choice(node)

    def pure(self, func: ast.expr) -> bool:
        """Tell whether a call is one of those done here, and not of a local name that hides it."""
        text = text_of(func)
        return text in _CALLS and text.partition(".")[0] not in self.names

    def all_known(self, nodes: list[ast.expr], then: Callable[[Any], Any]) -> Value:
        """Return `then` of the values, the first unknown one where there is any."""
        values = [self.value(node) for node in nodes]
        for value in values:
            if isinstance(value, Unknown):
                return value
        shown = ", ".join(f"`{text_of(node)}`" for node in nodes)
        try:
            result: Value = then(tuple(values))
        except (ArithmeticError, TypeError, ValueError, LookupError) as error:
            return Unknown(f"what {shown} make has no value: {error}")
        return Unknown(f"what {shown} make is too large") if _too_large(result) else result

    def truth(self, node: ast.AST) -> bool | Unknown:
        """Return whether a condition holds; `and` and `or` are decided where one side decides them."""
        if isinstance(node, ast.BoolOp) and text_of(node) not in self.known:
            return self.decided(node)
        value = self.value(node)
        if isinstance(value, Unknown):
            assumed = self.known.get(assumption(node))
            return assumed if isinstance(assumed, bool) else value
        return bool(value)

    def decided(self, node: ast.BoolOp) -> bool | Unknown:
        decides = isinstance(node.op, ast.Or)
        truths = [self.truth(part) for part in node.values]
        if any(truth is decides for truth in truths):
            return decides
        return next((truth for truth in truths if isinstance(truth, Unknown)), not decides)

    def choice(self, node: ast.BoolOp) -> Value:
        """Return the operand that `and` or `or` yields."""
        value: Value = Unknown("empty")
        for part in node.values:
            value = self.value(part)
            if isinstance(value, Unknown) or bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def comparison(self, node: ast.Compare) -> Value:
        text, same = positive(node)
        found = self.known.get(text)
        if isinstance(found, bool):
            return found is same
        sides = [node.left, *node.comparators]
        unknown: Unknown | None = None
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            held = self.all_known([left, right], lambda both, op=op: _compared(op, *both))  # type: ignore[misc]  # mypy cannot infer a default
            if held is False:
                return False
            unknown = unknown or (held if isinstance(held, Unknown) else None)
        return True if unknown is None else Unknown(f"`{text_of(node)}` is not known")


def _compared(op: ast.cmpop, left: Value, right: Value) -> bool:
    if isinstance(op, ast.Is | ast.IsNot):
        same = key(left) == key(right)
        if same and left is not None and not isinstance(left, bool):
            raise TypeError("identity of equal values is not a matter of values")
        return same is isinstance(op, ast.Is)
    return bool(_COMPARISONS[type(op)](left, right))


def _arithmetic(op: ast.operator, left: Any, right: Any) -> Value:  # noqa: ANN401 - plain values of any kind
    if isinstance(op, ast.Pow) and (not isinstance(right, int | float) or abs(right) > _MAX_POWER or _wide(left)):
        raise ValueError("the power is out of bounds")
    if isinstance(op, ast.LShift) and (not isinstance(right, int) or right > _MAX_SHIFT):
        raise ValueError("the shift is out of bounds")
    if isinstance(op, ast.Mult) and _length(left) * _count(right) + _length(right) * _count(left) > MAX_LENGTH:
        raise ValueError("the repetition is out of bounds")
    if isinstance(op, ast.Mod) and isinstance(left, str | bytes):
        raise TypeError("text formatting is not folded")  # a width in it could ask for any amount of memory
    if type(op) not in _ARITHMETIC:
        raise TypeError("the operation is not folded")
    result: Value = _ARITHMETIC[type(op)](left, right)
    if isinstance(result, complex):
        raise TypeError("complex numbers are not folded")
    return result


def _wide(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > 64  # noqa: PLR2004 - any bound keeps powers small


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes | tuple) else 0


def _count(value: object) -> int:
    return abs(value) if isinstance(value, int) else 0


def _too_large(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() > MAX_BITS
    return isinstance(value, str | bytes | tuple) and len(value) > MAX_LENGTH
