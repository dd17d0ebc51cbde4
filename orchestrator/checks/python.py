"""Checks on what a Python file says: it parses, has a symbol, a signature, a value, an import that resolves."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.house.world import InTree, Missing, Outside, World
from orchestrator.checks.reading import compiled, content_of, expression, owner, scope_of, scopes_of, source_of, times
from orchestrator.checks.verdict import Verdict, fails, holds
from orchestrator.code.imports import Import, imports_in
from orchestrator.code.patterns import Matcher, find_matches
from orchestrator.code.scopes import FunctionNode, named
from orchestrator.code.signature import Parameter, differences, parameters_of, shown
from orchestrator.code.source import Source, parse_python
from orchestrator.code.symbols import all_bound, bound_by, has_walrus, inner_statements, own_expressions
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean
from orchestrator.spec.model import Code, Signature, TargetPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.view import View
    from orchestrator.code.scopes import ScopeNode

Within = Annotated[str | None, Field(min_length=1, description="qualified name; the whole module if absent")]
_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


class Parses(Check):
    """The file parses for the target's Python."""

    check: Literal["parses"]
    file: TargetPath

    def look(self, view: View) -> Verdict:
        """Return whether the grammar of the target's Python takes the file, as far as `ast` knows it."""
        version = view.facts.python
        source = Source(self.file, content_of(view, self.file))
        try:
            parse_python(source.text, self.file, version)
        except Rejected as error:
            found = error.diagnostics[0]
            return fails(f"{found.place or self.file}: {found.message}", found.place)
        return holds(f"{self.file} parses for Python {version[0]}.{version[1]}", Place(self.file))


class SymbolExists(Check):
    """The file has a definition, an assigned or imported name, or a class attribute of this qualified name."""

    check: Literal["symbol_exists"]
    file: TargetPath
    name: Annotated[str, Field(min_length=1, description="qualified name, `Class.method` or `CONSTANT`")]

    def look(self, view: View) -> Verdict:
        """Return whether the symbol is there, and where."""
        source = source_of(view, self.file)
        found = symbol(source, self.name)
        if found is None:
            known = sorted(all_bound(source.tree.body)) if "." not in self.name else []
            near = did_you_mean(self.name, known)
            hint = f"; {near}" if near.startswith("did you") else ""
            return fails(f"{self.file} has no symbol `{self.name}`{hint}", Place(self.file))
        place = source.place(found)
        return holds(f"{place} binds `{self.name}`", place)


class SymbolAbsent(Check):
    """The file has no symbol of this qualified name."""

    check: Literal["symbol_absent"]
    file: TargetPath
    name: Annotated[str, Field(min_length=1, description="qualified name, `Class.method` or `CONSTANT`")]

    def look(self, view: View) -> Verdict:
        """Return whether nothing in the file binds the symbol."""
        source = source_of(view, self.file)
        found = symbol(source, self.name)
        if found is None:
            return holds(f"{self.file} has no symbol `{self.name}`", Place(self.file))
        place = source.place(found)
        return fails(f"{place} binds `{self.name}`", place)


def symbol(source: Source, name: str) -> ast.stmt | None:
    """Return the first statement that binds a qualified name: at module level, or as a class attribute."""
    scope, _, last = name.rpartition(".")
    for node in named(source, name):
        if isinstance(node, ast.stmt):
            return node
    for around in named(source, scope or None):
        if isinstance(around, FunctionNode):
            continue
        for statement in own_statements(around):
            if last in bound_by(statement):
                return statement
    return None


def own_statements(scope: ScopeNode) -> Iterator[ast.stmt]:
    """Yield a scope's statements in source order, without those of nested functions and classes."""
    pending = list(reversed(scope.body))
    while pending:
        statement = pending.pop()
        yield statement
        pending.extend(reversed(list(inner_statements(statement))))


