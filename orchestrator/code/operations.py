"""The operations: for each, whether it is pending in a scope (with its changes) or present."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from orchestrator.code.layout import above_line, below_line, is_elif, starts_line
from orchestrator.code.patterns import Match, Matcher, find_matches, same_code, written
from orchestrator.code.proof import Replacements, proved
from orchestrator.code.sites import (
    Change,
    Pending,
    Present,
    Site,
    counted,
    first_line_of,
    gone,
    match_site,
    site_of,
    too_many,
)
from orchestrator.code.source import Source, Span, Splice, parse_python
from orchestrator.code.template import Filled, Template, fill
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchestrator.code.edits import Assign, Delete, Import, Insert, Replace
    from orchestrator.code.patterns import Captures
    from orchestrator.code.scopes import ScopeNode


def assign(edit: Assign, source: Source, scope: ScopeNode) -> Pending | Present:
    """Return the state of an assignment: exactly one that has the old value, or one that has the new."""
    name = written(edit.target.code)
    every = [
        (s, v) for s, v in _assignments(scope) if any(Matcher().same(edit.target.nodes[0], t) for t in _targets(s))
    ]
    old = edit.old.nodes[0] if edit.old else None
    matching = [(s, v, m) for s, v in every if (m := _matched(old, v)) is not None]
    wanted = edit.value.expression
    if not matching or (old is None and len(matching) == 1 and same_code(matching[0][1], wanted)):
        present = [s for s, v in every if _matched(wanted, v) is not None]
        if len(present) == 1 and (old is not None or len(every) == 1):
            return Present((site_of(source, present[0], {}),))
        raise Rejected(_assignment_gone(source, name, every, edit))
    if len(matching) > 1:
        raise Rejected(too_many(source, [s for s, _, _ in matching], 1, "say which by `from:`"))
    statement, value, captures = matching[0]
    filled = fill(edit.value, captures, source)
    line = source.line_of(source.span(value).start)
    text = filled.indented(source.indent_of(line), source.newline_at(line))
    change = Change(Splice(source.span(value), text), (value,), (_expression_of(filled),))
    return Pending((site_of(source, statement, captures),), (change,))


def _matched(pattern: ast.AST | None, node: ast.expr) -> Captures | None:
    matcher = Matcher()
    return matcher.captures if pattern is None or matcher.same(pattern, node) else None


def _assignments(scope: ScopeNode) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """Yield (statement, value) of every assignment in a scope's own statements, not in nested definitions."""
    pending: list[ast.stmt] = list(scope.body)
    while pending:
        statement = pending.pop(0)
        if isinstance(statement, ast.Assign) or (isinstance(statement, ast.AnnAssign) and statement.value):
            assert statement.value is not None  # noqa: S101 - what the condition says
            yield statement, statement.value
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        inner: list[ast.stmt] = []
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            for child in getattr(statement, field, []):
                inner.extend([child] if isinstance(child, ast.stmt) else child.body)
        pending[:0] = inner


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) else []


def _assignment_gone(source: Source, name: str, every: Sequence[tuple[ast.stmt, ast.expr]], edit: Assign) -> Diagnostic:
    if not every:
        return Diagnostic("E403", f"nothing is assigned to `{name}` here", help="Check `within:` and the name.")
    found = tuple(f"{source.place(s)}   {first_line_of(source, s)}" for s, _ in every)
    old = written(edit.old.code if edit.old else edit.value.code)
    message = f"`{name}` is not assigned `{old}` here"
    return Diagnostic("E403", message, notes=("found:", *found), help="Look whether the new base means the same.")


def replace(edit: Replace, source: Source, scope: ScopeNode) -> Pending | Present:
    """Return the state of a replacement: `count` sites of the pattern or, with none left, of the replacement."""
    matches = find_matches(edit.pattern, scope)
    if not matches:
        present = find_matches(edit.template.as_pattern(), scope)
        if len(present) == edit.count:
            return Present(tuple(match_site(source, m) for m in present))
        raise Rejected(gone(edit.pattern, source, scope))
    counted(matches, edit.count, source)
    changes = []
    for match in matches:
        filled = fill(edit.template, match.captures, source, match.span(source))
        changes.append(_replacement(edit, source, match, filled))
    return Pending(tuple(match_site(source, m) for m in matches), tuple(changes))


