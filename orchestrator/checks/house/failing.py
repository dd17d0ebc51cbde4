"""A `try` whose import of the tree itself must fail: then what its handlers bind is what counts.

Of other packages that are not in the inventory nobody knows: an optional one may be there all the same.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks.house.world import Missing
from orchestrator.code.imports import Binding, Guard, imports_of, package_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.checks.house.world import World
    from orchestrator.code.source import Source

_TAKEN = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


@dataclass(frozen=True)
class Failed:
    """The binding that a handler makes, and the module that is missing."""

    binding: Binding
    missing: str


def after_failed_import(live: Sequence[Binding], source: Source, world: World) -> Failed | None:
    """Return the one binding of a handler, where all bindings of a name stand in a `try` whose import must fail.

    `try: import x; HAS = True`, `except ImportError: HAS = False`, and the tree has no `x`.
    """
    if all(binding.guard.certain for binding in live):
        return None
    for node in source.tree.body:
        if isinstance(node, ast.Try) and not node.finalbody and all(_stands_in(b.statement, [node]) for b in live):
            handler = next((h for h in node.handlers if _takes_import_faults(h)), None)
            inside = [b for b in live if handler is not None and _stands_in(b.statement, handler.body)]
            missing = _missing_in(node, source, world) if len(inside) == 1 else None
            return Failed(inside[0], missing) if missing is not None else None
    return None


def _missing_in(node: ast.Try, source: Source, world: World) -> str | None:
    """Return the module whose import in the body of a `try` fails for certain."""
    for statement in node.body:
        for entry in imports_of(statement, Guard(), package_of(source.path)):
            module = entry.module or ""
            if module.partition(".")[0] in world.roots and isinstance(world.find(module), Missing):
                return module
    return None


def _stands_in(statement: ast.stmt, block: Sequence[ast.stmt]) -> bool:
    return any(inner is statement for outer in block for inner in ast.walk(outer))


def _takes_import_faults(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return bool(_TAKEN & {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)})
