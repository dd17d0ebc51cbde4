"""Definitions of a module by qualified name, and what counts as the body of each.

A *definition* is the smallest unit whose change is tracked: a function with all that is in it, a class
without its methods, or the module without its functions and classes (`<module>`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.code.nodes import fields_among
from orchestrator.code.tokens import tokens_of
from orchestrator.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.code.source import Source

MODULE = "<module>"
FILE = "<file>"
"""The definition that stands for a file deployed as a whole."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
DefinitionNode = FunctionNode | ast.ClassDef
ScopeNode = DefinitionNode | ast.Module

_BLOCKS = fields_among(("body", "orelse", "finalbody", "handlers", "cases"))
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, order=True)
class Definition:
    """A definition's address: file and qualified name."""

    file: str
    name: str

    def __str__(self) -> str:
        return self.file if self.name == MODULE else f"{self.file}:{self.name}"


def definitions(tree: ast.Module) -> Iterator[tuple[str, DefinitionNode]]:
    """Yield (qualified name, node) of every function and class, also inside `if`, `try`, `with` and loops."""
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        prefix, node = pending.pop()
        inner: list[tuple[str, ast.AST]] = []
        for child in _children(node):
            if isinstance(child, _DEFINITIONS):
                name = f"{prefix}{child.name}"
                yield name, child
                inner.append((f"{name}.", child))
            else:
                inner.append((prefix, child))
        pending.extend(reversed(inner))


def definitions_in(source: Source) -> tuple[tuple[str, DefinitionNode], ...]:
    """Return what `definitions` yields for a source, found once."""
    return source.derived(_definitions_in)


def _definitions_in(source: Source) -> tuple[tuple[str, DefinitionNode], ...]:
    return tuple(definitions(source.tree))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements (and their carriers, such as except clauses) directly inside `node`."""
    for field in _BLOCKS[type(node)]:
        value = getattr(node, field)
        if isinstance(value, list):
            yield from value


def find(tree: ast.Module, name: str | None) -> list[ScopeNode]:
    """Return every definition of this qualified name; the module itself for None."""
    if name is None:
        return [tree]
    return [node for found, node in definitions(tree) if found == name]


def enclosing(tree: ast.Module, line: int) -> str:
    """Return the qualified name of the definition that tracks changes in `line`, `<module>` if none does.

    Inside a function that is the outermost function: what is nested in it changes with it.
    """
    best = MODULE
    scope: ast.AST = tree
    prefix = ""
    while True:
        inner = _definition_at(scope, line)
        if inner is None:
            return best
        best = f"{prefix}{inner.name}"
        if isinstance(inner, _FUNCTIONS):
            return best
        scope, prefix = inner, f"{best}."


def _definition_at(scope: ast.AST, line: int) -> DefinitionNode | None:
    pending = list(_children(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, _DEFINITIONS):
            if first_line(node) <= line <= (node.end_lineno or node.lineno):
                return node
        else:
            pending.extend(_children(node))
    return None


def first_line(node: ast.stmt) -> int:
    """Return the line of a statement's first token, its decorators included."""
    if type(node) not in _DEFINITIONS:
        return node.lineno
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)]) if decorators else node.lineno


def outermost_function(tree: ast.Module, name: str) -> str:
    """Return the definition that tracks `name`: itself or, if it is nested in a function, that function."""
    known = dict(definitions(tree))
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        candidate = ".".join(parts[:end])
        if isinstance(known.get(candidate), _FUNCTIONS):
            return candidate
    return name


def named(source: Source, name: str | None) -> list[ScopeNode]:
    """Return every definition of this qualified name in a source; the module itself for None and `<module>`."""
    if name is None or name == MODULE:
        return [source.tree]
    return source.derived(_by_name).get(name, [])


def _by_name(source: Source) -> dict[str, list[ScopeNode]]:
    found: dict[str, list[ScopeNode]] = {}
    for name, node in definitions_in(source):
        found.setdefault(name, []).append(node)
    return found


def definition_digest(source: Source, name: str) -> str | None:
    """Return the digest of a definition's normalised source, None where it does not exist.

    Where a name is defined more than once, all its definitions together are one image.
    """
    return source.once(f"digest {name}", lambda: _digest(source, name))


def _digest(source: Source, name: str) -> str | None:
    nodes = named(source, name)
    return digest("\n\n".join(normalised(source, node) for node in nodes).encode()) if nodes else None


def normalised(source: Source, node: ScopeNode) -> str:
    """Return a definition's tokens in one spelling: no comments, no formatting, no matter which Python runs.

    Definitions that are tracked on their own (a class's methods, a module's functions and classes) are left out.
    """
    lines = source.lines
    if isinstance(node, ast.Module):
        first, last = 1, len(lines)
    else:
        first, last = first_line(node), node.end_lineno or node.lineno
    left_out: set[int] = set()
    if not isinstance(node, _FUNCTIONS):
        for inner in _tracked_apart(node):
            left_out.update(range(first_line(inner), (inner.end_lineno or inner.lineno) + 1))
    kept = (lines[number - 1] for number in range(first, last + 1) if number not in left_out)
    tokens = tokens_of("".join(map(_plain, kept)))
    if tokens[:1] == ["<in>"]:
        tokens = tokens[1:-1]  # how deep the definition itself stands does not count
    return " ".join(tokens)


def _plain(line: str) -> str:
    return line.rstrip("\r\n") + "\n"


def _tracked_apart(node: ast.AST) -> Iterator[DefinitionNode]:
    for child in _children(node):
        if isinstance(child, _DEFINITIONS):
            yield child
        else:
            yield from _tracked_apart(child)
