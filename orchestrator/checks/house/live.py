"""E513: what a run brings is reached: constants are read, functions called, modules imported.

What a framework reaches by itself is let pass: overridden methods, fields of classes that somebody else's base or
decorator makes something of, registrations by decorator, names that are asked for as text.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks import uses as finding  # a module that imports this package's own: see it as a whole
from orchestrator.checks.house.ancestry import ancestry
from orchestrator.checks.house.edited_lines import edited, statements
from orchestrator.checks.house.truth import Truth
from orchestrator.code.scopes import definitions_in
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.checks.house.world import World
    from orchestrator.checks.uses import Use
    from orchestrator.code.imports import Guard
    from orchestrator.code.source import Source

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HELP = "Use it, leave it out, or waive E513 for the stage with the reason: who reaches it, and how."
_PLAIN_DECORATORS = frozenset({
    *("staticmethod", "classmethod", "property", "cached_property", "lru_cache", "cache", "wraps", "contextmanager"),
    *("asynccontextmanager", "no_grad", "inference_mode", "jit", "abstractmethod", "override", "final", "compile"),
})  # fmt: skip
"""Decorators that hand a function to nobody: all others may register it."""
_PLAIN_BASES = frozenset({"object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol"})
"""Bases that call nothing of a class by its name."""
_MODULE_METHODS = frozenset(
    {"forward", "extra_repr", "reset_parameters", "train", "eval", "get_extra_state", "set_extra_state"}
)
"""What `torch.nn.Module` calls by name, but for names with an underscore in front."""
_BY_TEXT = (b"getattr(", b"__all__", b"attrgetter", b"methodcaller", b"setattr(", b"__dict__")


@dataclass(frozen=True)
class Brought:
    """A constant, function or class that edits brought: its qualified name, and its statement in the final file."""

    source: Source
    name: str
    statement: ast.stmt
    in_class: bool

    @property
    def last(self) -> str:
        """The name without what is around it."""
        return self.name.rpartition(".")[2]

    def has(self, use: Use) -> bool:
        """Tell whether a use stands inside of this definition."""
        return isinstance(self.statement, _DEFINITIONS) and use.within(f"{self.source.path}:{self.name}")


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each constant, function, class and module that a run brings and that nothing reaches."""
    truth = Truth.of(world)
    brought = [each for path in sorted(touched) for each in _brought(world, path, truth)]
    for each in _unreached(world, brought, touched):
        what, does = ("`{}`", "reads") if not isinstance(each.statement, _DEFINITIONS) else ("`{}`", "calls")
        message = f"nothing {does} {what.format(each.name)}, which the run puts into {each.source.path}"
        yield Diagnostic("E513", message, each.source.place(each.statement), help=_HELP)
    for path in _never_imported(world, touched, truth):
        yield Diagnostic("E513", f"nothing imports {path}, which the run adds", Place(path), help=_HELP)


# --- constants, functions and classes ---


def _brought(world: World, path: str, truth: Truth) -> list[Brought]:
    """Return what edits of a file brought that has to be reached by somebody's code."""
    found = edited(world, path)
    if found is None:
        return []
    before, after, chunks = found
    try:
        known = {name for name, _ in definitions_in(before)}
        old = statements(before, [chunk.old for chunk in chunks])
        was = {ast.unparse(s) for s, _ in old if isinstance(s, ast.Assign | ast.AnnAssign)}
        here = statements(after, [chunk.new for chunk in chunks])
        return [
            Brought(after, name, statement, bool(guard.scopes))
            for statement, guard in here
            if all(isinstance(scope, ast.ClassDef) for scope in guard.scopes)
            for name in _names(statement, guard)
            if not (name in known if isinstance(statement, _DEFINITIONS) else ast.unparse(statement) in was)
            and not truth.refuted(guard.tests, after)
            and not _let_pass(world, after, name, statement, guard)
        ]
    except (Rejected, RecursionError):
        return []  # rule E501 has said so


