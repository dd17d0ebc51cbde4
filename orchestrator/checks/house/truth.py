"""What the facts say about a condition: true, false, or nothing, and by which line of the code or the target.

A name is followed through imports to the assignment that gives it its value. Whatever is not certain, such as a
flag that is set in a `try` or by a function, is not known.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from orchestrator.checks.house.failing import after_failed_import
from orchestrator.checks.house.scoping import hidden
from orchestrator.checks.house.spelling import module_of, spelled_out
from orchestrator.checks.house.world import InTree, Missing, World
from orchestrator.code.imports import Binding, Import, Test, globals_in, module_names
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from orchestrator.code.source import Source

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}

_PRESENT = object()
"""Stands for the spec of a module that is there."""


@dataclass(frozen=True)
class Known:
    """A value that the facts decide, and why, in words."""

    value: Any
    because: tuple[str, ...] = ()


@dataclass(frozen=True)
class Truth:
    """Folds conditions of one patched tree."""

    world: World
    _following: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, world: World) -> Truth:
        """Return the one that every rule asks about this world."""
        return world.once(cls, lambda: cls(world))

    def refuted(self, tests: Iterable[Test], source: Source) -> tuple[Test, Known] | None:
        """Return the first condition that the facts make false, with what they say of it."""
        for test in tests:
            known = self.known(test.expression, source, hidden(test.scopes))
            if known is not None and bool(known.value) is not test.wanted:
                return test, known
        return None

    def known(self, node: ast.expr, source: Source, local: frozenset[str] = frozenset()) -> Known | None:
        """Return the value of an expression that stands in `source`; names in `local` are not the module's."""
        try:
            return _Folding(self, source, local).fold(node)
        except RecursionError:
            return None

    def flag(self, source: Source, name: str) -> Known | None:
        """Return the value that a module gives a name, None where it is not certain."""
        key = (source.path, name)
        if key in self._following:
            return None
        self._following.add(key)
        try:
            return self._flag(source, name)
        except Rejected:
            return None
        finally:
            self._following.discard(key)

    def _flag(self, source: Source, name: str) -> Known | None:
        live = [b for b in module_names(source).bindings.get(name, ()) if not self.refuted(b.guard.tests, source)]
        if live and (failed := after_failed_import(live, source, self.world)):
            known = self._value(failed.binding, source)
            why = f"`{failed.missing}` is not in the tree"
            return Known(known.value, (why, *known.because)) if known is not None else None
        if not live or any(not b.guard.certain for b in live) or not self._runs(live[-1], source):
            return None
        if name in globals_in(source):
            return None
        return self._value(live[-1], source)

    def _runs(self, binding: Binding, source: Source) -> bool:
        """Tell whether the conditions around a binding are known to be true: then those above it do not count."""
        values = [(t, self.known(t.expression, source)) for t in binding.guard.tests]
        return all(known is not None and bool(known.value) is t.wanted for t, known in values)

    def _value(self, binding: Binding, source: Source) -> Known | None:
        if binding.value is not None:
            known = self.known(binding.value, source)
            if known is None:
                return None
            line = f"{binding.name} = {ast.unparse(binding.value)} at {source.place(binding.statement)}"
            return Known(known.value, (line, *known.because))
        entry = binding.imported
        if entry is None or entry.name is None or entry.module is None:
            return None
        if entry.name == "TYPE_CHECKING" and entry.module in {"typing", "typing_extensions"}:
            return Known(value=False, because=("TYPE_CHECKING is False when the code runs",))
        return self.of_module(entry.module, entry.name)

    def of_module(self, module: str, name: str) -> Known | None:
        """Return the value that a module of the tree gives a name."""
        found = self.world.find(module)
        if not isinstance(found, InTree) or found.source is None:
            return None
        return self.flag(found.source, name)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The target's constants by the normal spelling of their expression."""
        return {_normal(text): value for text, value in self.world.view.facts.constants.items()}

    def spec(self, module: str) -> Known | None:
        """Return what `find_spec` gives for a module: something, or None where it is not in the target."""
        found = self.world.find(module)
        if not isinstance(found, Missing):
            if not self.world.has_inventory and not isinstance(found, InTree):
                return None
            return Known(_PRESENT, (f"`{module}` is in the target",))
        return Known(None, (f"`{module}` is not in the target",))


def _normal(text: str) -> str:
    try:
        return ast.unparse(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError):
        return text


