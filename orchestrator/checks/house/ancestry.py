"""What a class inherits: the classes of the tree that it rests on, and the names of those outside of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks.house.world import InTree, World
from orchestrator.code.imports import module_names
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from orchestrator.code.imports import Import
    from orchestrator.code.source import Source


@dataclass(frozen=True)
class Ancestry:
    """The classes above one, nearest first; `outside` are dotted names, "" for one that cannot be told."""

    inside: tuple[tuple[Source, ast.ClassDef], ...]
    outside: frozenset[str]

    def defines(self, name: str) -> bool:
        """Tell whether a class above has a method or an attribute of this name."""
        return any(name in _members(node) for _, node in self.inside)


def ancestry(world: World, source: Source, node: ast.ClassDef) -> Ancestry:
    """Return what a class of the tree inherits, over all files."""
    inside: list[tuple[Source, ast.ClassDef]] = []
    outside: set[str] = set()
    pending = [(source, base) for base in node.bases]
    while pending:
        where, base = pending.pop(0)
        found = _class(world, where, base.value if isinstance(base, ast.Subscript) else base)
        if isinstance(found, str):
            outside.add(found)
        elif all(found[1] is not known for _, known in inside) and found[1] is not node:
            inside.append(found)
            pending += [(found[0], each) for each in found[1].bases]
    return Ancestry(tuple(inside), frozenset(outside))


def _members(node: ast.ClassDef) -> set[str]:
    names: set[str] = set()
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(t.id for t in targets if isinstance(t, ast.Name))
    return names


def _class(world: World, source: Source, base: ast.expr) -> tuple[Source, ast.ClassDef] | str:
    parts: list[str] = []
    while isinstance(base, ast.Attribute):
        parts.insert(0, base.attr)
        base = base.value
    if not isinstance(base, ast.Name):
        return ""
    return _named(world, source, [base.id, *parts], frozenset())


def _named(
    world: World, source: Source, parts: list[str], seen: frozenset[tuple[str, str]]
) -> tuple[Source, ast.ClassDef] | str:
    """Follow a dotted name of a module to the class that it means; return its full name where that is outside."""
    if (source.path, parts[0]) in seen:
        return ""
    seen |= {(source.path, parts[0])}
    try:
        bindings = module_names(source).bindings.get(parts[0], ())
    except Rejected:
        return ""
    if not bindings:
        return ".".join(parts) if not module_names(source).stars else ""
    binding = bindings[-1]
    if isinstance(binding.statement, ast.ClassDef) and len(parts) == 1:
        return source, binding.statement
    if binding.imported is None:
        return ""
    return _imported(world, binding.imported, parts, seen)


def _imported(
    world: World, entry: Import, parts: list[str], seen: frozenset[tuple[str, str]]
) -> tuple[Source, ast.ClassDef] | str:
    if entry.module is None:
        return ""
    whole = entry.module.split(".")
    if entry.name is not None:
        whole.append(entry.name)
    elif not entry.alias.asname:
        whole = whole[:1]
    whole += parts[1:]
    for end in range(len(whole) - 1, 0, -1):
        found = world.find(".".join(whole[:end]))
        if isinstance(found, InTree) and found.source is not None:
            return _named(world, found.source, whole[end:], seen)
    return ".".join(whole)