def _names(statement: ast.stmt, guard: Guard) -> Iterator[str]:
    around = "".join(f"{scope.name}." for scope in guard.scopes if isinstance(scope, ast.ClassDef))
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield f"{around}{name}"
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield f"{around}{name}"
        case ast.Assign(targets=targets):
            parts = [part for t in targets for part in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
            yield from (f"{around}{part.id}" for part in parts if isinstance(part, ast.Name))


def _let_pass(world: World, source: Source, name: str, statement: ast.stmt, guard: Guard) -> bool:
    """Tell whether a framework may reach it: then nobody else need."""
    last = name.rpartition(".")[2]
    if last == "_" or (last.startswith("__") and last.endswith("__")):
        return True
    decorators = [_last(decorator) for decorator in getattr(statement, "decorator_list", ())]
    if any(decorator not in _PLAIN_DECORATORS for decorator in decorators):
        return True
    owner = guard.scopes[-1] if guard.scopes else statement
    if not isinstance(owner, ast.ClassDef):
        return False
    above = ancestry(world, source, owner)
    foreign = {base for base in above.outside if base not in _PLAIN_BASES}
    if owner is statement:
        return False
    if isinstance(statement, ast.Assign | ast.AnnAssign) and owner.decorator_list:
        return True
    if above.defines(last) or foreign - {"torch.nn.Module"}:
        return True
    return bool(foreign) and (last in _MODULE_METHODS or last.startswith("_"))


def _last(decorator: ast.expr) -> str:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _unreached(world: World, brought: Sequence[Brought], touched: frozenset[str]) -> list[Brought]:
    """Return what nothing reaches, or only what nothing reaches itself."""
    waiting: dict[int, list[Use]] = {}
    for number, each in enumerate(brought):
        kept: list[Use] = []
        for use in _uses(world, each, touched):
            if each.has(use):
                continue
            kept.append(use)
            if not any(other.has(use) for other in brought):
                break
        else:
            if not _asked_by_text(world, each):
                waiting[number] = kept
    while True:
        dead = [brought[number] for number in waiting]
        alive = [n for n, kept in waiting.items() if any(not any(d.has(use) for d in dead) for use in kept)]
        if not alive:
            return dead
        for number in alive:
            del waiting[number]


def _uses(world: World, each: Brought, touched: frozenset[str]) -> Iterator[Use]:
    """Yield the uses of what was brought: those in touched files first, where most are."""
    for among in (touched, None):
        uses = finding.Uses(world.view, among)
        if not each.in_class:
            yield from uses.of_global(each.source.path, each.last)
        yield from uses.of_attribute(each.last)


def _asked_by_text(world: World, each: Brought) -> bool:
    """Tell whether a file of the same package may reach a name by its text: `getattr(x, "name")`, `__all__`."""
    quoted = re.compile(rb"[\"']%b[\"']" % re.escape(each.last.encode()))
    root = each.source.path.partition("/")[0]
    for path in world.view.paths():
        if path.startswith(root) and path.endswith(".py"):
            raw = world.view.tree.get(path, b"")
            if (path == each.source.path or any(mark in raw for mark in _BY_TEXT)) and quoted.search(raw):
                return True
    return False


# --- modules ---

_LOADERS = (b"import_module", b"__import__", b"LazyModule", b"LazyLoader", b"resolve_obj_by_qualname")
_SCANS = (b"iter_modules", b"walk_packages", b"define_import_structure", b"listdir(", b"glob(")
_PROGRAM = re.compile(rb"^if __name__ *== *[\"']__main__[\"']", re.MULTILINE)


def _never_imported(world: World, touched: frozenset[str], truth: Truth) -> list[str]:
    """Return the new modules that no file imports, or only such files as nothing imports."""
    view = world.view
    new = [p for p in sorted(touched) if p.endswith(".py") and p not in view.base and not _needs_none(world, p)]
    waiting = _left(set(new), {path: _importers(world, path, truth, touched) for path in new})
    if not waiting:
        return []  # as a rule the edited files import what is new
    waiting -= {path for path in waiting if _named_by_text(world, path)}
    return sorted(_left(waiting, {path: _importers(world, path, truth, None) for path in waiting}))


def _left(waiting: set[str], importers: Mapping[str, set[str]]) -> set[str]:
    """Return of the waiting modules those that only waiting ones import."""
    while True:
        alive = {path for path in waiting if importers[path] - waiting}
        if not alive:
            return waiting
        waiting = waiting - alive


def _importers(world: World, path: str, truth: Truth, among: frozenset[str] | None) -> set[str]:
    """Return the files that import a module where this target gets to, of some files or of all.

    What imports or runs a module in a package runs the package's own file first.
    """
    found = finding.Uses(world.view, among).imports_of_module(path)
    importers = {source.path for source, entry in found if not truth.refuted(entry.guard.tests, source)}
    folder = path.removesuffix("__init__.py")
    inside = {other for other in world.view.tree if other.startswith(folder)} if folder != path else set()
    return (importers | inside) - {path}


def _needs_none(world: World, path: str) -> bool:
    """Tell whether a file is no module that somebody has to import: a program, or one that is asked in the image."""
    raw = world.view.tree.get(path)
    if raw is None or path in world.asked:
        return True
    name = path.rpartition("/")[2]
    return (
        name in {"__main__.py", "conftest.py", "sitecustomize.py"}
        or name.startswith("test_")
        or bool(_PROGRAM.search(raw))
    )


def _named_by_text(world: World, path: str) -> bool:
    """Tell whether a file names a module as text to import it, or imports whatever lies in its package."""
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, last = dotted.rpartition(".")
    whole = re.compile(rb"[\"']%b[\"'.:]" % re.escape(dotted.encode()))
    short = re.compile(rb"[\"']\.*%b[\"':]" % re.escape(last.encode()))
    for other in world.view.paths():
        raw = world.view.tree.get(other, b"")
        if other == path or dotted.rpartition(".")[2].encode() not in raw:
            if other != path and other == f"{package.replace('.', '/')}/__init__.py" and any(s in raw for s in _SCANS):
                return True
            continue
        if whole.search(raw) or (any(mark in raw for mark in _LOADERS) and short.search(raw)):
            return True
    return False
