"""Replacements in a file's text that go through when what they look for is not there."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.inspect.pyflow import Flow, FunctionNode, mentions, walk_scope
from orchestrator.inspect.pylines import (
    is_line_loop,
    is_put_together,
    is_swallowed,
    looked_for_in_lines,
    loop_is_checked,
)
from orchestrator.inspect.pyvalues import argument, called_name

if TYPE_CHECKING:
    from collections.abc import Iterator

READS = frozenset({"read", "read_text", "read_bytes", "readlines", "getsource"})
_KEEPS = frozenset(
    {"replace", "strip", "rstrip", "lstrip", "expandtabs", "decode", "join", "sub", "subn", "splitlines", "split"}
)
_CUTS = frozenset({"partition", "rpartition"})
_COUNTS = _CUTS | {"count", "find", "index", "rfind", "rindex", "search", "match", "findall", "finditer", "subn"}
_COUNTS |= {"startswith"}


@dataclass(frozen=True)
class Unguarded:
    """A replacement that nobody checks: the call, how it is spelled, and whether someone looks and only talks."""

    node: ast.expr | ast.stmt
    how: str
    only_talks: bool = False


class Guards:
    """The replacements of one module, judged by the tests around them."""

    def __init__(self, tree: ast.Module, flow: Flow) -> None:
        self.tree, self.flow = tree, flow
        self.compiled = {
            t.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and called_name(n.value).endswith("compile")
            for t in n.targets
            if isinstance(t, ast.Name)
        }
        self.text_attributes: set[str] = set()
        self.text_parameters = self._text_parameters()

    def found(self) -> list[Unguarded]:
        """Return all of them, in the order of the file."""
        scopes: list[tuple[str, list[ast.stmt], set[str]]] = [("", self.tree.body, set())]
        scopes += [
            (node.name, node.body, self.text_parameters.get(node.name, set()))
            for node in ast.walk(self.tree)
            if isinstance(node, FunctionNode)
        ]
        faults = [fault for name, body, given in scopes for fault in self._scope(name, body, given)]
        return sorted(faults, key=lambda f: (f.node.lineno, f.node.col_offset))

    def _text_parameters(self) -> dict[str, set[str]]:
        """Return the parameters that are given a file's text, by function."""
        found: dict[str, set[str]] = {}
        for _ in range(3):  # a text is handed on once or twice
            for scope in [self.tree.body, *(f.body for f in self.flow.functions.values())]:
                owner = next((n for n, f in self.flow.functions.items() if f.body is scope), "")
                texts = self._texts(scope, found.get(owner, set()))
                for node in walk_scope(scope):
                    function = self.flow.functions.get(called_name(node)) if isinstance(node, ast.Call) else None
                    if function is None or not isinstance(node, ast.Call):
                        continue
                    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
                    pairs = [*zip(names, node.args, strict=False), *((k.arg or "", k.value) for k in node.keywords)]
                    found.setdefault(function.name, set()).update(n for n, v in pairs if self._is_text(v, texts))
        return found

    def _texts(self, body: list[ast.stmt], given: set[str]) -> set[str]:
        """Return the names that hold a file's text, or what is made of one, or what is written to one."""
        texts = set(given)
        for _ in range(4):
            before = len(texts)
            for node in walk_scope(body):
                match node:
                    case ast.Assign(targets=targets, value=value) if self._is_text(value, texts):
                        for target in targets:
                            first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
                            texts |= {first.id} if isinstance(first, ast.Name) else set()
                            self.text_attributes |= {first.attr} if isinstance(first, ast.Attribute) else set()
                    case ast.NamedExpr(target=ast.Name(id=name), value=value) if self._is_text(value, texts):
                        texts.add(name)
                    case ast.Call(
                        func=ast.Attribute(attr="write" | "write_text" | "write_bytes"), args=[ast.Name(id=name), *_]
                    ):
                        texts.add(name)
            if len(texts) == before:
                break
        return texts

    def _is_text(self, node: ast.AST | None, texts: set[str]) -> bool:
        match node:
            case ast.Name(id=name):
                return name in texts
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                return attr in self.text_attributes
            case ast.NamedExpr(value=value):
                return self._is_text(value, texts)
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args):
                if attr in READS:
                    return True
                return attr in _KEEPS and (self._is_text(value, texts) or any(self._is_text(a, texts) for a in args))
            case ast.Call(func=ast.Name(id=name), args=args) if name in self.flow.functions:
                return any(self._is_text(a, texts) for a in args)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._is_text(left, texts) or self._is_text(right, texts)
            case ast.Subscript(value=value):
                return self._is_text(value, texts)
            case _:
                return False

    def _scope(self, name: str, body: list[ast.stmt], given: set[str]) -> Iterator[Unguarded]:
        texts = self._texts(body, given)
        for node in walk_scope(body):
            match node:
                case ast.Call():
                    spelled = self._replacement(node, texts)
                    if spelled is None:
                        continue
                    how, anchor = spelled
                    judged = self._judge(name, body, texts, anchor)
                    if judged is not True:
                        yield Unguarded(node, how, only_talks=judged is None)
                case ast.Assign(targets=[ast.Name(id=name_)], value=ast.Call() as call) if self._is_find(call, texts):
                    used = any(isinstance(n, ast.Slice) and mentions(n, {name_}) for n in walk_scope(body))
                    if used and self._judge(name, body, texts, call.args[0]) is not True:
                        yield Unguarded(call, f".{called_name(call).rpartition('.')[2]}() with a slice")
                case _:
                    yield from self._in_lines(node, name, body, texts)

    def _in_lines(self, node: ast.AST, name: str, body: list[ast.stmt], texts: set[str]) -> Iterator[Unguarded]:
        """Yield what is replaced without a `replace`: in the lines of a file, or by cutting it in two."""

        def is_text(node: ast.AST) -> bool:
            return self._is_text(node, texts)

        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=parts)], value=ast.Call(func=ast.Attribute(value=cut, attr=attr)) as call
            ) if attr in _CUTS and self._is_text(cut, texts):
                if is_put_together(parts, body) and self._judge(name, body, texts, call.args[0]) is not True:
                    yield Unguarded(call, f".{attr}()")
            case ast.For() if is_line_loop(node, is_text) and not loop_is_checked(node, name, body, self.flow):
                yield Unguarded(node, "a loop over the lines")
            case ast.ListComp() | ast.GeneratorExp() if (
                anchor := looked_for_in_lines(node, is_text, body)
            ) is not None:
                if self._judge(name, body, texts, anchor) is not True:
                    yield Unguarded(node, "a comprehension over the lines")

    def _replacement(self, node: ast.Call, texts: set[str]) -> tuple[str, ast.expr] | None:
        """Return (spelling, what is looked for) of a call that replaces in a file's text."""
        match node.func:
            case ast.Attribute(value=value, attr="replace") if len(node.args) in {2, 3} and self._is_text(value, texts):
                return (".replace()", node.args[0])
            case ast.Attribute(value=ast.Constant(), attr="join") if node.args:
                match node.args[0]:  # `"new".join(text.split("old"))`
                    case ast.Call(func=ast.Attribute(value=value, attr="split"), args=[anchor, *_]) if self._is_text(
                        value, texts
                    ):
                        return (".split() and .join()", anchor)
            case ast.Attribute(value=ast.Name(id="re" | "regex"), attr="sub" | "subn" as attr):
                text, pattern = argument(node, 2, "string"), argument(node, 0, "pattern")
                return (f"re.{attr}()", pattern) if pattern is not None and self._is_text(text, texts) else None
            case ast.Attribute(value=ast.Name(id=name) as pattern, attr="sub" | "subn" as attr) if (
                name in self.compiled
            ):
                return (f".{attr}()", pattern) if self._is_text(argument(node, 1, "string"), texts) else None
        return None

    def _is_find(self, call: ast.Call, texts: set[str]) -> bool:
        match call.func:
            case ast.Attribute(value=value, attr="find" | "rfind" | "index" | "rindex"):
                return bool(call.args) and self._is_text(value, texts)
            case _:
                return False

    def _judge(self, name: str, body: list[ast.stmt], texts: set[str], anchor: ast.expr) -> bool | None:
        """Return True where a missing anchor ends in a failure, None where it is only talked about, else False."""
        wanted = ast.dump(anchor)
        asked = self._asked(body, texts, wanted)
        talks = False
        for node in walk_scope(body):
            match node:
                case ast.Assert(test=test) if self._is_about(test, texts, wanted, asked):
                    return True
                case ast.Call(func=ast.Attribute(attr="index" | "rindex"), args=[first, *_]) if (
                    ast.dump(first) == wanted
                ):
                    if not is_swallowed(node, body, self.flow, name):
                        return True
                    talks = True
                case ast.If(test=test, body=then, orelse=other) if self._is_about(test, texts, wanted, asked):
                    if self.flow.raises([*then, *other]) or self.flow.hands_on([*then, *other], name):
                        return True
                    leaves = any(isinstance(n, ast.Return | ast.Break | ast.Continue) for n in walk_scope(then))
                    if leaves and self.flow.raises(n for n in body if n.lineno > (node.end_lineno or node.lineno)):
                        return True  # found: leave; what comes after is for the case that nothing was
                    talks = True
                case ast.IfExp(test=test, body=one, orelse=two) if self._is_about(test, texts, wanted, asked):
                    if self.flow.raises([one, two]):
                        return True
                    talks = True
                case ast.While(test=test) if self._is_about(test, texts, wanted, asked):
                    talks = True
                case ast.Call() if self._hands_to_check(node, wanted, texts):
                    return True
        return None if talks else self._is_verified_later(wanted)

    def _asked(self, body: list[ast.stmt], texts: set[str], wanted: str) -> set[str]:
        """Return the names that hold the answer to a question about the anchor: a count, a match, a position."""
        found = set()
        for node in walk_scope(body):
            match node:
                case ast.Assign(targets=targets, value=value):
                    pass
                case ast.NamedExpr(target=ast.Name() as target, value=value):
                    targets = [target]
                case _:
                    continue
            if self._asks(value, texts, wanted):
                named = [t for target in targets for t in ast.walk(target) if isinstance(t, ast.Name)]
                found |= {t.id for t in named} - (texts if len(named) > 1 else set())
        return found

    def _asks(self, node: ast.expr, texts: set[str], wanted: str) -> bool:
        for inner in ast.walk(node):
            match inner:
                case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args) if attr in _COUNTS:
                    if any(ast.dump(a) == wanted for a in (value, *args)):
                        return True
                    if attr == "subn" and any(self._is_text(a, texts) for a in args):
                        return True
                case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]) if ast.dump(left) == wanted:
                    return True
        return False

    def _is_about(self, test: ast.expr, texts: set[str], wanted: str, asked: set[str]) -> bool:
        if mentions(test, asked) or self._asks(test, texts, wanted):
            return True
        for node in ast.walk(test):
            match node:
                case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot()], comparators=[right]):
                    if self._is_text(left, texts) and self._is_text(right, texts):
                        return True
                case ast.Compare(ops=[ast.NotIn()], comparators=[right]) if self._is_text(right, texts):
                    return True
        return False

    def _hands_to_check(self, node: ast.Call, wanted: str, texts: set[str]) -> bool:
        """Tell whether a function that may raise is given the anchor, or the text before and after."""
        function = self.flow.functions.get(called_name(node))
        if function is None or not self.flow.raises(function.body):
            return False
        given = [*node.args, *(k.value for k in node.keywords)]
        return any(ast.dump(a) == wanted for a in given) or sum(self._is_text(a, texts) for a in given) > 1

    def _is_verified_later(self, wanted: str) -> bool:
        """Tell whether a test that ends in a failure looks for the same text, or for what replaced it."""
        partners = {
            ast.dump(node.args[1])
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and len(node.args) > 1 and ast.dump(node.args[0]) == wanted
        }
        for node in ast.walk(self.tree):
            test = node.test if isinstance(node, ast.If | ast.Assert) else None
            if test is None or not (isinstance(node, ast.Assert) or self.flow.raises([*node.body, *node.orelse])):  # type: ignore[attr-defined]  # an If has them
                continue
            for inner in ast.walk(test):
                if isinstance(inner, ast.Compare) and ast.dump(inner.left) in {*partners, wanted}:
                    return True
        return False
