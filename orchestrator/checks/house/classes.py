"""Classes as Python reads them: order of bases, members, what an instance has, what a constructor takes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from orchestrator.checks.house.things import (
    NOTHING_KNOWN,
    Class,
    External,
    Function,
    Instance,
    Spot,
    Super,
    Thing,
)
from orchestrator.checks.house.wrappers import is_transparent
from orchestrator.code.imports import guarded, statements_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.checks.house.names import Names
    from orchestrator.code.imports import Binding
    from orchestrator.code.scopes import FunctionNode

Kind = Literal["plain", "static", "class", "overload"]
Base = Class | External

_UNSEEN = External("?")
_NO_MATTER = frozenset(
    {
        *("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"),
        *("typing_extensions.Generic", "typing_extensions.Protocol"),
    }
)
_PLAIN_META = frozenset({"abc.ABCMeta", "builtins.type"})
_TRANSPARENT = frozenset(
    {
        *("functools.lru_cache", "functools.cache", "functools.wraps", "functools.total_ordering"),
        *("abc.abstractmethod", "abc.abstractclassmethod", "abc.abstractstaticmethod"),
        *("contextlib.contextmanager", "contextlib.asynccontextmanager", "warnings.deprecated"),
        *("torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.jit.unused", "torch.jit.ignore"),
        *("torch.jit.export", "torch.compile", "torch.compiler.disable"),
        *(
            f"{module}.{name}"
            for module in ("typing", "typing_extensions")
            for name in ("final", "override", "no_type_check", "runtime_checkable", "deprecated")
        ),
    }
)
_KINDS: dict[str, Kind] = {
    "builtins.staticmethod": "static",
    "abc.abstractstaticmethod": "static",
    "builtins.classmethod": "class",
    "abc.abstractclassmethod": "class",
    "typing.overload": "overload",
    "typing_extensions.overload": "overload",
}
_BY_NAME: dict[str, Kind] = {"__new__": "static", "__init_subclass__": "class", "__class_getitem__": "class"}


@dataclass
class Classes:
    """Answers about classes; names in them are resolved by `names`."""

    names: Names
    _stores: dict[ast.ClassDef, dict[str, list[tuple[ast.expr | None, Spot]]]] = field(default_factory=dict)
    _values: dict[tuple[ast.ClassDef, str], tuple[Thing, ...]] = field(default_factory=dict)
    _orders: dict[ast.ClassDef, tuple[Base, ...]] = field(default_factory=dict)

    # --- functions ---

    def kind(self, function: FunctionNode, spot: Spot, *, any_wrapper: bool = False) -> Kind | None:
        """Return how a function is bound, None where a decorator may have changed its signature.

        With `any_wrapper` only the first parameter matters: one named `self` is the instance whatever wraps it.
        """
        in_class = bool(spot.scopes) and isinstance(spot.scopes[-1], ast.ClassDef)
        kind: Kind = _BY_NAME.get(function.name, "plain") if in_class else "plain"
        for decorator in function.decorator_list:
            name = self.origin(decorator, spot)
            if name in _KINDS:
                kind = _KINDS[name]
            elif name not in _TRANSPARENT and not self._wraps(decorator, spot):
                first = [*function.args.posonlyargs, *function.args.args][:1]
                if not any_wrapper or not first or first[0].arg != "self":
                    return None
        return kind

    def _wraps(self, decorator: ast.expr, spot: Spot) -> bool:
        """Tell whether a decorator is a function of the tree that leaves signatures as they are."""
        found = self.names.of(decorator, spot)
        return len(found) == 1 and isinstance(found[0], Function) and is_transparent(found[0].node)

    def origin(self, decorator: ast.expr, spot: Spot) -> str:
        """Return the dotted name of a decorator that is not of the tree, empty for any other."""
        found = self.names.of(decorator.func if isinstance(decorator, ast.Call) else decorator, spot)
        return found[0].name if len(found) == 1 and isinstance(found[0], External) else ""

    # --- order of bases ---

    def order(self, cls: Class) -> tuple[Base, ...]:
        """Return the class and its bases in the order of lookup (C3), without those that bring nothing."""
        if cls.node not in self._orders:
            self._orders[cls.node] = (cls, _UNSEEN)  # whoever comes here on the way is in a circle
            self._orders[cls.node] = self._order(cls)
        known = self._orders[cls.node]
        return (cls, *known[1:])

    def _order(self, cls: Class) -> tuple[Base, ...]:
        every = (self._base(node, cls.spot) for node in cls.node.bases)
        bases: list[Base] = [b for b in every if not (isinstance(b, External) and b.name in _NO_MATTER)]
        chains: list[list[Base]] = [list(self.order(base)) if isinstance(base, Class) else [base] for base in bases]
        merged = _merged([*chains, bases])
        return (cls, _UNSEEN) if merged is None else (cls, *merged)

    def _base(self, node: ast.expr, spot: Spot) -> Base:
        found = self.names.of(node, spot)
        if len(found) == 1 and isinstance(found[0], Class | External):
            return found[0]
        return _UNSEEN

    def is_metaclass(self, cls: Class) -> bool:
        """Tell whether the class makes classes."""
        return any(isinstance(base, External) and base.name in _PLAIN_META for base in self.order(cls))

    def is_plain(self, cls: Class) -> bool:
        """Tell whether calling the class gives an instance of it, whatever stands in its `__init__`."""
        for base in self.order(cls):
            if isinstance(base, External):
                if base == _UNSEEN or base.name.startswith("enum."):
                    return False
                continue
            if self.members(base, "__new__") or self.has_own_metaclass(base):
                return False
        return all(self.origin(d, cls.spot) in _HARMLESS for d in cls.node.decorator_list)

    def has_own_metaclass(self, cls: Class) -> bool:
        """Tell whether the class names a metaclass that may do anything when it is called."""
        for keyword in cls.node.keywords:
            if keyword.arg in ("metaclass", None) and self.origin(keyword.value, cls.spot) not in _PLAIN_META:
                return True
        return False

    # --- members ---

    def members(self, cls: Class, name: str) -> tuple[Binding, ...]:
        """Return the bindings of a name in the body of a class."""
        return self.names.bound(cls.node, cls.spot.source, name)

    def lookup(self, cls: Class, name: str, *, after: Class | None = None) -> tuple[Class | None, tuple[Binding, ...]]:
        """Return the class that has a member, with its bindings; None where a base that nobody sees may have it."""
        order = self.order(cls)
        start = 0
        if after is not None:
            nodes = [base.node if isinstance(base, Class) else None for base in order]
            if after.node not in nodes:
                return None, ()
            start = nodes.index(after.node) + 1
        for base in order[start:]:
            if isinstance(base, External):
                return None, ()
            found = self.members(base, name)
            if found:
                return base, found
        return cls, ()

    def attribute(self, thing: Class | Instance | Super, name: str) -> tuple[Thing, ...]:
        """Return what an attribute of a class, an instance or `super()` may be."""
        cls = thing if isinstance(thing, Class) else thing.of
        found = list(self._attribute(thing, cls, name))
        if self.names.strict:
            classes = [b for b in self.order(cls) if isinstance(b, Class)]
            heirs = list(self.heirs(cls)) if cls.open else []
            files = {c.spot.source.path for c in [*classes, *heirs]}
            own = self._instance_stores(cls, name) if isinstance(thing, Instance) else ()
            if self.names.elsewhere.is_set(name, () if own else files):
                return NOTHING_KNOWN
            for heir in heirs:
                found += self._attribute(thing, heir, name)
        return tuple(found)

    def _attribute(self, thing: Class | Instance | Super, cls: Class, name: str) -> tuple[Thing, ...]:
        after = thing.of if isinstance(thing, Super) else None
        owner, bindings = self.lookup(cls, name, after=after)
        if owner is None:
            return NOTHING_KNOWN
        if not bindings:
            return self._of_instance(cls, name) if isinstance(thing, Instance) else NOTHING_KNOWN
        if isinstance(thing, Instance) and self._instance_stores(cls, name):
            return NOTHING_KNOWN
        by_class = isinstance(thing, Class) or (isinstance(thing, Super) and thing.by_class)
        return tuple(found for b in bindings for found in self._member(b, owner, by_class=by_class))

    def _member(self, binding: Binding, owner: Class, *, by_class: bool) -> tuple[Thing, ...]:
        match binding.statement:
            case (ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name)) as node if name == binding.name:
                kind = self.kind(node, owner.inner)
                if kind == "overload":
                    return ()
                if kind is None:
                    return NOTHING_KNOWN
                implicit = int(kind == "class" or (kind == "plain" and not by_class))
                return (Function(owner.inner, node, implicit),)
            case ast.ClassDef(name=name) as inner if name == binding.name:
                return (Class(owner.inner, inner),)
            case _ if binding.value is not None:
                return self.names.modules_of(binding.value, owner.inner)
        return NOTHING_KNOWN

    def _of_instance(self, cls: Class, name: str) -> tuple[Thing, ...]:
        """Return what the methods of a class and its bases set `self.NAME` to."""
        key = (cls.node, name)
        if key not in self._values:
            self._values[key] = NOTHING_KNOWN  # whoever comes here on the way is in a circle
            found: dict[Thing, None] = {}
            for value, spot in self._instance_stores(cls, name):
                found.update(dict.fromkeys(NOTHING_KNOWN if value is None else self.names.of(value, spot)))
            self._values[key] = tuple(found) or NOTHING_KNOWN
        return self._values[key]

    def _instance_stores(self, cls: Class, name: str) -> list[tuple[ast.expr | None, Spot]]:
        """Return every value that a method gives `self.NAME`, None for one that is not plain."""
        return [
            store
            for base in self.order(cls)
            if isinstance(base, Class)
            for store in self._stores_of(base).get(name, ())
        ]

    def _stores_of(self, cls: Class) -> dict[str, list[tuple[ast.expr | None, Spot]]]:
        if cls.node not in self._stores:
            found: dict[str, list[tuple[ast.expr | None, Spot]]] = {}
            for statement, guard in guarded(cls.node.body):
                spot = Spot(cls.spot.source, (*cls.inner.scopes, *guard.scopes))
                for name, value in _stored(statement):
                    found.setdefault(name, []).append((value, spot))
            self._stores[cls.node] = found
        return self._stores[cls.node]

    # --- heirs ---

    def heirs(self, cls: Class) -> Iterator[Class]:
        """Yield every class of the tree that may come from this one."""
        for path, name in sorted(self.names.elsewhere.descendants(cls.spot.source.path, cls.node.name)):
            source = self.names.world.view.source(path)
            if source is None:
                continue
            for statement, guard in statements_in(source):
                if isinstance(statement, ast.ClassDef) and statement.name == name and statement is not cls.node:
                    heir = Class(Spot(source, guard.scopes), statement)
                    order = self.order(heir)
                    if any(b == _UNSEEN or (isinstance(b, Class) and b.node is cls.node) for b in order):
                        yield heir


_HARMLESS = _TRANSPARENT | {"dataclasses.dataclass"}


def _merged(chains: Sequence[list[Base]]) -> list[Base] | None:
    """Merge the orders of the bases as Python does (C3), None where there is no such order."""
    merged: list[Base] = []
    chains = [chain for chain in chains if chain]
    while chains:
        tails = {_key(base) for chain in chains for base in chain[1:]}
        head = next((chain[0] for chain in chains if _key(chain[0]) not in tails), None)
        if head is None:
            return None
        merged.append(head)
        chains = [[base for base in chain if _key(base) != _key(head)] for chain in chains]
        chains = [chain for chain in chains if chain]
    return merged


def _key(base: Base) -> object:
    return base.node if isinstance(base, Class) else base.name


def _stored(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield each attribute that a statement stores: its value where it is `self.NAME = VALUE`, else None."""
    match statement:
        case (
            ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attr)], value=value)
            | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=attr), value=ast.expr() as value)
        ):
            yield attr, value
        case _:
            for part in _targets(statement):
                for node in ast.walk(part):
                    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                        yield node.attr, None


def _targets(statement: ast.stmt) -> Iterator[ast.AST]:
    yield from getattr(statement, "targets", ())
    yield from (getattr(statement, field) for field in ("target",) if hasattr(statement, field))
    yield from (item.optional_vars for item in getattr(statement, "items", ()) if item.optional_vars)
