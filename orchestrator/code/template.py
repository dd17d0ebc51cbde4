"""Replacement code: the `with`, `value` and `code` of an edit, filled with what a pattern took.

The replacement is a syntax tree with holes. libcst puts the captured code into it node by node, so that
blocks are indented, comments inside captures survive and parentheses appear where precedence needs
them; `ast` then proves that the text says exactly what the two trees together say.
"""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

from orchestrator.code.holes import CodeText, code_text, hole, many, shown
from orchestrator.code.indent import string_lines, with_unit
from orchestrator.code.layout import is_elif
from orchestrator.code.patterns import Captures, Pattern, bind_values, find_matches, not_python, value_code
from orchestrator.code.source import Span, parse_python
from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.code.source import Source


@dataclass(frozen=True)
class Template:
    """Compiled replacement code."""

    code: CodeText
    nodes: tuple[ast.stmt, ...]
    is_expression: bool

    @property
    def expression(self) -> ast.expr:
        """The expression that this template is, where it is one."""
        only = self.nodes[0]
        assert isinstance(only, ast.Expr)  # noqa: S101 - what `is_expression` says
        return only.value

    def as_pattern(self) -> Pattern:
        """Return the pattern that matches what this template produces."""
        nodes = (self.expression,) if self.is_expression else self.nodes
        return Pattern(self.code, nodes, self.is_expression)


def compile_template(
    text: str, known: Mapping[str, Any], holes: frozenset[str] = frozenset(), name: str = ""
) -> Template:
    """Return the template that `text` writes; raise `Rejected` (E206, E207) if it is not Python or a hole is unbound.

    `holes` are the names that the edit's pattern binds; `name` is as for a pattern.
    """
    code = code_text(text, known)
    unbound = sorted(code.holes - holes)
    if unbound:
        help_ = did_you_mean(unbound[0], holes) or "The pattern of this edit has no holes."
        raise Rejected(Diagnostic("E207", f"hole `${{{unbound[0]}}}` is not bound by the pattern", help=help_))
    try:
        body = parse_python(code.text).body
    except Rejected as error:
        raise Rejected(not_python(error.diagnostics[0], text, name)) from None
    if not body:
        raise Rejected(Diagnostic("E206", "the code is empty", help="To remove code, use `op: delete`."))
    only = body[0]
    expression = len(body) == 1 and isinstance(only, ast.Expr) and not many(_name(only.value))
    return Template(code, tuple(bind_values(body, code)), expression)


def own_result(pattern: Pattern, template: Template) -> str | None:
    """Return what a pattern matches of its replacement whatever the holes take, None if that cannot be."""
    again = find_matches(pattern, ast.Module(list(template.nodes), []))
    return shown(ast.unparse(again[0].first)).splitlines()[0] if again else None


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class Filled:
    """A template with its holes filled: text without indentation, and the nodes that the text parses to."""

    text: str
    nodes: tuple[ast.stmt, ...]
    blank_above: int = 0
    blank_below: int = 0
    """How many empty lines the template has before and behind its code; lines that an edit adds keep them."""

    def indented(self, indent: str, newline: str, unit: str = "") -> str:
        """Return the text for a place indented by `indent`; the first line stays bare, strings stay as they are.

        Blocks are indented by `unit`, where it is given, instead of the template's own.
        """
        text = with_unit(self.text, unit) if unit else self.text
        fixed = string_lines(text)
        lines = text.split("\n")
        shown = [lines[0]]
        shown += [
            line if number in fixed else f"{indent}{line}" if line.strip() else ""
            for number, line in enumerate(lines[1:], start=2)
        ]
        return newline.join(shown)


def fill(template: Template, captures: Captures, source: Source, within: Span | None = None) -> Filled:
    """Return the template with captured code in its holes.

    Comments above captured statements come along where they lie `within` the replaced text. Raises `Rejected`
    (E410) where no text would say what the trees say.
    """
    above, below = _blank_lines(template.code.text)
    if not template.code.holes and not template.code.values:
        text = _stripped(template.code.text)
        return Filled(text, parsed(text), above, below)
    texts = {name: _captured_text(captured, source, within) for name, captured in captures.items()}
    expected = [_Substitution(captures, texts).visit(copy.deepcopy(node)) for node in template.nodes]
    flat = [_dumped(node) for node in _flattened(expected)]
    for parenthesised in (False, True):
        try:
            text = _fill_text(template, texts, parenthesised=parenthesised)
            nodes = parsed(text)
        except (cst.ParserSyntaxError, cst.CSTValidationError, Rejected):
            continue
        if [_dumped(node) for node in nodes] == flat:
            return Filled(text, nodes, above, below)
    message = "what the holes took does not fit into the replacement"
    raise Rejected(Diagnostic("E410", message, help="Let the holes take whole expressions or statements."))


def _stripped(text: str) -> str:
    """Return code without the empty lines around it."""
    return _EMPTY_ABOVE.sub("", text).rstrip()


_EMPTY_ABOVE = re.compile(r"\A(?:[ \t]*\n)+")


