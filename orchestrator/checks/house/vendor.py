"""E508: changed code takes from a compiled vendor module only what the target's inventory lists."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.house.changes import changes_of
from orchestrator.checks.house.dynamic import dynamic_imports
from orchestrator.checks.house.elsewhere import Elsewhere
from orchestrator.checks.house.expressions import accesses, guard_of, terminal
from orchestrator.checks.house.inventory import lacks, vendor_help
from orchestrator.checks.house.names import Names
from orchestrator.checks.house.things import UNKNOWN, External, Module, Spot
from orchestrator.code.imports import imports_in, module_names, statements_in
from orchestrator.code.scopes import enclosing
from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.changes import Changes
    from orchestrator.checks.house.expressions import Accessed
    from orchestrator.checks.house.things import Thing
    from orchestrator.checks.house.world import World
    from orchestrator.code.imports import Guard, Import
    from orchestrator.code.source import Source

_CAUGHT = frozenset({"AttributeError", "Exception", "BaseException"})


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each access to a name that a vendor module does not have, a warning for an old one."""
    if not any(world.view.facts.vendor_modules.values()):
        return
    judge_ = _Judge(world)
    for path in sorted(touched):
        change = changes_of(path, world.view)
        yield from judge_.of_file(change) if change is not None else ()


class _Judge:
    """Judges accesses of one patched tree."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.facts = world.view.facts
        self.elsewhere = Elsewhere.of(world)
        self.names = Names.of_world(world)
        self.tops = frozenset(name.partition(".")[0] for name in self.facts.vendor_modules)

    def may_matter(self, source: Source) -> bool:
        """Tell whether a file imports something of a vendor's module, from wherever."""
        entries = (*imports_in(source), *dynamic_imports(source))
        return any(self.is_vendors(thing) for entry in entries for thing in self.imported(entry))

    def imported(self, entry: Import) -> tuple[Thing, ...]:
        """Return what an import brings, nothing where it is not of the tree or the vendor anyway."""
        top = str(entry.module).partition(".")[0]
        return self.names.imported(entry) if top in self.tops or top in self.world.roots else ()

    def is_vendors(self, thing: Thing) -> bool:
        """Tell whether a thing is a vendor's module, or what leads to one."""
        return isinstance(thing, External | Module) and thing.name.partition(".")[0] in self.tops

    def is_foreign(self, thing: Thing) -> bool:
        """Tell whether a thing is neither of the tree nor of a vendor's module: then so is all that it has."""
        return isinstance(thing, External) and thing.name.partition(".")[0] not in self.tops

    def of_file(self, change: Changes) -> Iterator[Diagnostic]:
        """Yield the findings on one file."""
        source = change.source
        told: set[tuple[int, str]] = set()
        for node, statement, scopes in change.accesses:
            if isinstance(node, ast.Call) and terminal(node.func) != "getattr":
                continue
            missing = self.missing(node, Spot(source, scopes))
            if missing is None or not self.may_matter(source):
                continue
            if self.is_guarded(node, missing[1], guard_of(node, statement, source), source):
                continue
            if (node.lineno, ".".join(missing)) in told or self.elsewhere.is_set(missing[1]):
                continue
            told.add((node.lineno, ".".join(missing)))
            yield self.finding(node, *missing, source)

    def missing(self, node: Accessed, spot: Spot) -> tuple[str, str] | None:
        """Return the vendor module and the name that an expression takes from it in vain."""
        match node:
            case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
                pass
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str() as name)], keywords=[]):
                if self.names.of(node.func, spot) != (External("builtins.getattr"),):
                    return None
            case _:
                return None
        root = self.names.of_root(value, spot)
        if root is None or any(thing == UNKNOWN or self.is_foreign(thing) for thing in root):
            return None
        found = self.names.of(value, spot)
        lacking = [lacks(f"{t.name}.{name}", self.facts) if isinstance(t, External) else None for t in found]
        return lacking[0] if lacking and all(lacking) else None

    def is_guarded(self, node: Accessed, name: str, guard: Guard, source: Source) -> bool:
        """Tell whether the code itself sees to it that the name is there, or is not reached."""
        if _CAUGHT & guard.caught:
            return True
        owner = ast.unparse(node.value if isinstance(node, ast.Attribute) else node.args[0])
        if any(self.asks(t.expression, owner, name, source, wanted=t.wanted) for t in guard.tests):
            return True
        return self.names.truth.refuted(guard.tests, source) is not None

    def asks(self, test: ast.expr, owner: str, name: str, source: Source, *, wanted: bool) -> bool:
        """Tell whether a condition with this outcome says that `owner` has the name."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.asks(operand, owner, name, source, wanted=not wanted)
            case ast.BoolOp(op=op, values=values):
                decided = isinstance(op, ast.And) is wanted
                return decided and any(self.asks(value, owner, name, source, wanted=wanted) for value in values)
            case ast.Call(func=ast.Name(id="hasattr"), args=[value, ast.Constant(value=asked)]):
                return wanted and asked == name and ast.unparse(value) == owner
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=asked), _]):
                return wanted and asked == name and ast.unparse(value) == owner
            case ast.Compare(left=left, ops=[ast.IsNot() | ast.Is() as op], comparators=[ast.Constant(value=None)]):
                return self.asks(left, owner, name, source, wanted=wanted is isinstance(op, ast.IsNot))
            case ast.Name(id=flag):
                values = _values(source, flag)
                return bool(values) and all(self.asks(v, owner, name, source, wanted=wanted) for v in values)
            case _:
                return False

    def finding(self, node: Accessed, module: str, name: str, source: Source) -> Diagnostic:
        """Return the finding, a warning where the same access stood in the same definition of the base tree."""
        message = f"`{ast.unparse(node)}`: `{module}` has no `{name}`"
        found = Diagnostic("E508", message, source.place(node), help=vendor_help(name, module, self.facts))
        if not self.stood_before(node, source):
            return found
        note = "the base tree has the same access in this definition, and it fails there as well"
        return dataclasses.replace(found, severity=Severity.WARNING, notes=(note,))

    def stood_before(self, node: Accessed, source: Source) -> bool:
        """Tell whether the same access stood in the same definition of the base tree."""
        before = self.world.view.base_source(source.path)
        if before is None:
            return False
        around, text = enclosing(source.tree, node.lineno), ast.unparse(node)
        try:
            old = [other for other, _, _ in accesses(before) if ast.unparse(other) == text]
        except Rejected:
            return False
        return any(enclosing(before.tree, other.lineno) == around for other in old)


def _values(source: Source, flag: str) -> list[ast.expr]:
    """Return every value that the module or one of its functions gives a name, none where one is not plain."""
    found = [binding.value for binding in module_names(source).bindings.get(flag, ())]
    for statement, guard in statements_in(source):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if guard.scopes and name == flag:
                found.append(value)
    values = [value for value in found if value is not None]
    return values if len(values) == len(found) else []