def _replacement(edit: Replace, source: Source, match: Match, filled: Filled) -> Change:
    span = match.span(source)
    line = source.line_of(span.start)
    indent, newline = source.indent_of(line), source.newline_at(line)
    if edit.pattern.is_expression and edit.template.is_expression:
        text = filled.indented(indent, newline)
        _not_in_fstring(source, match)
        brought = _expression_of(filled)
        needs = _needs_parentheses(match, source, text, brought)
        return Change(Splice(span, f"({text})" if needs else text), match.nodes, (brought,))
    nodes = match.nodes
    if edit.pattern.is_expression:
        if not (isinstance(match.statement, ast.Expr) and match.statement.value is match.first):
            help_ = "Write the whole statement as the pattern."
            raise Rejected(Diagnostic("E410", "a statement cannot stand in an expression's place", help=help_))
        nodes = (match.statement,)
    if is_elif(source, nodes[0]):
        return _elif(source, nodes, filled)
    if source.text[source.line_span(line).start : span.start].strip(" \t\f") and not _fits_in_line(filled):
        help_ = "Match the whole compound statement, so that the replacement has lines of its own."
        message = "the site shares its line with other code"
        raise Rejected(Diagnostic("E410", message, source.place_of(span.start), help=help_))
    return Change(Splice(span, filled.indented(indent, newline, source.indent_unit)), nodes, filled.nodes)


def _elif(source: Source, nodes: Sequence[ast.AST], filled: Filled) -> Change:
    """Return the change of an `elif` branch, which only another `if` can replace."""
    if [type(node) for node in filled.nodes] != [ast.If] or not filled.text.startswith("if"):
        help_ = "Match the whole `if` statement."
        raise Rejected(Diagnostic("E410", "the site is an `elif` branch", source.place(nodes[0]), help=help_))
    line = source.line_of(source.span(nodes[0]).start)
    text = filled.indented(source.indent_of(line), source.newline_at(line), source.indent_unit)
    return Change(Splice(source.span(nodes[0]), f"el{text}"), tuple(nodes), filled.nodes)


def _fits_in_line(filled: Filled) -> bool:
    return "\n" not in filled.text and not any(hasattr(node, "body") for node in filled.nodes)


def _expression_of(filled: Filled) -> ast.AST:
    only = filled.nodes[0]
    return only.value if isinstance(only, ast.Expr) else only


def _not_in_fstring(source: Source, match: Match) -> None:
    """Refuse a site inside an f-string: what may stand there, and where it stands, differs between Python versions."""
    for part in ast.walk(match.statement or match.first):
        if isinstance(part, ast.JoinedStr) and any(n is match.first for n in ast.walk(part) if n is not part):
            help_ = "Match the statement around it."
            raise Rejected(Diagnostic("E410", "the site is inside an f-string", source.place(part), help=help_))


def _needs_parentheses(match: Match, source: Source, text: str, brought: ast.AST) -> bool:
    """Tell whether the bare text would read as something else where it is put."""
    if match.statement is None:
        return True
    around = source.span(match.statement)
    span = source.span(match.first)
    start = around.start + 2 * is_elif(source, match.statement)
    probe = source.text[start : span.start] + text + source.text[span.end : around.end]
    indent = source.indent_of(source.line_of(around.start))
    try:
        parsed = parse_python(f"if 1:\n{indent}{probe}" if indent else probe)
    except Rejected:
        return True
    holder: list[ast.stmt] = parsed.body[0].body if indent and isinstance(parsed.body[0], ast.If) else parsed.body
    replaced: Replacements = {id(match.first): (1, (brought,))}
    before = ast.Module([match.statement], [])
    everything = range(1, (match.statement.end_lineno or 1) + 1)
    return not proved(before, ast.Module(holder, []), replaced, everything, added=0)


