"""Signatures: a function's parameters as plain values, compared and bound to calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.code.scopes import FunctionNode


@dataclass(frozen=True)
class Parameter:
    """One parameter: `kind` is `positional-only`, `positional`, `*`, `keyword` or `**`; the default is code."""

    kind: str
    name: str
    default: str | None = None
    annotation: str | None = None

    def __str__(self) -> str:
        stars = self.kind if self.kind in ("*", "**") else ""
        annotation = f": {self.annotation}" if self.annotation else ""
        equals = " = " if annotation else "="
        default = f"{equals}{self.default}" if self.default is not None else ""
        return f"{stars}{self.name}{annotation}{default}"


@lru_cache(maxsize=4096)
def parameters_of(arguments: ast.arguments, *, annotated: bool = True) -> tuple[Parameter, ...]:
    """Return the parameters in the order they are written, without their annotations if those do not matter."""
    return tuple(_parameters(arguments, annotated=annotated))


def _parameters(arguments: ast.arguments, *, annotated: bool) -> Iterator[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for i, (arg, default) in enumerate(zip(positional, [*missing, *arguments.defaults], strict=True)):
        kind = "positional-only" if i < len(arguments.posonlyargs) else "positional"
        yield _parameter(kind, arg, default, annotated=annotated)
    if arguments.vararg:
        yield _parameter("*", arguments.vararg, None, annotated=annotated)
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter("keyword", arg, default, annotated=annotated)
    if arguments.kwarg:
        yield _parameter("**", arguments.kwarg, None, annotated=annotated)


def _parameter(kind: str, arg: ast.arg, default: ast.expr | None, *, annotated: bool) -> Parameter:
    return Parameter(kind, arg.arg, _code(default), _code(arg.annotation) if annotated else None)


def _code(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and (node.value is None or type(node.value) in (bool, int)):
        return repr(node.value)  # what `ast.unparse` says too: most defaults
    return None if node is None else ast.unparse(node)


def shown(parameters: Sequence[Parameter]) -> str:
    """Return parameters as Python writes them: `(a, /, b=1, *, c)`."""
    parts: list[str] = []
    for i, parameter in enumerate(parameters):
        kind = parameter.kind
        if kind == "keyword" and not any(p.kind in ("*", "keyword") for p in parameters[:i]):
            parts.append("*")
        parts.append(str(parameter))
        after = parameters[i + 1].kind if i + 1 < len(parameters) else ""
        if kind == "positional-only" and after != kind:
            parts.append("/")
    return f"({', '.join(parts)})"


def differences(wanted: Sequence[Parameter], found: Sequence[Parameter]) -> tuple[str, ...]:
    """Return in words how `found` differs from `wanted`; an annotation counts only where `wanted` has one."""
    there = {p.name: p for p in found}
    names = [p.name for p in wanted]
    result = [f"`{p.name}` is missing" for p in wanted if p.name not in there]
    result += [f"`{p.name}` is not wanted" for p in found if p.name not in names]
    for parameter in wanted:
        other = there.get(parameter.name)
        if other is not None:
            result += _changes(parameter, other)
    if not result and names != [p.name for p in found]:
        result.append("the order differs")
    return tuple(result)


def _changes(wanted: Parameter, found: Parameter) -> Iterator[str]:
    if wanted.kind != found.kind:
        yield f"`{wanted.name}` is {_kind(found.kind)}, not {_kind(wanted.kind)}"
    if wanted.default != found.default:
        yield f"the default of `{wanted.name}` is {_or_none(found.default)}, not {_or_none(wanted.default)}"
    if wanted.annotation is not None and wanted.annotation != found.annotation:
        yield f"the annotation of `{wanted.name}` is {_or_none(found.annotation)}, not {_or_none(wanted.annotation)}"


def _or_none(code: str | None) -> str:
    return "absent" if code is None else f"`{code}`"


def _kind(kind: str) -> str:
    return {"*": "`*`", "**": "`**`", "keyword": "keyword-only"}.get(kind, kind)


def binding_fault(call: ast.Call, function: FunctionNode, implicit: int = 0) -> str:
    """Return why `call` does not fit `function`, an empty string where it does or may; see `call_fault`."""
    return call_fault(call, function.name, parameters_of(function.args), implicit)


def call_fault(call: ast.Call, name: str, parameters: Sequence[Parameter], implicit: int = 0) -> str:
    """Return why `call` does not fit the parameters of `name`, an empty string where it does or may.

    `implicit` counts the leading parameters that Python passes itself (`self`, `cls`). Starred arguments may hold
    anything, so they only rule out what is wrong whatever they hold.
    """
    fault = _call_fault(call, parameters, implicit)
    if not fault:
        return ""
    before, after = fault
    return f"{before}{name}{shown(tuple(replace(p, annotation=None) for p in parameters))}{after}"


def _call_fault(call: ast.Call, parameters: Sequence[Parameter], implicit: int) -> tuple[str, str] | None:
    """Return what to say before and after the signature."""
    positional = [p for p in parameters if p.kind.startswith("positional")][implicit:]
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    unpacked = any(keyword.arg is None for keyword in call.keywords)
    given = sum(not isinstance(argument, ast.Starred) for argument in call.args)
    if given > len(positional) and not any(p.kind == "*" for p in parameters):
        several = "s" if given > 1 else ""
        return f"{given} positional argument{several}, but ", f" takes {len(positional)}"
    by_name = {p.name for p in parameters if p.kind in ("positional", "keyword")}
    by_name -= {p.name for p in parameters[:implicit] if p.kind == "positional"}
    keywords = [keyword.arg for keyword in call.keywords if keyword.arg]
    if not any(p.kind == "**" for p in parameters):
        for keyword in keywords:
            if keyword not in by_name:
                return f"keyword `{keyword}`, which ", " does not take"
    # What stands before the first `*x` has its place; what stands behind it fills one at least as far on.
    for parameter in positional[:given]:
        if parameter.name in keywords and parameter.kind == "positional":
            return f"`{parameter.name}` is given twice to ", ""
    needed = [p for p in [*positional[given:], *(p for p in parameters if p.kind == "keyword")] if p.default is None]
    for parameter in needed:
        reached = starred and parameter.kind.startswith("positional")
        if parameter.name not in keywords and not reached and not unpacked:
            return f"`{parameter.name}` is not given to ", ""
    return None


def read_signature(text: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of a signature as Python writes one, `(a, b, c=None)`; None where it is none."""
    try:
        (function,) = ast.parse(f"def f{text}: pass").body
    except (SyntaxError, ValueError):
        return None
    return parameters_of(function.args) if isinstance(function, ast.FunctionDef) else None
