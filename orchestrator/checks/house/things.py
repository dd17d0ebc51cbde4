"""What an expression can stand for: the vocabulary in which calls are followed to their definitions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.code.scopes import FunctionNode
    from orchestrator.code.signature import Parameter
    from orchestrator.code.source import Source


@dataclass(frozen=True)
class Spot:
    """Where an expression stands: its file, and the definitions, lambdas and comprehensions around it."""

    source: Source
    scopes: tuple[ast.AST, ...] = ()

    def inside(self, scope: ast.AST) -> Spot:
        """Return the spot of what stands directly in a scope of this one."""
        return Spot(self.source, (*self.scopes, scope))

    def qualified(self, name: str) -> str:
        """Return the name of a definition that stands here, with those of the classes and functions around it."""
        around = (s.name for s in self.scopes if isinstance(s, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef))
        return ".".join([*around, name])


@dataclass(frozen=True)
class Unknown:
    """Anything at all."""


@dataclass(frozen=True)
class Module:
    """A module of the tree."""

    name: str


@dataclass(frozen=True)
class External:
    """Something that is not in the tree, by its dotted name: a module, or what a module has."""

    name: str


@dataclass(frozen=True, eq=False)
class Function:
    """A function or method; `implicit` counts the leading arguments that Python passes itself."""

    spot: Spot
    node: FunctionNode
    implicit: int = 0


@dataclass(frozen=True, eq=False)
class Class:
    """A class; an `open` one may also be one of its subclasses, as a class method's `cls`."""

    spot: Spot
    node: ast.ClassDef
    open: bool = False

    @property
    def inner(self) -> Spot:
        """The spot of the class's body."""
        return self.spot.inside(self.node)


@dataclass(frozen=True, eq=False)
class Instance:
    """An instance of a class, of an `open` one also of a subclass."""

    of: Class


@dataclass(frozen=True, eq=False)
class Super:
    """What `super()` gives in a method of a class; `by_class` in one that has no instance."""

    of: Class
    by_class: bool


@dataclass(frozen=True)
class Callee:
    """A signature that a call must bind to, and where it is written: a place in the tree, or words."""

    name: str
    parameters: tuple[Parameter, ...]
    implicit: int
    spot: Spot | None
    node: ast.stmt | None


Thing = Unknown | Module | External | Function | Class | Instance | Super
UNKNOWN = Unknown()
NOTHING_KNOWN: tuple[Thing, ...] = (UNKNOWN,)
