"""What a changed file should say, and what it says: the judgement of an edit by its meaning.

An edit of one base means, on another: change the part that says the same, in the definition of the same qualified
name. Where that definition is there once and holds as many such parts as before, there is one right result (for a
deletion that empties a body, one with `pass`). Else there is none, and whatever is written is wrong.
"""

from __future__ import annotations

import ast
import functools
import warnings
from typing import TYPE_CHECKING

from benchmarks.drifting.parts import DEFINITIONS, PARTS, scopes

if TYPE_CHECKING:
    from benchmarks.drifting.parts import Part, Scope
    from benchmarks.drifting.sample import Change

Said = tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def said(raw: bytes) -> Said | None:
    """Return what a file says, statement for statement, without layout and comments; None where it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(raw)
            compile(raw, "file", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return _said(tree)


def _said(tree: ast.Module) -> Said:
    return tuple(map(ast.dump, tree.body))


@functools.lru_cache(maxsize=4096)
def expected(change: Change, raw: bytes) -> frozenset[Said]:
    """Return what the file may say after the change; nothing where the file lacks what the change is of."""
    tree = ast.parse(raw)
    if change.kind == "import":
        return frozenset(_with_import(tree, change.new))
    named: list[Scope] = [scope for name, scope in scopes(tree) if name == change.definition]
    if len(named) != 1:
        return frozenset()
    alike = [part for part in PARTS[change.kind](named[0]) if part.says == change.says]
    if len(alike) != change.count:
        return frozenset()
    alike.sort(key=lambda part: (part.node.lineno, part.node.col_offset))  # type: ignore[attr-defined]  # all have them
    _change(change, alike[change.number])
    return frozenset({_said(tree)})


def _change(change: Change, part: Part) -> None:
    """Change the part in its tree."""
    code = ast.parse(change.new).body
    index = part.index
    match change.kind:
        case "argument":
            assert isinstance(part.node, ast.keyword)
            part.node.value = _expression(change.new)
        case "assignment":
            part.statement.value = _expression(change.new)  # type: ignore[attr-defined]  # both kinds have one
        case "condition":
            assert isinstance(part.statement, ast.If | ast.While)
            part.statement.test = _expression(change.new)
        case "insertion":
            at = index if change.before else index + 1
            part.body[at:at] = code
        case "deletion":
            part.body[index : index + 1] = [] if len(part.body) > 1 else [ast.Pass()]
        case _:
            part.body[index : index + 1] = code


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _with_import(tree: ast.Module, text: str) -> list[Said]:
    """Return the module with an import at every place where all of its functions and classes see it."""
    plain, added = _said(tree), _said(ast.parse(text))
    start = 1 if ast.get_docstring(tree) is not None else 0
    end = next((i for i, s in enumerate(tree.body) if isinstance(s, DEFINITIONS)), len(tree.body))
    return [(*plain[:i], *added, *plain[i:]) for i in range(start, end + 1)]
