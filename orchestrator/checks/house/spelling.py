"""An expression by the first name of what it starts from: the spelling in which a target states its constants."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from orchestrator.checks.house.world import InTree
from orchestrator.code.imports import module_names

if TYPE_CHECKING:
    from orchestrator.checks.house.world import World
    from orchestrator.code.source import Source


def spelled_out(node: ast.expr, source: Source, local: frozenset[str], world: World) -> str | None:
    """Return an expression as it would be written without aliases, None where it starts from nothing imported.

    `cp.is_cuda()` after `import current_platform as cp`, `platforms.current_platform.is_cuda()`, and `cp.is_cuda()`
    after `cp = current_platform` are all `current_platform.is_cuda()`.
    """
    root = node
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    if not isinstance(root, ast.Name) or root is node or root.id in local:
        return None
    bindings = module_names(source).bindings.get(root.id, ())
    if len(bindings) != 1:
        return None
    entry, value = bindings[0].imported, bindings[0].value
    text = ast.unparse(node)
    rest = text[len(root.id) :]
    match value:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)) if name != root.id:
            whole = ast.parse(f"{ast.unparse(value)}{rest}", mode="eval").body
            return spelled_out(whole, source, local | {root.id}, world) or ast.unparse(whole)
    if entry is None:
        return None
    if entry.name is not None and not _is_module(f"{entry.module}.{entry.name}", world):
        return f"{entry.name}{rest}"
    dotted = text.split("(", 1)[0].split(".")
    for at in range(len(dotted) - 1, 0, -1):
        module = module_of(ast.parse(".".join(dotted[:at]), mode="eval").body, source)
        if module is not None and _is_module(module, world):
            return text[len(".".join(dotted[:at])) + 1 :]
    return None


def module_of(node: ast.expr, source: Source) -> str | None:
    """Return the dotted name of the module that an expression stands for."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    bindings = module_names(source).bindings.get(node.id, ())
    if len(bindings) != 1 or bindings[0].imported is None:
        return None
    entry = bindings[0].imported
    if entry.module is None:
        return None
    if entry.name is not None:
        first = f"{entry.module}.{entry.name}"
    else:
        first = entry.module if entry.alias.asname else entry.module.partition(".")[0]
    return ".".join([first, *parts])


def _is_module(name: str, world: World) -> bool:
    return isinstance(world.find(name), InTree)
