"""What a name or an attribute stands for, followed through scopes, imports, re-exports and aliases.

Every answer is the whole list of what the expression may be, with `Unknown` in it where that is not all.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.checks.house.classes import Classes
from orchestrator.checks.house.elsewhere import Elsewhere
from orchestrator.checks.house.making import makes_names
from orchestrator.checks.house.scoping import contents, owner_of
from orchestrator.checks.house.things import (
    NOTHING_KNOWN,
    UNKNOWN,
    Class,
    External,
    Function,
    Instance,
    Module,
    Spot,
    Super,
    Thing,
)
from orchestrator.checks.house.truth import Truth
from orchestrator.checks.house.world import InTree, Outside, World
from orchestrator.checks.house.wrappers import keeps_signatures
from orchestrator.code.imports import bindings_of, globals_in, module_names, package_of
from orchestrator.code.scopes import FunctionNode
from orchestrator.code.symbols import BUILTINS, has_walrus, parameters
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.code.imports import Binding, Import
    from orchestrator.code.source import Source

_DEEP = 30


@dataclass
class Names:
    """Resolves expressions of one world.

    A `strict` one also asks what the rest of the tree may do to a definition: replace it, or override it in a
    subclass. That costs a look over all files, so ask it only where a lenient one has found a fault.
    """

    world: World
    elsewhere: Elsewhere
    strict: bool = False
    _known: dict[tuple[str, str], tuple[Thing, ...]] = field(default_factory=dict)
    _local: dict[tuple[ast.AST, str], tuple[Thing, ...]] = field(default_factory=dict)
    _scopes: dict[tuple[ast.AST, str], tuple[Binding, ...]] = field(default_factory=dict)
    _roots_of: dict[tuple[str, ast.AST | None, str], tuple[Thing, ...]] = field(default_factory=dict)
    _depth: int = 0

    @classmethod
    def of_world(cls, world: World) -> Names:
        """Return the lenient one that every rule asks about this world."""
        return world.once(cls, lambda: cls(world, Elsewhere.of(world)))

    def __post_init__(self) -> None:
        """Make the parts that share this world."""
        self.truth = Truth.of(self.world)
        self.classes = Classes(self)

    def of(self, node: ast.expr, spot: Spot) -> tuple[Thing, ...]:
        """Return what an expression may stand for."""
        if self._depth > _DEEP:
            return NOTHING_KNOWN
        self._depth += 1
        try:
            return tuple(dict.fromkeys(self._of(node, spot)))
        except Rejected:
            return NOTHING_KNOWN
        finally:
            self._depth -= 1

    def of_root(self, node: ast.expr, spot: Spot) -> tuple[Thing, ...] | None:
        """Return what the first name of a dotted expression may stand for, None where it is not dotted.

        Most code calls what is not of the tree: then nothing more need be asked of the expression.
        """
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        key = (spot.source.path, spot.scopes[-1] if spot.scopes else None, node.id)
        if key not in self._roots_of:
            self._roots_of[key] = self.of(node, spot)
        return self._roots_of[key]

    def _of(self, node: ast.expr, spot: Spot) -> tuple[Thing, ...]:
        match node:
            case ast.Constant(value=None):
                return ()  # nothing can be called or taken from it
            case ast.Name(id=name):
                return self._name(name, spot)
            case ast.Attribute(value=value, attr=attr):
                return tuple(found for thing in self.of(value, spot) for found in self.attribute(thing, attr))
            case ast.Call(func=function, args=args):
                made = (self._made(thing, spot, args) for thing in self.of(function, spot))
                return tuple(found for several in made for found in several)
            case ast.Subscript(value=value):
                return tuple(t if isinstance(t, Class | External) else UNKNOWN for t in self.of(value, spot))
            case ast.NamedExpr(value=value):
                return self.of(value, spot)
            case ast.IfExp(body=body, orelse=orelse):
                return (*self.of(body, spot), *self.of(orelse, spot))
            case _:
                return NOTHING_KNOWN

    def _made(self, thing: Thing, spot: Spot, args: Sequence[ast.expr]) -> tuple[Thing, ...]:
        """Return what a call of a thing gives."""
        if isinstance(thing, Class) and self.classes.is_plain(thing):
            return (Instance(thing),)
        if thing == External("importlib.import_module") and len(args) == 1:
            match args[0]:
                case ast.Constant(value=str(name)) if not name.startswith("."):
                    return (self.module(name),)
        if thing == External("builtins.super"):
            return self._super(spot, args)
        return NOTHING_KNOWN

    def _super(self, spot: Spot, args: Sequence[ast.expr]) -> tuple[Thing, ...]:
        for number in range(len(spot.scopes) - 1, 0, -1):
            method, around = spot.scopes[number], spot.scopes[number - 1]
            if isinstance(around, ast.ClassDef) and isinstance(method, FunctionNode):
                if args and not (isinstance(args[0], ast.Name) and args[0].id == around.name):
                    return NOTHING_KNOWN
                outer = Spot(spot.source, spot.scopes[: number - 1])
                kind = self.classes.kind(method, outer.inside(around))
                of = Class(outer, around, open=True)
                return (Super(of, by_class=kind != "plain"),) if kind else NOTHING_KNOWN
        return NOTHING_KNOWN

    # --- names ---

    def _name(self, name: str, spot: Spot) -> tuple[Thing, ...]:
        walrus = spot.source.derived(has_walrus)
        number = owner_of(name, spot.scopes, walrus=walrus)
        if number is None:
            return self.in_module(spot.source, name)
        scope, outer = spot.scopes[number], spot.scopes[:number]
        if spot.source.derived(_has_nonlocal) or not isinstance(scope, FunctionNode | ast.ClassDef):
            return NOTHING_KNOWN
        inner = Spot(spot.source, (*outer, scope))
        bound = self.bound(scope, spot.source, name)
        if isinstance(scope, FunctionNode) and name in parameters(scope):
            return NOTHING_KNOWN if bound else self._parameter(scope, name, Spot(spot.source, outer))
        text = spot.source.text
        if walrus and (f"{name} :=" in text or f"{name}:=" in text):
            return NOTHING_KNOWN
        key = (scope, name)
        if key not in self._local:
            self._local[key] = NOTHING_KNOWN  # whoever comes here on the way is in a circle
            self._local[key] = self._bindings(bound, inner) if bound else NOTHING_KNOWN
        return self._local[key]

    def bound(self, scope: FunctionNode | ast.ClassDef, source: Source, name: str) -> tuple[Binding, ...]:
        """Return every binding of a name by the statements of a scope itself."""
        key = (scope, name)
        if key not in self._scopes:
            statements = contents(scope, walrus=source.derived(has_walrus)).binding.get(name, ())
            self._scopes[key] = tuple(
                binding
                for statement, guard in statements
                for binding in bindings_of(statement, guard, package_of(source.path))
                if binding.name == name
            )
        return self._scopes[key]

    def _parameter(self, function: FunctionNode, name: str, outer: Spot) -> tuple[Thing, ...]:
        """Return what a parameter is: known of the first of a method alone."""
        first = next(iter([*function.args.posonlyargs, *function.args.args]), None)
        around = outer.scopes[-1] if outer.scopes else None
        if first is None or first.arg != name or not isinstance(around, ast.ClassDef):
            return NOTHING_KNOWN
        cls = Class(Spot(outer.source, outer.scopes[:-1]), around, open=True)
        kind = self.classes.kind(function, outer, any_wrapper=True)
        if kind == "class":
            return (cls,)
        return (Instance(cls),) if kind == "plain" and not self.classes.is_metaclass(cls) else NOTHING_KNOWN

    def in_module(self, source: Source, name: str) -> tuple[Thing, ...]:
        """Return what a name of a module may stand for."""
        key = (source.path, name)
        if key not in self._known:
            self._known[key] = NOTHING_KNOWN  # whoever comes here on the way is in a circle
            try:
                self._known[key] = self._in_module(source, name)
            except Rejected:
                self._known[key] = NOTHING_KNOWN
        return self._known[key]

    def _in_module(self, source: Source, name: str) -> tuple[Thing, ...]:
        own = module_names(source)
        live = [b for b in own.bindings.get(name, ()) if not self.truth.refuted(b.guard.tests, source)]
        found = list(self._bindings(live, Spot(source)))
        for star in own.stars:
            brought = self.world.star_names(star, {source.path})
            if brought is None:
                return NOTHING_KNOWN
            module = self.world.find(star.module or "")
            if name in brought and isinstance(module, InTree) and module.source:
                found += self.in_module(module.source, name)
            elif name in brought:
                found.append(UNKNOWN)
        if name in globals_in(source) or (source.derived(makes_names) and not keeps_signatures(source)):
            return NOTHING_KNOWN
        if not live and not found:
            return (External(f"builtins.{name}"),) if name in BUILTINS else NOTHING_KNOWN
        if self.strict and self.elsewhere.is_set(name):
            found.append(UNKNOWN)
        return tuple(found)

    def _bindings(self, several: Iterable[Binding], spot: Spot) -> tuple[Thing, ...]:
        return tuple(dict.fromkeys(thing for binding in several for thing in self._binding(binding, spot)))

    def _binding(self, binding: Binding, spot: Spot) -> tuple[Thing, ...]:
        match binding.statement:
            case (ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name)) as node if name == binding.name:
                kind = self.classes.kind(node, spot)
                if kind == "overload":
                    return ()
                return (Function(spot, node),) if kind == "plain" else NOTHING_KNOWN
            case ast.ClassDef(name=name) as cls if name == binding.name:
                return (Class(spot, cls),)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                for target, value in zip(names, values, strict=True):
                    match target:
                        case ast.Name(id=name) if name == binding.name:
                            return self.of(value, spot)
        if binding.imported is not None:
            return self.imported(binding.imported)
        return NOTHING_KNOWN if binding.value is None else self.of(binding.value, spot)

    # --- imports and modules ---

    def imported(self, entry: Import) -> tuple[Thing, ...]:
        """Return what an import binds its name to."""
        if entry.module is None:
            return NOTHING_KNOWN
        if entry.name is None:
            whole = entry.module if entry.alias.asname else entry.module.partition(".")[0]
            return (self.module(whole),)
        return self.attribute(self.module(entry.module), entry.name)

    def module(self, name: str) -> Thing:
        """Return the module of a dotted name."""
        found = self.world.find(name)
        if isinstance(found, InTree):
            return Module(name)
        return External(name) if isinstance(found, Outside) and name.partition(".")[0] not in self._roots else UNKNOWN

    def modules_of(self, node: ast.expr, spot: Spot) -> tuple[Thing, ...]:
        """Return the modules that an expression may be; anything else of it is unknown."""
        vendors = self.world.view.facts.vendor_modules
        found = self.of(node, spot)
        return tuple(
            t if isinstance(t, Module) or (isinstance(t, External) and t.name in vendors) else UNKNOWN for t in found
        )

    @property
    def _roots(self) -> frozenset[str]:
        return self.world.roots - self._vendor_roots

    @property
    def _vendor_roots(self) -> frozenset[str]:
        return frozenset(name.partition(".")[0] for name in self.world.view.facts.vendor_modules)

    def attribute(self, thing: Thing, name: str) -> tuple[Thing, ...]:
        """Return what an attribute of a thing may be."""
        match thing:
            case External(name=outside):
                return (External(f"{outside}.{name}"),)
            case Module(name=module):
                return self._of_module(module, name)
            case Class() | Instance() | Super():
                return self.classes.attribute(thing, name)
            case _:
                return NOTHING_KNOWN

    def _of_module(self, module: str, name: str) -> tuple[Thing, ...]:
        found = self.world.find(module)
        if not isinstance(found, InTree):
            return NOTHING_KNOWN
        if found.source is not None:
            try:
                found.source.tree  # noqa: B018 - asked whether it parses at all
            except Rejected:
                return NOTHING_KNOWN
            if name in module_names(found.source) or not found.is_package:
                return self.in_module(found.source, name)
            known = self.world.names(found)
            if known is None or name in known:
                return NOTHING_KNOWN if known is None else self.in_module(found.source, name)
        return (self.module(f"{module}.{name}"),) if found.is_package else NOTHING_KNOWN


def _has_nonlocal(source: Source) -> bool:
    return "nonlocal" in source.text
