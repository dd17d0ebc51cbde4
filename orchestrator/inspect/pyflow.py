"""How a Python script treats a failure: what raises, what only talks, what hands the answer on."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from orchestrator.inspect.pyvalues import called_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_DYING = re.compile(
    r"(die|fail|fatal|abort|panic|bail|error_?(exit|out)|exit_?(with_?)?(error|fail\w*))(_\w+)?", re.IGNORECASE
)


def walk_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a block in order, without those inside nested functions and classes."""
    stack = list(reversed(list(body)))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, FunctionNode | ast.Lambda):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


class Flow:
    """Questions about the branches of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.functions: dict[str, FunctionNode] = {n.name: n for n in ast.walk(tree) if isinstance(n, FunctionNode)}
        self.bare_calls = {
            called_name(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)
        }

    def raises(self, body: Iterable[ast.AST], depth: int = 0) -> bool:
        """Tell whether a block can end the program with a failure, somewhere in it."""
        for node in walk_scope(body):
            match node:
                case ast.Raise(exc=exc):
                    if not _ends_well(exc):
                        return True
                case ast.Assert():
                    return True
                case ast.Call():
                    name = called_name(node)
                    last = name.rpartition(".")[2]
                    if name in {"sys.exit", "exit", "quit", "os._exit"}:
                        if node.args and not _is_zero(node.args[0]):
                            return True
                    elif last in self.functions and depth < 6:  # noqa: PLR2004 - deep enough for anyone
                        if self._always(self.functions[last], depth + 1):
                            return True
                    elif _DYING.fullmatch(last) or last in {"check_call", "check_returncode"}:
                        return True
        return False

    def _always(self, function: FunctionNode, depth: int) -> bool:
        """Tell whether a function is there to fail: a statement at its top does."""
        simple = [s for s in function.body if not isinstance(s, ast.If | ast.For | ast.While | ast.Try | FunctionNode)]
        return self.raises(simple, depth)

    def hands_on(self, body: Iterable[ast.AST], function: str) -> bool:
        """Tell whether a block tells its caller, by a return value or a variable that someone asks about."""
        for node in walk_scope(body):
            match node:
                case ast.Return(value=ast.expr() as value):
                    if not _is_none(value) and function and function not in self.bare_calls:
                        return True
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
                    if self.decides(name):
                        return True
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "add" | "extend")):
                    if self.decides(name):
                        return True
        return False

    def decides(self, name: str) -> bool:
        """Tell whether a variable decides about a failure anywhere in the module."""
        for node in ast.walk(self.tree):
            match node:
                case ast.If(test=test, body=body, orelse=orelse) if mentions(test, {name}):
                    if self.raises([*body, *orelse]):
                        return True
                case ast.Assert(test=test) if mentions(test, {name}):
                    return True
                case ast.Call() if called_name(node) in {"sys.exit", "exit", "SystemExit"}:
                    if any(mentions(a, {name}) for a in node.args):
                        return True
                case ast.Return(value=ast.expr() as value) if mentions(value, {name}):
                    return True
        return False


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in {0, None}


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is True)


def _ends_well(exc: ast.expr | None) -> bool:
    match exc:
        case ast.Call(func=ast.Name(id="SystemExit"), args=[]) | ast.Name(id="SystemExit"):
            return True
        case ast.Call(func=ast.Name(id="SystemExit"), args=[value]):
            return _is_zero(value)
        case _:
            return False


def mentions(node: ast.AST | None, names: set[str]) -> bool:
    """Tell whether one of the names is used in a node."""
    return node is not None and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))
