"""Which names a file reads from its module's top level, and under which conditions each read happens.

Python's own scoping decides: a name that a function, class, lambda or comprehension around the read binds is
not looked up in the module.
"""

from __future__ import annotations

import ast
import symtable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orchestrator.checks.house.lookups import module_lookups
from orchestrator.checks.house.parses import fault_of_compiling
from orchestrator.checks.house.scoping import is_module_level
from orchestrator.code.imports import Guard, statements_in
from orchestrator.code.nodes import parts_of
from orchestrator.code.spotting import lines_with, spans
from orchestrator.code.symbols import own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.code.source import Source
    from orchestrator.core.diagnostics import Place

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANNOTATIONS_ARE_LAZY = (3, 14)  # PEP 649


@dataclass(frozen=True)
class Read:
    """A name that is looked up in the module, the statement that it stands in, and what stands around it."""

    node: ast.Name
    statement: ast.stmt
    guard: Guard


def looked_up(source: Source) -> frozenset[str]:
    """Return every name that some scope of a file looks up in the module: quick, and rather too many than too few."""
    return source.derived(_looked_up)


def _looked_up(source: Source) -> frozenset[str]:
    if fault_of_compiling(source) is not None and not _has_scopes(source):
        return frozenset()  # rule E501 has the say on such a file
    return module_lookups(source.tree, annotations=not _annotations_are_text(source.tree))


def _has_scopes(source: Source) -> bool:
    """Tell whether the scopes of a file that does not compile can be told at least."""
    try:
        symtable.symtable(source.text, source.path, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def reads(source: Source, names: frozenset[str], python: tuple[int, int]) -> list[Read]:
    """Return where `names` are looked up in the module, in the order of the file.

    Annotations count where the target's Python evaluates them.
    """
    walk = _Walk(names, lazy=python >= _ANNOTATIONS_ARE_LAZY or _annotations_are_text(source.tree))
    lines = lines_with(source, names)
    statements = (pair for pair in statements_in(source) if spans(pair[0], lines))
    found = [read for statement, guard in statements for read in walk.statement(statement, guard)]
    return sorted(found, key=lambda read: (read.node.lineno, read.node.col_offset))


def place(source: Source, read: Read) -> Place:
    """Return where a read stands; before Python 3.12 `ast` misplaces what stands in some f-strings."""
    exact = source.place(read.node)
    line = source.lines[exact.line - 1] if exact.line <= len(source.lines) else ""
    name = read.node.id
    if line[exact.column - 1 :].startswith(name):
        return replace(exact, length=len(name))
    return source.place(read.statement)


def _annotations_are_text(tree: ast.Module) -> bool:
    return any(
        isinstance(statement, ast.ImportFrom)
        and statement.module == "__future__"
        and any(alias.name == "annotations" for alias in statement.names)
        for statement in tree.body
    )


@dataclass(frozen=True)
class _Walk:
    names: frozenset[str]
    lazy: bool

    def statement(self, statement: ast.stmt, guard: Guard) -> Iterator[Read]:
        """Yield the reads of a statement, without those of the statements in it."""
        for part, inside in self._parts(statement, guard):
            yield from self._expression(part, statement, inside)

    def _parts(self, statement: ast.stmt, guard: Guard) -> Iterator[tuple[ast.AST, Guard]]:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from self._of_definition(statement, guard)
            case ast.AnnAssign():
                yield statement.target, guard
                if statement.value:
                    yield statement.value, guard
                if not self.lazy and not (guard.scopes and isinstance(guard.scopes[-1], _FUNCTIONS)):
                    yield statement.annotation, guard
            case _:
                yield from ((part, guard) for part in own_expressions(statement))

    def _of_definition(
        self, definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, guard: Guard
    ) -> Iterator[tuple[ast.AST, Guard]]:
        """Yield what is evaluated when a definition is made; its type parameters are known in part of that."""
        generic = guard.inside(definition) if getattr(definition, "type_params", None) else guard
        yield from ((part, guard) for part in definition.decorator_list)
        if isinstance(definition, ast.ClassDef):
            yield from ((base, generic) for base in definition.bases)
            yield from ((keyword.value, generic) for keyword in definition.keywords)
            return
        defaults = (*definition.args.defaults, *definition.args.kw_defaults)
        yield from ((default, guard) for default in defaults if default)
        if not self.lazy:
            yield from ((annotation, generic) for annotation in _annotations(definition))

    def _expression(self, root: ast.AST, statement: ast.stmt, outer: Guard) -> Iterator[Read]:
        pending: list[tuple[ast.AST, Guard]] = [(root, outer)]
        while pending:
            node, guard = pending.pop()
            if isinstance(node, ast.Name):
                if (
                    not isinstance(node.ctx, ast.Store)
                    and node.id in self.names
                    and is_module_level(node.id, guard.scopes)
                ):
                    yield Read(node, statement, guard)
            else:
                pending.extend(inner_parts(node, guard))


def inner_parts(node: ast.AST, guard: Guard) -> Iterator[tuple[ast.AST, Guard]]:
    """Yield the parts of an expression, each with the conditions and scopes that it adds."""
    match node:
        case ast.Lambda(args=args, body=body):
            yield from ((default, guard) for default in (*args.defaults, *args.kw_defaults) if default)
            yield body, guard.inside(node)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from _comprehension(node, guard)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield test, guard
            yield body, guard.under(test, wanted=True)
            yield orelse, guard.under(test, wanted=False)
        case ast.BoolOp(op=op, values=values):
            for value in values:
                yield value, guard
                guard = guard.under(value, wanted=isinstance(op, ast.And))
        case _:
            for child in parts_of(node):
                yield child, guard


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, guard: Guard
) -> Iterator[tuple[ast.AST, Guard]]:
    """Yield the parts of a comprehension: only the first iterable is evaluated outside of it."""
    inside = replace(guard, scopes=(*guard.scopes, node))
    for number, generator in enumerate(node.generators):
        yield generator.iter, inside if number else guard
        yield generator.target, inside
        for test in generator.ifs:
            yield test, inside
            inside = inside.under(test, wanted=True)
    for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
        yield part, inside


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (arg.annotation for arg in every if arg and arg.annotation)
    if function.returns:
        yield function.returns
