"""Edits as the engine runs them: compiled patterns and templates, one frozen type per operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.code.patterns import Pattern
    from orchestrator.code.template import Template


@dataclass(frozen=True)
class Assign:
    """Give a name another value: `name = VALUE`, the annotation and all around it kept."""

    target: Pattern
    old: Pattern | None
    value: Template


@dataclass(frozen=True)
class Replace:
    """Put other code in place of what a pattern matches."""

    pattern: Pattern
    template: Template
    count: int


@dataclass(frozen=True)
class Delete:
    """Remove the statements that a pattern matches."""

    pattern: Pattern
    count: int


@dataclass(frozen=True)
class Insert:
    """Put statements before or after an anchor, or at the start or end of a body."""

    where: Literal["before", "after", "start", "end"]
    anchor: Pattern | None
    code: Template


@dataclass(frozen=True)
class Import:
    """Add an import statement behind the leading imports of a module or a body."""

    code: Template


@dataclass(frozen=True)
class Transform:
    """Run a function of the user's over the libcst module: `transform(module, params)`."""

    name: str
    function: Callable[[Any, Any], Any]
    params: Any
    applied: Callable[[Any, Any], bool] | None = None
    """The user's own word on whether a module that the transform leaves alone has it already."""
    origin: str = ""
    """For one of an installed distribution: which, in words. Its file is none of the workspace's."""


Edit = Assign | Replace | Delete | Insert | Import | Transform


@dataclass(frozen=True)
class ScopedEdit:
    """An edit with the file and the definition that it works in."""

    file: str
    within: str | None
    edit: Edit
