"""Which files of a workspace its stages use: what they name, and what these import or include in turn."""

from __future__ import annotations

import ast
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.engine.plan import Plan

BUILD_TEMPLATES = ("templates/Dockerfile.j2", "templates/dockerignore.j2")
_BLOCKS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_LITERALS = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"")


@dataclass(frozen=True)
class Claim:
    """A source that a stage names; `to` is the path of the tree that it becomes, empty where it becomes none."""

    stage: str
    source: str
    to: str = ""


@dataclass(frozen=True)
class Claims:
    """The sources that stages name, the paths of the tree that they write, and all that is used."""

    named: tuple[Claim, ...]
    written: Mapping[str, str] = field(default_factory=dict)
    """Path of the tree → the first stage that edits it or deploys to it."""
    used: frozenset[str] = frozenset()


def claims_of(plan: Plan, files: Mapping[str, int], read: Callable[[str], bytes | None]) -> Claims:
    """Return what the stages of a plan claim, switched off or not; `files` and `read` are the workspace's."""
    named: list[Claim] = []
    written: dict[str, str] = {}
    for stage in plan.stages:
        named += (Claim(stage.id, deploy.source, deploy.to) for deploy in stage.deploys)
        named += (Claim(stage.id, edit.source) for edit in stage.edits if edit.source)
        named += (Claim(stage.id, render.template) for render in stage.renders)
        named += (Claim(stage.id, wheel.source) for wheel in stage.wheels if wheel.source)
        for path in (*(edit.edit.file for edit in stage.edits), *(deploy.to for deploy in stage.deploys)):
            written.setdefault(path, stage.id)
    trees = {deploy.source: deploy.tree for stage in plan.stages for deploy in stage.deploys if deploy.tree}
    used = {claim.source for claim in named} | set(BUILD_TEMPLATES)
    pending = sorted(used)
    while pending:
        path = pending.pop()
        more = {other for other in _leads_to(path, trees.get(path), read) if other in files} - used
        used |= more
        pending += sorted(more)
    return Claims(tuple(named), written, frozenset(used))


def _leads_to(path: str, tree: ast.Module | None, read: Callable[[str], bytes | None]) -> frozenset[str]:
    if path.endswith(".py"):
        return imported(path, tree or _parsed(read(path) or b""))
    return included((read(path) or b"").decode("utf-8", errors="replace")) if path.endswith(".j2") else frozenset()


def _parsed(body: bytes) -> ast.Module:
    try:
        return ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def imported(path: str, tree: ast.Module) -> frozenset[str]:
    """Return the files that a module's imports may mean, beside it for relative ones, else from the workspace's top."""
    modules: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules.update(name.name.replace(".", "/") for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                top = posixpath.normpath(posixpath.join(posixpath.dirname(path), "../" * (level - 1))) if level else ""
                folder = posixpath.join(*(part for part in (top, (module or "").replace(".", "/")) if part), "")
                modules.update({folder.rstrip("/"), *(f"{folder}{name.name}" for name in names)})
    plain = (posixpath.normpath(module) for module in modules if module)
    return frozenset(f"{module}{ending}" for module in plain for ending in (".py", "/__init__.py"))


def code_of(template: str) -> str:
    """Return what jinja reads of a template's text: its blocks, without the text between them."""
    return "\n".join(_BLOCKS.findall(template))


def included(template: str) -> frozenset[str]:
    """Return the texts in a template's blocks, the names of further templates among them."""
    return frozenset(one or two for one, two in _LITERALS.findall(code_of(template)))
