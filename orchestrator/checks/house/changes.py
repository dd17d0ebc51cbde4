"""What a run changed: definitions by qualified name, and of these the ones that look different to a caller."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks.house.expressions import standing
from orchestrator.code.imports import bindings_of, guarded, module_names, package_of
from orchestrator.code.scopes import MODULE, definition_digest, definitions_in, first_line
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from orchestrator.checks.house.expressions import Standing
    from orchestrator.checks.view import View
    from orchestrator.code.imports import Binding
    from orchestrator.code.source import Source

_OF_THE_CLASS = frozenset({"__init__", "__new__", "__call__", "forward"})
"""Members that calls reach without naming them."""
_ASSIGNED = re.compile("(?:(?:Ann|Aug)?Assign )+")
"""How what is only given literals looks."""


@dataclass(frozen=True)
class Changes:
    """What differs between the base tree and the final one in one file.

    `definitions` are those whose code differs, None where the file is new as a whole. `names` are the module's
    names, `classes` its classes and `members` (class, member) that look different to those outside; of a new file
    none, for whoever uses it is new or changed as well. A member that only has plain values now is none of them:
    nothing is known of a call of one.
    """

    source: Source
    definitions: frozenset[str] | None
    names: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    members: frozenset[tuple[str, str]] = frozenset()

    @property
    def lines(self) -> list[int] | None:
        """The numbers of the lines that stand in changed definitions, None for all of them."""
        return self.source.once(f"changed lines {self.definitions}", self._lines)

    def _lines(self) -> list[int] | None:
        if self.definitions is None:
            return None
        known = self.definitions
        own = set(range(1, len(self.source.lines) + 1)) if MODULE in known else set()
        # Outer definitions come before those in them, so that the innermost one has the last word.
        functions: list[str] = []
        for name, node in definitions_in(self.source):
            if functions and name.startswith(functions[-1]):
                continue  # it changes with the function that it stands in
            lines = range(first_line(node), (node.end_lineno or node.lineno) + 1)
            own = own | set(lines) if name in known else own - set(lines)
            functions = [f"{name}."] if not isinstance(node, ast.ClassDef) else []
        return sorted(own)

    @property
    def accesses(self) -> tuple[Standing, ...]:
        """The calls and attribute accesses that start in changed definitions."""
        return self.source.once(f"changed accesses {self.definitions}", self._accesses)

    def _accesses(self) -> tuple[Standing, ...]:
        lines = self.lines
        if lines is None:
            return tuple(standing(self.source))
        known = frozenset(lines)
        return tuple(each for each in standing(self.source, lines) if each[0].lineno in known)


def changes_of(path: str, view: View) -> Changes | None:
    """Return what the run changed in a file, None where it is no Python or does not parse."""
    source = view.source(path) if path.endswith(".py") else None
    if source is None:
        return None
    before = view.base_source(path)
    since = f"changes since {None if before is None else hash(before.raw)}"
    try:
        return source.once(since, lambda: _changes(source, before))
    except Rejected:
        return None  # rule E501 has said so


def _changes(source: Source, before: Source | None) -> Changes:
    if source.tree and before is None:
        return Changes(source, None)
    try:
        changed = frozenset(_changed(source, before)) if before is not None else None
        old = _faces(before, changed) if before is not None and changed is not None else {}
    except Rejected:
        changed, old = None, {}
    face = _faces(source, changed)
    keys = {key for key in face.keys() | old.keys() if face.get(key) != old.get(key)}
    called = (key.partition(".") for key in keys if not _ASSIGNED.fullmatch(face.get(key, "")))
    pairs = {(cls, member) for cls, _, member in called if member}
    return Changes(
        source,
        changed,
        frozenset(key for key in keys & old.keys() if "." not in key),  # only changed code uses what is new
        frozenset(cls for cls, member in pairs if member in _OF_THE_CLASS),
        frozenset(pairs),
    )


def _changed(source: Source, before: Source) -> Iterator[str]:
    """Yield the definitions whose code differs, those that only one of the two has too; comments do not count."""
    texts, old = _texts(source), _texts(before)
    for name in texts.keys() | old.keys():
        if texts.get(name) != old.get(name) and definition_digest(source, name) != definition_digest(before, name):
            yield name


def _texts(source: Source) -> dict[str, str]:
    """Return the lines of each definition that is tracked on its own: a class's with its methods, the module's not."""
    lines: dict[str, list[str]] = {MODULE: list(source.lines)}
    functions: list[str] = []
    for name, node in definitions_in(source):
        if functions and name.startswith(functions[-1]):
            continue  # it changes with the function that it stands in
        start, end = first_line(node) - 1, node.end_lineno or node.lineno
        own = source.lines[start:end]
        lines[MODULE][start:end] = [""] * (end - start)
        lines.setdefault(name, []).extend(own)
        functions = [f"{name}."] if not isinstance(node, ast.ClassDef) else []
    return {name: "".join(several) for name, several in lines.items()}


def _faces(source: Source, changed: frozenset[str] | None) -> dict[str, str]:
    """Return what those outside may see of each name that may have changed and, as `Class.member`, of members."""
    found: dict[str, str] = {}
    tops = None if changed is None else {name.partition(".")[0] for name in changed}
    for name, several in module_names(source).bindings.items():
        if tops is not None and name not in tops and (MODULE not in tops or _is_tracked(several)):
            continue
        found[name] = "\n".join(_look(binding.statement, binding.value) for binding in several)
        for binding in several:
            if isinstance(binding.statement, ast.ClassDef) and binding.statement.name == name:
                _members(binding.statement, source, found)
    return found


def _is_tracked(several: Iterable[Binding]) -> bool:
    """Tell whether a name is that of functions and classes alone: they are tracked apart from the module."""
    return all(isinstance(b.statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) for b in several)


def _members(cls: ast.ClassDef, source: Source, found: dict[str, str]) -> None:
    for statement, guard in guarded(cls.body, nested=False):
        for binding in bindings_of(statement, guard, package_of(source.path)):
            key = f"{cls.name}.{binding.name}"
            found[key] = found.get(key, "") + _look(statement, binding.value)


def _look(statement: ast.stmt, value: ast.expr | None) -> str:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts: list[ast.AST] = [statement.args, *statement.decorator_list]
        case ast.ClassDef():
            fields = (part for part in statement.body if isinstance(part, ast.AnnAssign))
            parts = [*statement.bases, *statement.keywords, *statement.decorator_list, *fields]
        case _ if value is not None:
            parts = [] if isinstance(value, ast.Constant | ast.Dict | ast.List | ast.Tuple | ast.Set) else [value]
        case _:
            parts = [statement]
    return f"{type(statement).__name__} {' '.join(map(ast.dump, parts))}"