class SignatureEquals(Check):
    """A function takes exactly these parameters: names, kinds, order, defaults; annotations where they are given."""

    check: Literal["signature_equals"]
    file: TargetPath
    name: Annotated[str, Field(min_length=1, description="qualified name of the function")]
    signature: Annotated[Signature, Field(description="as Python writes it: `(a, b=1, *, c)`")]

    def look(self, view: View) -> Verdict:
        """Return whether the parameters are the wanted ones, and each difference if not."""
        wanted = self._wanted(view)
        source = source_of(view, self.file)
        node = scope_of(source, self.name)
        if not isinstance(node, FunctionNode):
            return fails(f"{owner(self.file, self.name)} is not a function", source.place(node))
        found = parameters_of(node.args)
        place = source.place(node)
        different = differences(wanted, found)
        if different:
            return fails(f"{place}: `{self.name}{shown(found)}` differs: {'; '.join(different)}", place)
        return holds(f"{place}: `{self.name}` takes {shown(found)}", place)

    def _wanted(self, view: View) -> tuple[Parameter, ...]:
        pattern = compiled(f"def f{self.signature}: pass", view.facts.values, "signature")
        node = pattern.nodes[0]
        if len(pattern.nodes) != 1 or not isinstance(node, FunctionNode) or pattern.holes:
            message = f"`signature: {self.signature}` is not a list of parameters in parentheses"
            raise Rejected(Diagnostic("E206", message, help="Write `(a, b=1, *, c)`, without holes."))
        return parameters_of(node.args)


class AssignmentEquals(Check):
    """A name is assigned in the scope's own statements, and every assignment gives it this value."""

    check: Literal["assignment_equals"]
    file: TargetPath
    within: Within = None
    name: Annotated[str, Field(min_length=1, description="the target: `NUM_WARPS`, `self.limit`")]
    value: Annotated[Code, Field(description="the code of the value; holes allowed")]

    def look(self, view: View) -> Verdict:
        """Return whether each assignment to the name has the value; what binds it otherwise fails."""
        wanted = expression(self.value, view.facts.values, "value")
        source = source_of(view, self.file)
        where = owner(self.file, self.within)
        scopes, walrus = scopes_of(source, self.within), has_walrus(source)
        found = [pair for scope in scopes for pair in assignments(scope, self.name, walrus=walrus)]
        for statement, value in found:
            place = source.place(statement)
            if value is None:
                return fails(f"{place}: `{source.segment(statement).splitlines()[0]}` binds `{self.name}`", place)
            if not Matcher().same(wanted, value):
                return fails(f"{place}: `{self.name}` is `{ast.unparse(value)}`, not `{self.value}`", place)
        if not found:
            return fails(f"nothing is assigned to `{self.name}` in {where}", Place(self.file))
        place = source.place(found[0][0])
        times = f", as in all {len(found)} assignments" if len(found) > 1 else ""
        return holds(f"{place}: `{self.name}` is `{ast.unparse(found[0][1] or found[0][0])}`{times}", place)


def assignments(scope: ScopeNode, name: str, *, walrus: bool = True) -> Iterator[tuple[ast.stmt, ast.expr | None]]:
    """Yield every statement of a scope that binds `name`, with the value it assigns, None if it is no plain one.

    `walrus` is as for `bound_by`.
    """
    for statement in own_statements(scope):
        match statement:
            case ast.Assign(targets=targets, value=value):
                pairs = [pair for target in targets for pair in _paired(target, value)]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = [(target, value)]
            case ast.AugAssign(target=target):
                pairs = [(target, None)]
            case _:
                pairs = []
        direct = [value for target, value in pairs if _spells(target, name)]
        if direct:
            yield from ((statement, value) for value in direct)
        elif name in bound_by(statement, walrus=walrus):
            named = _walrus(statement, name)
            yield statement, named


def _spells(target: ast.expr, name: str) -> bool:
    """Tell whether a target is spelt `name`; most are plain names."""
    return target.id == name if isinstance(target, ast.Name) else ast.unparse(target) == name


def _paired(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr | None]]:
    if not isinstance(target, ast.Tuple | ast.List):
        return [(target, value)]
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    plain = not any(isinstance(part, ast.Starred) for part in [*target.elts, *parts])
    if len(parts) == len(target.elts) and plain:
        return [pair for t, v in zip(target.elts, parts, strict=True) for pair in _paired(t, v)]
    return [(part, None) for part in target.elts]


