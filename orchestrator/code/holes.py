"""The text side of patterns: `${name}`, `${name...}`, `${params.x}`, `$${`.

A bare name is a hole; three dots make it take any number of nodes; a dotted name is a value known at
load. In code each becomes an identifier that Python can parse, so holes are syntax nodes from the start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.\.\.)?\Z")
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)+\Z")

_HOLE = "_hole_{}_"
_MANY = "_holes_{}_"
_VALUE = "_value_{}_"
_HOLE_NAME = re.compile(r"_hole_(\w+)_\Z")
_MANY_NAME = re.compile(r"_holes_(\w+)_\Z")
PLACEHOLDER = re.compile(r"_(hole|holes|value)_\w+_(?!\w)")


@dataclass(frozen=True)
class CodeText:
    """Code with every reference replaced by an identifier; `values` maps such identifiers to values."""

    text: str
    holes: frozenset[str]
    values: tuple[tuple[str, Any], ...]


def code_text(text: str, known: Mapping[str, Any]) -> CodeText:
    """Return `text` with identifiers in place of references; raise `Rejected` (E204, E205) for bad ones."""
    holes: set[str] = set()
    values: dict[str, Any] = {}
    faults: list[Diagnostic] = []

    def identifier(match: re.Match[str]) -> str:
        reference = match.group(1)
        if reference is None:
            return "${"
        if _NAME.match(reference):
            holes.add(reference.removesuffix("..."))
            return _placeholder(reference, 0)
        fault = unknown_reference(reference, known)
        if fault:
            faults.append(fault)
            return "_"
        placeholder = _VALUE.format(len(values))
        values[placeholder] = known[reference]
        return placeholder

    replaced = _REFERENCE.sub(identifier, text)
    if faults:
        raise Rejected(faults)
    return CodeText(replaced, frozenset(holes), tuple(values.items()))


def without_references(text: str) -> str:
    """Return the text without its references: a `$` that is left is none."""
    return _REFERENCE.sub("", text)


def column_in(text: str, line: int, column: int) -> int:
    """Return where a column of the code made from `text` is in `text` itself, both from 1: a hole is longer there."""
    lines = text.split("\n")
    own = lines[line - 1] if 0 < line <= len(lines) else ""
    number = sum(1 for other in lines[: line - 1] for match in _REFERENCE.finditer(other) if _is_value(match.group(1)))
    shift = 0
    for match in _REFERENCE.finditer(own):
        reference = match.group(1)
        made = _placeholder(reference, number)
        number += _is_value(reference)
        start = match.start() + shift
        if column - 1 < start:
            break
        if column - 1 < start + len(made):
            return match.start() + 1
        shift += len(made) - len(match.group())
    return max(1, column - shift)


def _is_value(reference: str | None) -> bool:
    return reference is not None and not _NAME.match(reference)


def _placeholder(reference: str | None, number: int) -> str:
    if reference is None:
        return "${"
    if _is_value(reference):
        return _VALUE.format(number)
    return (_MANY if reference.endswith("...") else _HOLE).format(reference.removesuffix("..."))


def unknown_reference(reference: str, known: Mapping[str, Any]) -> Diagnostic | None:
    """Return what is wrong with a dotted reference, None if it is known."""
    if reference in known:
        return None
    if not _DOTTED.match(reference):
        help_ = "A hole is a name, `${name}` or `${name...}`; a value is dotted, `${params.x}`; `$${` is a plain `${`."
        return Diagnostic("E205", f"`${{{reference}}}` is neither a hole nor a value", help=help_)
    return Diagnostic("E204", f"`${{{reference}}}` is not known", help=did_you_mean(reference, known))


def interpolate(text: str, known: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a lone reference keeps its value's type
    """Return a plain scalar with its values filled in; one that is a lone reference keeps its type.

    Raises `Rejected` (E204, E205) for unknown references; bare holes have no meaning outside code.
    """
    faults: list[Diagnostic] = []

    def value(match: re.Match[str]) -> str:
        reference = match.group(1)
        if reference is None:
            return "${"
        if _NAME.match(reference):
            help_ = "Holes stand in code only; a parameter is written `${params.NAME}`."
            faults.append(Diagnostic("E205", f"hole `${{{reference}}}` outside of code", help=help_))
            return ""
        fault = unknown_reference(reference, known)
        if fault:
            faults.append(fault)
            return ""
        return str(known[reference])

    alone = _REFERENCE.fullmatch(text)
    result: Any = _REFERENCE.sub(value, text)
    if faults:
        raise Rejected(faults)
    return known[alone.group(1)] if alone and alone.group(1) else result


def hole(identifier: str) -> str | None:
    """Return the name of the hole that an identifier stands for, None if it is an ordinary name."""
    if not identifier.startswith("_hole_"):
        return None
    found = _HOLE_NAME.match(identifier)
    return found.group(1) if found else None


def many(identifier: str) -> str | None:
    """Return the name of the `${name...}` hole that an identifier stands for, None if it is none."""
    if not identifier.startswith("_holes_"):
        return None
    found = _MANY_NAME.match(identifier)
    return found.group(1) if found else None


def shown(text: str) -> str:
    """Return code with identifiers turned back into the holes that the user wrote."""
    text = re.sub(r"_holes_(\w+?)_(?=\W|\Z)", r"${\1...}", text)
    return re.sub(r"_hole_(\w+?)_(?=\W|\Z)", r"${\1}", text)
