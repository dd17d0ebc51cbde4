"""What a definition looks like in two bases, side by side: the upstream diff of a scope."""

from __future__ import annotations

import ast
import difflib
import textwrap
from typing import TYPE_CHECKING

from orchestrator.code.scopes import FILE, definitions, first_line, named
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from orchestrator.checks.view import Sources
    from orchestrator.code.scopes import Definition
    from orchestrator.code.source import Source
    from orchestrator.core.tree import Tree

MAX_LINES = 3_000  # difflib is quadratic


def definition_diff(old: tuple[Tree, Definition], new: tuple[Tree, Definition], sources: Sources) -> str:
    """Return the unified diff of a definition from one base to another; empty where either lacks it or none differs.

    A module is shown without its functions and classes, a class without its methods, as they are tracked.
    """
    before, after = (lines_of(tree.get(at.file), at, sources) for tree, at in (old, new))
    if before is None or after is None or before == after or max(len(before), len(after)) > MAX_LINES:
        return ""
    diff = difflib.unified_diff(before, after, f"a/{old[1]}", f"b/{new[1]}", lineterm="")
    return "\n".join(diff) + "\n"


def lines_of(raw: bytes | None, definition: Definition, sources: Sources) -> list[str] | None:
    """Return the lines of a definition as they stand, without the indentation of its place; None if it is not there."""
    if raw is None:
        return None
    if definition.name == FILE:
        return raw.decode("utf-8", errors="replace").splitlines()
    source = sources.get(definition.file, raw)
    try:
        nodes = named(source, definition.name)
    except Rejected:
        return None
    return [line for node in nodes for line in _text(source, node)] if nodes else None


def _text(source: Source, node: ast.AST) -> list[str]:
    first, last = (1, len(source.lines)) if isinstance(node, ast.Module) else (_first(node), node.end_lineno)  # type: ignore[attr-defined]  # a definition
    left_out: set[int] = set()
    if isinstance(node, ast.Module | ast.ClassDef):
        for name, inner in definitions(ast.Module(node.body, [])):
            if "." not in name:
                left_out.update(range(first_line(inner), (inner.end_lineno or inner.lineno) + 1))
    kept = [source.lines[number - 1].rstrip("\r\n") for number in range(first, last + 1) if number not in left_out]
    return textwrap.dedent("\n".join(kept)).splitlines()


def _first(node: ast.AST) -> int:
    return first_line(node)  # type: ignore[arg-type]  # a definition is a statement
