"""Code that is where it was, in other words: what stands elsewhere in the old words is a copy, not its new place."""

from __future__ import annotations

import ast
import difflib
import re
from typing import TYPE_CHECKING

from orchestrator.code.edits import Assign, Delete, Insert, Replace
from orchestrator.code.patterns import Matcher, Pattern, find_matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.code.edits import Edit
    from orchestrator.code.scopes import ScopeNode
    from orchestrator.code.source import Source

LIKE = 0.75
"""Share of words from which on a new statement is taken for the old one, changed."""
_WORD = re.compile(r"\w+|[^\w\s]")
Scope = tuple["ScopeNode", "Source"]


def stays(edit: Edit, old: Scope, new: Scope) -> bool:
    """Tell whether a definition still has what an edit of its old form looks for, as a statement that it had not."""
    was = next(_sites(edit, old[0]), None)
    if was is None:
        return False
    known = {ast.dump(statement) for statement in _statements(old[0])}
    if isinstance(edit, Assign):
        given = [s for s in _sites(edit, new[0]) if ast.dump(s) not in known]
        return any(not _mentions(edit, statement) for statement in given)
    fresh = [s for s in _statements(new[0]) if type(s) is type(was) and ast.dump(s) not in known]
    words = difflib.SequenceMatcher(None, autojunk=False)
    words.set_seq2(_WORD.findall(old[1].segment(was)))
    for statement in fresh:
        words.set_seq1(_WORD.findall(new[1].segment(statement)))
        if all(ratio() >= LIKE for ratio in (words.real_quick_ratio, words.quick_ratio, words.ratio)):
            return True
    return False


def _statements(scope: ast.AST, *, nested: bool = True) -> Iterator[ast.stmt]:
    """Yield the statements of a scope; those of definitions inside it only where `nested`."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.stmt):
            yield node
        if nested or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _statements(node, nested=nested)


def _sites(edit: Edit, scope: ScopeNode) -> Iterator[ast.stmt]:
    """Yield the statements in which an edit finds what it looks for."""
    match edit:
        case Assign():
            yield from (statement for statement in _statements(scope, nested=False) if _assigns(edit, statement))
        case Replace(pattern=pattern) | Delete(pattern=pattern) | Insert(anchor=Pattern() as pattern):
            for found in find_matches(pattern, scope):
                statement = found.statement if pattern.is_expression else found.first
                if isinstance(statement, ast.stmt):
                    yield statement


def _assigns(edit: Assign, statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(Matcher().same(edit.target.nodes[0], target) for target in targets)


def _mentions(edit: Assign, statement: ast.stmt) -> bool:
    """Tell whether the new value is taken from something of the same name: then the old value has moved there."""
    name = ast.unparse(edit.target.nodes[0]).rpartition(".")[2]
    value = getattr(statement, "value", None) or ast.Constant(None)
    return any(name in {getattr(node, "id", None), getattr(node, "attr", None)} for node in ast.walk(value))