def delete(edit: Delete, source: Source, scope: ScopeNode) -> Pending:
    """Return a pending deletion. Code that is gone leaves no trace: only the chain can tell that it was deleted."""
    matches = find_matches(edit.pattern, scope)
    if not matches:
        raise Rejected(gone(edit.pattern, source, scope))
    counted(matches, edit.count, source)
    runs = [_statements_of(match, scope) for match in matches]
    left = {id(body): len(body) for body, _, _ in runs}
    changes = []
    for body, index, length in runs:
        left[id(body)] -= length
        changes.append(_deletion(source, body[index : index + length], emptied=not left[id(body)]))
    return Pending(tuple(match_site(source, m) for m in matches), tuple(changes))


def _statements_of(match: Match, scope: ScopeNode) -> tuple[list[ast.stmt], int, int]:
    """Return the matched statements: the body that holds them, where they start in it, and how many they are."""
    if match.body is not None:
        return match.body, match.index, len(match.nodes)
    statement = match.statement
    if not (isinstance(statement, ast.Expr) and statement.value is match.first):
        raise Rejected(Diagnostic("E410", "only statements can be deleted", help="Use `op: replace` here."))
    return (*_position(scope, statement), 1)


def _deletion(source: Source, nodes: Sequence[ast.stmt], *, emptied: bool) -> Change:
    """Return the removal of whole lines; what empties a body leaves `pass`."""
    span = Span(source.span(nodes[0]).start, source.span(nodes[-1]).end)
    first, last = source.line_of(span.start), source.line_of(max(span.start, span.end - 1))
    whole = Span(source.line_span(first).start, source.line_span(last).end)
    behind = source.text[span.end : whole.end].strip()
    if is_elif(source, nodes[0]):
        help_ = "Use `op: replace` with the whole `if` statement."
        raise Rejected(Diagnostic("E410", "the site is an `elif` branch", source.place(nodes[0]), help=help_))
    alone = starts_line(source, nodes[0]) and (not behind or behind.startswith("#"))
    if emptied and (alone or not behind or behind.startswith("#")):
        return Change(Splice(span, "pass"), tuple(nodes), (ast.Pass(),))
    if not alone:
        help_ = "Use `op: replace` with the line's other statements."
        raise Rejected(Diagnostic("E410", "the site shares its line with other code", help=help_))
    return Change(Splice(whole, ""), tuple(nodes), ())


def insert(edit: Insert, source: Source, scope: ScopeNode) -> Pending | Present:
    """Return the state of an insertion: present where the same statements stand at the place already."""
    if not scope.body:
        return _into_empty(source, edit.code)
    new = edit.code.nodes
    body, index = _insertion_point(edit, source, scope)
    behind = edit.where in {"after", "start"}
    there = tuple(body[index : index + len(new)] if behind else body[max(0, index - len(new)) : index])
    if same_code(there, tuple(new)):
        return Present((site_of(source, there[0], {}),))
    _not_bound_already(new, body, source)
    below = edit.where == "after" or index == len(body) or (edit.where == "start" and index > 0)
    return _beside(source, body, index, edit.code, below=below)


def _beside(source: Source, body: Sequence[ast.stmt], index: int, code: Template, *, below: bool) -> Pending:
    """Return the insertion of `code` before `body[index]`: below what precedes it or above what follows."""
    filled = fill(code, {}, source)
    neighbour = body[index - 1] if below else body[index]
    splice = (
        below_line(source, neighbour, filled)
        if below
        else above_line(source, neighbour, filled, body[index - 1] if index else None)
    )
    site = site_of(source, body[min(index, len(body) - 1)], {})
    return Pending((site,), (Change(splice, (), filled.nodes, neighbour, below),))


