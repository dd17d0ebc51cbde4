"""Checks that something is in use: a constant is read, a function called, a module imported."""

from __future__ import annotations

import ast
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.python import symbol
from orchestrator.checks.reading import content_of, owner, scope_of, source_of
from orchestrator.checks.uses import Use, Uses, is_property
from orchestrator.checks.verdict import Verdict, fails, holds
from orchestrator.code.scopes import FunctionNode, named
from orchestrator.code.symbols import all_bound, parameters
from orchestrator.core.diagnostics import Place
from orchestrator.spec.model import TargetPath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchestrator.checks.view import View
    from orchestrator.code.scopes import ScopeNode
    from orchestrator.code.source import Source

By = Annotated[str | None, Field(min_length=1, description="`FILE` or `FILE:DEFINITION` that must be the user")]
_SHOWN = 3


class ReadBy(Check):
    """Some code reads a name: a module's, a class's attribute, or a function's local."""

    check: Literal["read_by"]
    file: TargetPath
    within: Annotated[str | None, Field(min_length=1, description="class or function that binds it")] = None
    name: Annotated[str, Field(min_length=1, description="the name as it is bound there")]
    by: By = None

    def look(self, view: View) -> Verdict:
        """Return whether something reads the name, and where it does first."""
        source = source_of(view, self.file)
        scope = scope_of(source, self.within)
        local = parameters(scope) if isinstance(scope, FunctionNode) else set()
        if self.name not in all_bound(scope.body) | local:
            return fails(f"{owner(self.file, self.within)} does not bind `{self.name}`", Place(self.file))
        what = f"`{self.name}` of {owner(self.file, self.within)}"
        return _verdict(view, lambda uses: self._uses(uses, source, scope), what, ("reads", "read"), self.by)

    def _uses(self, uses: Uses, source: Source, scope: ScopeNode) -> Iterator[Use]:
        if isinstance(scope, FunctionNode):
            return uses.of_local(source, scope, self.name)
        return uses.of_attribute(self.name) if isinstance(scope, ast.ClassDef) else uses.of_global(self.file, self.name)


class CalledBy(Check):
    """Some code other than itself calls a function, method or class."""

    check: Literal["called_by"]
    file: TargetPath
    name: Annotated[str, Field(min_length=1, description="qualified name, `f` or `Class.method`")]
    by: By = None

    def look(self, view: View) -> Verdict:
        """Return whether something calls the definition, and where it does first."""
        source = source_of(view, self.file)
        bound = symbol(source, self.name)
        if bound is None:
            return fails(f"{self.file} has no symbol `{self.name}`", Place(self.file))
        calls = is_property(bound)
        what = f"`{self.name}` of {self.file}"
        return _verdict(
            view, lambda uses: self._calls(uses, source, any_read=calls), what, ("calls", "called"), self.by
        )

    def _calls(self, uses: Uses, source: Source, *, any_read: bool) -> Iterator[Use]:
        own = f"{self.file}:{self.name}"
        return (use for use in self._uses(uses, source) if (any_read or use.is_call) and not use.within(own))

    def _uses(self, uses: Uses, source: Source) -> Iterator[Use]:
        around, _, last = self.name.rpartition(".")
        if last == "__init__" and "." not in around:
            return uses.of_global(self.file, around)
        if not around:
            return uses.of_global(self.file, last)
        scope = named(source, around)[0]
        return uses.of_local(source, scope, last) if isinstance(scope, FunctionNode) else uses.of_attribute(last)


class ImportedBy(Check):
    """Another file of the tree imports this module."""

    check: Literal["imported_by"]
    file: TargetPath
    by: Annotated[str | None, Field(min_length=1, description="the file that must import it")] = None

    def look(self, view: View) -> Verdict:
        """Return whether some file, or the one named, imports the module, and where it does first."""
        content_of(view, self.file)
        if self.by is not None:
            source_of(view, self.by)
        return _verdict(view, self._imports, self.file, ("imports", "imported"), self.by)

    def _imports(self, uses: Uses) -> Iterator[Use]:
        for source, found in uses.imports_of_module(self.file):
            yield Use(source.place(found.node), "", is_call=False)


def _verdict(
    view: View, found_by: Callable[[Uses], Iterator[Use]], what: str, words: tuple[str, str], by: str | None
) -> Verdict:
    """Return whether there is a use, or one by `by`: then its file is looked at first, and mostly that will do."""
    does, done = words
    for use in found_by(Uses(view, among=[by.partition(":")[0]])) if by else ():
        if use.within(str(by)):
            return holds(f"{use} {does} {what}", use.place)
    others: list[Use] = []
    for use in found_by(Uses(view)):
        if by is None or use.within(by):
            return holds(f"{use} {does} {what}", use.place)
        others.append(use)
    file = Place(what.rpartition(" ")[2])
    if by is None:
        return fails(f"nothing {does} {what}", file)
    where = ", ".join(str(use) for use in islice(others, _SHOWN))
    rest = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    elsewhere = f"it is {done} at {where}{rest}" if others else f"nothing {does} it"
    return fails(f"{by} does not {does.removesuffix('s')} {what}; {elsewhere}", others[0].place if others else file)