def _walrus(statement: ast.stmt, name: str) -> ast.expr | None:
    for part in own_expressions(statement):
        for node in ast.walk(part):
            if isinstance(node, ast.NamedExpr) and node.target.id == name:
                return node.value
    return None


class MatchCount(Check):
    """A pattern matches exactly so many times in the scope, all that is nested in it included."""

    check: Literal["match_count"]
    file: TargetPath
    within: Within = None
    pattern: Annotated[Code, Field(description="one expression, or statements in a row, with holes")]
    equals: Annotated[int, Field(ge=0, description="how many matches there must be")]

    def look(self, view: View) -> Verdict:
        """Return whether the number of matches is the wanted one, with their places."""
        pattern = compiled(self.pattern, view.facts.values, "pattern")
        source = source_of(view, self.file)
        found = [m for scope in scopes_of(source, self.within) for m in find_matches(pattern, scope)]
        places = [source.place(match.first) for match in found]
        lines = ", ".join(str(place.line) for place in places)
        since = f" (line {lines})" if lines else ""
        evidence = f"`{self.pattern.strip()}` matches {times(len(found))} in {owner(self.file, self.within)}{since}"
        place = places[0] if places else Place(self.file)
        if len(found) == self.equals:
            return holds(evidence, place)
        return fails(f"{evidence}, not {self.equals}", place)


class ImportResolves(Check):
    """Every import of the file, or the one named, finds its module: in the tree, the inventory or the library.

    Without `module`, an import whose failure is caught, or that is for type checkers only, is passed over.
    """

    check: Literal["import_resolves"]
    file: TargetPath
    module: Annotated[str | None, Field(min_length=1, description="absolute module name; every import if absent")] = (
        None
    )

    def look(self, view: View) -> Verdict:
        """Return whether the imports resolve; the first that does not is named with its place."""
        source = source_of(view, self.file)
        world = World(view)
        every = imports_in(source)
        wanted = [i for i in every if self._wants(i)]
        if self.module and not wanted:
            return fails(f"{self.file} does not import `{self.module}`", Place(self.file))
        for found in wanted:
            fault = unresolved(world, found)
            if fault:
                place = source.place(found.node)
                return fails(f"{place}: `{ast.unparse(found.node)}`: {fault}", place)
        if self.module:
            place = source.place(wanted[0].node)
            return holds(f"{place}: `{ast.unparse(wanted[0].node)}` resolves", place)
        return holds(f"all {len(wanted)} unguarded imports of {self.file} resolve", Place(self.file))

    def _wants(self, found: Import) -> bool:
        if self.module is None:
            return not is_guarded(found)
        return self.module in (found.module, f"{found.module}.{found.name}")


def is_guarded(found: Import) -> bool:
    """Tell whether an import may fail: something around it catches that, or it is for type checkers only."""
    checkers = any(t.wanted and ast.unparse(t.expression).endswith("TYPE_CHECKING") for t in found.guard.tests)
    return checkers or bool(found.guard.caught & _IMPORT_ERRORS)


def unresolved(world: World, found: Import) -> str:
    """Return why an import finds nothing, an empty string where it does."""
    if found.module is None:
        return "the dots lead out of the package root"
    match world.find(found.module):
        case Missing(part=part, known=known):
            near = did_you_mean(part, known)
            return f"there is no module `{found.module}`" + (f"; {near}" if near.startswith("did you") else "")
        case InTree() as module if found.name not in (None, "*") and not world.has(module, str(found.name)):
            return f"module `{found.module}` has no `{found.name}`"
        case Outside(names=tuple() as names) if found.name not in (None, "*") and found.name not in names:
            near = did_you_mean(str(found.name), names)
            hint = f"; {near}" if near.startswith("did you") else ""
            return f"module `{found.module}` has no `{found.name}`{hint}"
        case _:
            return ""
