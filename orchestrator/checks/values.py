"""Checks on single values: of a YAML or JSON artefact by path, or of a name in a Python file, folded from its code."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from orchestrator.checks.base import Check
from orchestrator.checks.reading import document_of, owner, scope_of, source_of
from orchestrator.checks.verdict import Verdict, fails, holds
from orchestrator.code.constants import Unknown
from orchestrator.code.fold import Possible, module_values, outside_names, possible_values
from orchestrator.code.scopes import FunctionNode
from orchestrator.code.symbols import all_bound, parameters
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean
from orchestrator.spec.model import Scalar, TargetPath

if TYPE_CHECKING:
    import ast

    from orchestrator.checks.view import View
    from orchestrator.code.scopes import ScopeNode
    from orchestrator.spec.document import Document

_STEP = re.compile(r"(?:^|\.)(?P<key>[^.\[\]]+)|\[(?P<index>-?\d+)\]")
DataPath = Annotated[str, Field(min_length=1, description="`concurrency`, `env.NAME`, `command[3]`")]


class ValueEquals(Check):
    """A value is exactly this: in a YAML or JSON file by `path`, in a Python file by `name`.

    A number equals the text that prints it, since argument lists and environments hold text.
    """

    check: Literal["value_equals"]
    file: TargetPath
    path: DataPath | None = None
    name: Annotated[str | None, Field(min_length=1, description="name in a Python file")] = None
    within: Annotated[str | None, Field(min_length=1, description="function or class that binds the name")] = None
    equals: Annotated[Scalar | list[Scalar] | None, Field(description="the value it must be")]

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.path is None) == (self.name is None):
            raise ValueError("give `path` for YAML and JSON, or `name` for Python")
        if self.within and self.path:
            raise ValueError("`within` goes with `name`, not with `path`")
        return self

    def look(self, view: View) -> Verdict:
        """Return whether the value is the wanted one; a folded name must have it on every path."""
        if self.path is None:
            return self._python(view, str(self.name))
        found, place = value_at(view, self.file, self.path)
        evidence = f"`{self.path}` of {self.file} is {_shown(found)}"
        if same(found, self.equals):
            return holds(evidence, place)
        return fails(f"{evidence}, not {_shown(self.equals)}", place)

    def _python(self, view: View, name: str) -> Verdict:
        source = source_of(view, self.file)
        scope = scope_of(source, self.within)
        where = owner(self.file, self.within)
        if name not in all_bound(scope.body) | _parameters(scope):
            near = did_you_mean(name, all_bound(scope.body))
            hint = f"; {near}" if near.startswith("did you") else ""
            return fails(f"{where} does not bind `{name}`{hint}", Place(self.file))
        place = source.place(scope) if self.within else Place(self.file)
        found = folded(view, source.tree, scope, name, {})
        wanted = tuple(self.equals) if isinstance(self.equals, list) else self.equals
        for value, conditions in found:
            if isinstance(value, Unknown) or not same(value, wanted):
                under = f" where {' and '.join(f'`{c}`' for c in conditions)}" if conditions else ""
                shown = f"unknown, because {value.reason}" if isinstance(value, Unknown) else _shown(value)
                return fails(f"`{name}` of {where} is {shown}{under}, not {_shown(self.equals)}", place)
        if not found:
            return fails(f"no path through {where} gets to its end", place)
        return holds(f"`{name}` of {where} is {_shown(self.equals)}", place)


class ValueContains(Check):
    """A list of a YAML or JSON file has this item, or these items one after another; a text has this text."""

    check: Literal["value_contains"]
    file: TargetPath
    path: DataPath
    contains: Annotated[Scalar | list[Scalar], Field(description="an item, or items in a row")]

    def look(self, view: View) -> Verdict:
        """Return whether the value contains what is wanted."""
        found, place = value_at(view, self.file, self.path)
        where = f"`{self.path}` of {self.file}"
        shown = _shown(self.contains)
        if isinstance(found, str) and isinstance(self.contains, str):
            has = self.contains in found
        elif isinstance(found, list):
            wanted = self.contains if isinstance(self.contains, list) else [self.contains]
            has = any(
                all(same(a, b) for a, b in zip(found[i : i + len(wanted)], wanted, strict=True))
                for i in range(len(found) - len(wanted) + 1)
            )
        else:
            return fails(f"{where} is {_shown(found)}, neither a list nor a text that could have {shown}", place)
        if has:
            return holds(f"{where} has {shown}", place)
        row = " in a row" if isinstance(self.contains, list) else ""
        return fails(f"{where} does not have {shown}{row}; it is {_shown(found)}", place)


def folded(view: View, tree: ast.Module, scope: ScopeNode, name: str, given: dict[str, Any]) -> list[Possible]:
    """Return the possible values of `name` in a scope, with the facts' constants and the module's own."""
    return possible_values(scope, name, given, constants_around(view, tree, scope))


def constants_around(view: View, tree: ast.Module, scope: ScopeNode) -> dict[str, Any]:
    """Return what is known of the world around a scope: the facts' constants and the module's own values."""
    constants = dict(view.facts.constants)
    if scope is not tree:
        constants |= module_values(tree, outside_names(scope), view.facts.constants)
    return constants


def _parameters(scope: ScopeNode) -> set[str]:
    return parameters(scope) if isinstance(scope, FunctionNode) else set()


def same(found: object, wanted: object) -> bool:
    """Compare plain data: a truth value is no number, a number equals the text that prints it."""
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(same(a, b) for a, b in zip(found, wanted, strict=True))
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, str) and isinstance(wanted, int | float):
        return found == str(wanted)
    return found == wanted


def value_at(view: View, file: str, path: str) -> tuple[Any, Place]:
    """Return the value at a path of a YAML or JSON file and its place; raise `Rejected` (E401, E530 or E10x)."""
    document = document_of(view, file)
    data: Any = document.data
    known: tuple[str | int, ...] = ()
    for step in steps(path):
        data, known = _down(data, step, known, path, document)
    return data, document.place(known)


def steps(path: str) -> list[str | int]:
    """Return the parts of a path, `env.NAME` as `env` and `NAME`, `command[3]` as `command` and 3.

    Raises `Rejected` (E530) where it cannot be read.
    """
    found: list[str | int] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            help_ = "Write keys with dots between them and indices in brackets: `command[3]`."
            raise Rejected(
                Diagnostic("E530", f"`path: {path}` cannot be read from character {position + 1}", help=help_)
            )
        found.append(match["key"] if match["index"] is None else int(match["index"]))
        position = match.end()
    return found


def _down(
    data: Any,  # noqa: ANN401 - plain data of any shape
    step: str | int,
    known: tuple[str | int, ...],
    path: str,
    document: Document,
) -> tuple[Any, tuple[str | int, ...]]:
    """Return the value one step further down; a list of `{name, value}` is addressed by name."""
    match data, step:
        case dict(), str() if step in data:
            return data[step], (*known, step)
        case list(), int() if -len(data) <= step < len(data):
            index = step % len(data)
            return data[index], (*known, index)
        case list(), str():
            for i, item in enumerate(data):
                if isinstance(item, dict) and item.get("name") == step:
                    return (item["value"], (*known, i, "value")) if "value" in item else (item, (*known, i))
    names = list(data) if isinstance(data, dict) else []
    if isinstance(data, list):
        names = [str(item["name"]) for item in data if isinstance(item, dict) and "name" in item]
    near = did_you_mean(str(step), names)
    hint = f"; {near}" if near.startswith("did you") else ""
    size = f", which has {len(data)} entries" if isinstance(data, list) and isinstance(step, int) else ""
    message = f"{document.name} has no `{path}`: nothing at `{step}`{size}{hint}"
    raise Rejected(Diagnostic("E530", message, document.place(known), help="Correct `path:`."))


def _shown(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False, default=repr)