def _into_empty(source: Source, code: Template) -> Pending:
    """Return the insertion into a module without statements: behind all comments."""
    filled = fill(code, {}, source)
    end = len(source.text)
    newline = source.newline_at(len(source.lines))
    ahead = newline if source.text and not source.text.endswith(("\n", "\r")) else ""
    splice = Splice(Span(end, end), f"{ahead}{filled.indented('', newline)}{newline}")
    place = Place(source.path, len(source.lines) or 1, 1)
    return Pending((Site(place, "", ""),), (Change(splice, (), filled.nodes),))


def _insertion_point(edit: Insert, source: Source, scope: ScopeNode) -> tuple[list[ast.stmt], int]:
    if edit.anchor is None:
        return scope.body, len(scope.body) if edit.where == "end" else _after_head(scope)
    matches = find_matches(edit.anchor, scope)
    if not matches:
        raise Rejected(gone(edit.anchor, source, scope))
    counted(matches, 1, source)
    match = matches[0]
    if match.body is None:
        if not (isinstance(match.statement, ast.Expr) and match.statement.value is match.first):
            help_ = "Write the whole statement as the anchor."
            raise Rejected(Diagnostic("E410", "the anchor is an expression, not a statement", help=help_))
        body, index = _position(scope, match.statement)
        return body, index + (edit.where == "after")
    return match.body, match.index + (len(match.nodes) if edit.where == "after" else 0)


def _position(scope: ScopeNode, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
    for node in ast.walk(scope):
        for field in ("body", "orelse", "finalbody"):
            value = getattr(node, field, None)
            if isinstance(value, list) and any(item is statement for item in value):
                return value, next(i for i, item in enumerate(value) if item is statement)
    raise AssertionError("every statement stands in a body")


def _after_head(scope: ScopeNode) -> int:
    """Return the index behind a docstring and, in a module, `from __future__` imports."""
    index = int(ast.get_docstring(scope, clean=False) is not None)
    if isinstance(scope, ast.Module):
        while index < len(scope.body) and _is_future(scope.body[index]):
            index += 1
    return index


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _not_bound_already(new: Sequence[ast.stmt], body: Sequence[ast.stmt], source: Source) -> None:
    """Refuse to write beside code of the same shape: it may be this edit's own work with another value."""
    for wanted in new:
        for statement in body:
            if _same_definition(wanted, statement):
                message = f"`{_defined(statement)}` is defined here already, with other code than the edit's"
                help_ = "Change it by `op: assign` or `op: replace`, or choose another name."
                raise Rejected(Diagnostic("E412", message, source.place(statement), help=help_))


def _same_definition(wanted: ast.stmt, statement: ast.stmt) -> bool:
    """Tell whether two statements define one name: by `def` or `class`, or by values alike but for constants."""
    name = _defined(wanted)
    if not name or name != _defined(statement):
        return False
    if isinstance(wanted, ast.Assign | ast.AnnAssign) and isinstance(statement, ast.Assign | ast.AnnAssign):
        return _shape(wanted.value) == _shape(statement.value)
    return type(wanted) is type(statement)


def _defined(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _shape(value: ast.expr | None) -> str:
    return re.sub(r"Constant\([^()]*\)", "Constant", ast.dump(value)) if value else ""


def import_(edit: Import, source: Source, scope: ScopeNode) -> Pending | Present:
    """Return the state of an import: present where the same statement stands in the body already."""
    new = edit.code.nodes
    for i in range(len(scope.body) - len(new) + 1):
        if same_code(tuple(scope.body[i : i + len(new)]), tuple(new)):
            return Present((site_of(source, scope.body[i], {}),))
    if not scope.body:
        return _into_empty(source, edit.code)
    index = _after_head(scope)
    while index < len(scope.body) and isinstance(scope.body[index], ast.Import | ast.ImportFrom):
        if _is_future(new[0]):
            break  # such an import may stand at the head only
        index += 1
    return _beside(source, scope.body, index, edit.code, below=index > 0)