def _blank_lines(text: str) -> tuple[int, int]:
    above = _EMPTY_ABOVE.match(text)
    return above.group().count("\n") if above else 0, max(0, text[len(text.rstrip()) :].count("\n") - 1)


def _dumped(node: ast.AST) -> str:
    """Return a tree as text, without the contexts that a capture brought from another place."""
    return re.sub(r", ctx=(Load|Store|Del)\(\)", "", ast.dump(node))


def parsed(text: str) -> tuple[ast.stmt, ...]:
    """Return the statements that `text` parses to."""
    return tuple(parse_python(text).body)


def _captured_text(captured: Any, source: Source, within: Span | None) -> str:  # noqa: ANN401 - a node, nodes, or a name
    if isinstance(captured, str):
        return captured
    nodes: Sequence[ast.AST] = captured if isinstance(captured, tuple) else (captured,)
    if not nodes:
        return ""
    if _deeper_than(nodes, _DEEPEST):
        message = "the code is nested too deeply to be put into other code"
        raise Rejected(Diagnostic("E408", message, help="Let the holes take smaller parts."))
    start, end = _start_of(nodes, source), _end_of(nodes, source)
    text = source.text[start:end].replace("\r\n", "\n").replace("\r", "\n")
    if not isinstance(nodes[0], ast.stmt):
        return text
    if is_elif(source, nodes[0]):
        text = text.removeprefix("el")  # what a hole of an `else` takes of an `elif` is the `if` in it
    first = source.line_of(start)
    indent = source.indent_of(first)
    while within and first > 1 and source.line_span(first - 1).start > within.start:
        if not source.lines[first - 2].startswith(f"{indent}#"):
            break
        first -= 1
        text = f"{source.lines[first - 1].strip()}\n{indent}{text}"
    fixed = string_lines(f"{indent}{text}")
    head, *rest = text.split("\n")
    return "\n".join(
        [head, *(line if n in fixed else line.removeprefix(indent) for n, line in enumerate(rest, start=2))]
    )


_DEEPEST = 500
"""Levels of syntax nodes in one capture; libcst takes time that grows with their square, and more."""


def _deeper_than(nodes: Sequence[ast.AST], limit: int) -> bool:
    level: list[ast.AST] = list(nodes)
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _start_of(nodes: Sequence[ast.AST], source: Source) -> int:
    """Return where captured code starts; a bare `*` among parameters is found before the parameter behind it."""
    if hasattr(nodes[0], "lineno"):
        return source.span(nodes[0]).start
    if len(nodes) == 1:
        raise Rejected(Diagnostic("E410", "a hole took nothing but a `/`", help="Write the `/` in the pattern."))
    return source.text.rindex("*", 0, _start_of(nodes[1:], source))


def _end_of(nodes: Sequence[ast.AST], source: Source) -> int:
    """Return where captured code ends; a bare `/` among parameters is found behind the parameter before it."""
    if hasattr(nodes[-1], "lineno"):
        return source.span(nodes[-1]).end
    return source.text.index("/", source.span(nodes[-2]).end) + 1


class _Substitution(ast.NodeTransformer):
    """Puts captured nodes into a template's tree: what the filled text has to mean."""

    def __init__(self, captures: Captures, texts: Mapping[str, str]) -> None:
        self.captures = captures
        self.texts = texts

    def visit(self, node: ast.AST) -> Any:  # noqa: ANN401 - NodeTransformer's own contract
        match node:
            case ast.Expr(value=ast.Name(id=name)) if hole(name) or many(name):
                found = self._of(name)
                statement = isinstance(found, ast.stmt) or (isinstance(found, tuple) and not _expressions(found))
                return _listed(found) if statement else ast.Expr(found)
            case ast.arguments(args=[ast.arg(arg=name)]) if many(name):
                function = ast.parse(f"def f({self.texts[many(name) or '']}): pass").body[0]
                return function.args  # type: ignore[attr-defined]  # the line above defines a function
            case ast.keyword(arg=None, value=ast.Name(id=name)) if many(name):
                return _listed(self._of(name))
            case ast.Name(id=name) | ast.arg(arg=name, annotation=None) | ast.alias(name=name, asname=None) if hole(
                name
            ) or many(name):
                found = self._of(name)
                return ast.Name(found, ast.Load()) if isinstance(found, str) else _listed(found)
            case _:
                for field, value in ast.iter_fields(node):
                    if isinstance(value, str) and hole(value):
                        setattr(node, field, self._text_of(value))
                node = self.generic_visit(node)
                return _call_in_order(node) if isinstance(node, ast.Call) else node

    def _of(self, identifier: str) -> Any:  # noqa: ANN401 - a node, nodes, or a name
        return self.captures[hole(identifier) or many(identifier) or ""]

    def _text_of(self, identifier: str) -> str:
        found = self._of(identifier)
        return found if isinstance(found, str) else _name(found)


def _expressions(found: tuple[ast.AST, ...]) -> bool:
    return bool(found) and all(isinstance(node, ast.expr | ast.keyword) for node in found)


def _listed(found: Any) -> Any:  # noqa: ANN401 - NodeTransformer takes a node or a list
    return list(found) if isinstance(found, tuple) else found