@dataclass(frozen=True)
class _Folding:
    truth: Truth
    source: Source
    local: frozenset[str]

    def fold(self, node: ast.expr) -> Known | None:
        facts = self.truth.facts
        if facts and not isinstance(node, ast.Constant):
            text = ast.unparse(node)
            if text not in facts:
                text = spelled_out(node, self.source, self.local, self.truth.world) or text
            if text in facts:
                return Known(facts[text], (f"`{text}` is {facts[text]!r} by the target's constants",))
        match node:
            case ast.Constant(value=value):
                return Known(value)
            case ast.Name(id=name):
                return None if name in self.local else self.truth.flag(self.source, name)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._sequence(parts)
            case _:
                return self._operation(node)

    def _sequence(self, parts: Sequence[ast.expr]) -> Known | None:
        folded = [self.fold(part) for part in parts]
        known = [part for part in folded if part is not None]
        return Known(tuple(part.value for part in known)) if len(known) == len(folded) else None

    def _operation(self, node: ast.expr) -> Known | None:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = self.fold(operand)
                return None if known is None else Known(not known.value, known.because)
            case ast.BoolOp():
                return self._bool(node)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                known = self.fold(test)
                return None if known is None else self.fold(body if known.value else orelse)
            case _:
                return None

    def _attribute(self, node: ast.Attribute) -> Known | None:
        text = ast.unparse(node)
        root = text.partition(".")[0]
        if root in self.local:
            return None
        if text == "sys.version_info":
            python = self.truth.world.view.facts.python
            return Known(python, (f"the target runs Python {python[0]}.{python[1]}",))
        if text in {"sys.version_info.major", "sys.version_info.minor"}:
            return Known(self.truth.world.view.facts.python[text.endswith("minor")], ("the target's Python",))
        if text in {"typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING"}:
            return Known(value=False, because=("TYPE_CHECKING is False when the code runs",))
        module = module_of(node.value, self.source)
        return self.truth.of_module(module, node.attr) if module else None

    def _bool(self, node: ast.BoolOp) -> Known | None:
        deciding = isinstance(node.op, ast.Or)
        folded = [self.fold(part) for part in node.values]
        for known in folded:
            if known is not None and bool(known.value) is deciding:
                return known
        known_parts = [k for k in folded if k is not None]
        if len(known_parts) < len(folded):
            return None
        return Known(known_parts[-1].value, tuple(line for k in known_parts for line in k.because))

    def _compare(self, node: ast.Compare) -> Known | None:
        left = self.fold(node.left)
        right = self.fold(node.comparators[0])
        if left is None or right is None or len(node.ops) != 1:
            return None
        if _open_version(left.value, right.value, node):
            return None
        try:
            value = _COMPARISONS[type(node.ops[0])](left.value, right.value)
        except TypeError:
            return None
        return Known(bool(value), left.because + right.because)

    def _call(self, node: ast.Call) -> Known | None:
        match node:
            case ast.Call(func=ast.Name(id="bool"), args=[operand], keywords=[]) if "bool" not in self.local:
                known = self.fold(operand)
                return None if known is None else Known(bool(known.value), known.because)
            case ast.Call(args=[ast.Constant(value=str() as module)], keywords=[]) if self._is_find_spec(node.func):
                return self.truth.spec(module)
            case _:
                return None

    def _is_find_spec(self, function: ast.expr) -> bool:
        match function:
            case ast.Name(id=name) if name not in self.local:
                found = [b.imported for b in module_names(self.source).bindings.get(name, ())]
                return len(found) == 1 and found[0] is not None and _origin(found[0]) == "importlib.util.find_spec"
            case ast.Attribute(attr="find_spec", value=value):
                return module_of(value, self.source) == "importlib.util"
            case _:
                return False

    def _subscript(self, node: ast.Subscript) -> Known | None:
        known = self.fold(node.value)
        if known is None or ast.unparse(node.value) != "sys.version_info":
            return None
        match node.slice:
            case ast.Constant(value=0 | 1 as index):
                return Known(known.value[index], known.because)
            case ast.Slice(lower=None, upper=ast.Constant(value=1 | 2 as end), step=None):
                return Known(known.value[:end], known.because)
            case _:
                return None


def _origin(entry: Import) -> str:
    return f"{entry.module}.{entry.name}"


def _open_version(left: object, right: object, node: ast.Compare) -> bool:
    """Tell whether a comparison asks for a part of a version that the facts do not have, such as 3.10.*5*."""
    on_the_left = ast.unparse(node.left) == "sys.version_info"
    if not on_the_left and ast.unparse(node.comparators[0]) != "sys.version_info":
        return False
    known, asked = (left, right) if on_the_left else (right, left)
    if not isinstance(asked, tuple) or not isinstance(known, tuple):
        return True
    # sys.version_info has five parts: it equals no shorter tuple and is greater than its own beginning.
    decided = (ast.GtE, ast.Lt) if on_the_left else (ast.LtE, ast.Gt)
    return asked[: len(known)] == known and (len(asked) > len(known) or not isinstance(node.ops[0], decided))