def _call_in_order(call: ast.Call) -> ast.Call:
    """Move keywords that a hole brought among the arguments to where `ast` keeps them."""
    every: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    call.args = [a for a in every if not isinstance(a, ast.keyword)]
    call.keywords = [a for a in every if isinstance(a, ast.keyword)]
    return call


def _flattened(nodes: Sequence[Any]) -> list[ast.AST]:
    flat: list[ast.AST] = []
    for node in nodes:
        flat.extend(node if isinstance(node, list) else [node])
    return flat


def _fill_text(template: Template, texts: Mapping[str, str], *, parenthesised: bool) -> str:
    module = cst.parse_module(_stripped(template.code.text) + "\n")
    filled = module.visit(_Filler(texts, dict(template.code.values), parenthesised=parenthesised))
    return filled.code.strip("\n")


_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.SimpleString)


class _Filler(cst.CSTTransformer):
    def __init__(self, texts: Mapping[str, str], values: Mapping[str, Any], *, parenthesised: bool) -> None:
        super().__init__()
        self.texts = texts
        self.values = values
        self.parenthesised = parenthesised

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        name = original_node.value
        if name in self.values:
            return self._expression(value_code(self.values[name]))
        taken = hole(name)
        if not taken:
            return updated_node
        text = self.texts[taken]
        return cst.Name(text) if text.isidentifier() else self._expression(text)

    def _expression(self, text: str) -> cst.BaseExpression:
        try:
            node = cst.parse_expression(text)
        except cst.ParserSyntaxError:
            node = cst.parse_expression(f"({text})")
        if self.parenthesised and not isinstance(node, _ATOMS) and not node.lpar:
            node = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> Any:  # noqa: N802, ANN401 - libcst's contract
        taken = many(_cst_name(original_node.value)) if original_node.keyword is None else None
        if taken is None:
            return updated_node
        call = cst.ensure_type(cst.parse_expression(f"f({self.texts[taken]})"), cst.Call)
        return cst.FlattenSentinel(_with_last_comma(call.args, updated_node.comma))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802 - libcst's name
        """Drop the comma before a last hole that took nothing."""
        last = original_node.args[-1] if original_node.args else None
        if last is None or not many(_cst_name(last.value)) or not updated_node.args:
            return updated_node
        return updated_node.with_changes(args=_with_last_comma(updated_node.args, last.comma))

    def leave_Element(self, original_node: cst.Element, updated_node: cst.Element) -> Any:  # noqa: N802, ANN401
        taken = many(_cst_name(original_node.value))
        if taken is None:
            return updated_node
        items = cst.ensure_type(cst.parse_expression(f"[{self.texts[taken]}]"), cst.List)
        return cst.FlattenSentinel(_with_last_comma(items.elements, updated_node.comma))

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:  # noqa: N802
        names = original_node.names
        only = names[0].evaluated_name if not isinstance(names, cst.ImportStar) and len(names) == 1 else ""
        taken = many(only)
        if taken is None:
            return updated_node
        line = cst.ensure_type(cst.parse_statement(f"from a import ({self.texts[taken]})"), cst.SimpleStatementLine)
        parsed_import = cst.ensure_type(line.body[0], cst.ImportFrom)
        return updated_node.with_changes(names=parsed_import.names, lpar=parsed_import.lpar, rpar=parsed_import.rpar)

    def leave_Parameters(self, original_node: cst.Parameters, updated_node: cst.Parameters) -> cst.Parameters:  # noqa: N802
        only = original_node.params[0].name.value if len(original_node.params) == 1 else ""
        taken = many(only)
        if taken is None:
            return updated_node
        function = cst.ensure_type(cst.parse_statement(f"def f({self.texts[taken]}): pass"), cst.FunctionDef)
        return function.params

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:  # noqa: ANN401 - libcst's contract
        name = _statement_name(original_node)
        taken = many(name) or hole(name)
        if taken is None:
            return updated_node
        text = self.texts[taken]
        if not many(name) and _is_expression(text):
            return updated_node
        body = list(cst.parse_module(text + "\n").body)
        if not body:
            return cst.RemoveFromParent()
        first = body[0]
        header = list(cst.parse_module(text + "\n").header)
        above = [*original_node.leading_lines, *header, *first.leading_lines]
        return cst.FlattenSentinel([first.with_changes(leading_lines=above), *body[1:]])


def _with_last_comma(items: Sequence[Any], comma: Any) -> list[Any]:  # noqa: ANN401 - libcst's arguments or elements
    """Return items that keep their own commas; the last has that of the hole it replaces."""
    return [*items[:-1], *(item.with_changes(comma=comma) for item in items[-1:])]


def _is_expression(text: str) -> bool:
    try:
        ast.parse(f"({text})", mode="eval")
    except SyntaxError:
        return False
    return True


def _cst_name(node: cst.BaseExpression) -> str:
    return node.value if isinstance(node, cst.Name) else ""


def _statement_name(line: cst.SimpleStatementLine) -> str:
    only = line.body[0]
    return _cst_name(only.value) if len(line.body) == 1 and isinstance(only, cst.Expr) else ""
