"""Patterns: Python code with holes, matched on syntax trees.

Every field of every node counts, except an explicit list of trivia (positions, expression context, type
comments, the `u` of a string); comments and formatting are not in the tree at all. There is no fuzz.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.code.holes import PLACEHOLDER, CodeText, code_text, column_in, hole, many, shown, without_references
from orchestrator.code.nodes import KINDS, fields_among, parts_of
from orchestrator.code.source import Source, Span, parse_python
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.code.scopes import ScopeNode

Captured = ast.AST | str | tuple[ast.AST, ...]
Captures = dict[str, Captured]

_TRIVIA = frozenset({"ctx", "type_comment", "kind", "type_ignores"})
_BODIES = fields_among(("body", "handlers", "cases", "orelse", "finalbody"))
"""The fields that may hold statements, or what carries statements, in source order."""
_NAMED = frozenset({ast.Expr, ast.Name, ast.arg, ast.alias, ast.keyword})
"""The kinds of nodes that may consist of a name, and so be holes."""


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern: one expression, or one or more statements in a row."""

    code: CodeText
    nodes: tuple[ast.AST, ...]
    is_expression: bool

    @property
    def holes(self) -> frozenset[str]:
        """The names that a match binds."""
        return self.code.holes


@dataclass(frozen=True)
class Match:
    """Where a pattern matched: the nodes (one expression, or statements in a row) and what the holes took.

    `body` is the statement list that holds the statements, `index` where they start in it; for an
    expression `statement` is the innermost statement around it.
    """

    nodes: tuple[ast.AST, ...]
    captures: Captures
    body: list[ast.stmt] | None = None
    index: int = 0
    statement: ast.stmt | None = None

    @property
    def first(self) -> ast.AST:
        """The first matched node."""
        return self.nodes[0]

    def span(self, source: Source) -> Span:
        """Return the range of text from the first matched node to the last."""
        return Span(source.span(self.nodes[0]).start, source.span(self.nodes[-1]).end)


def compile_pattern(text: str, known: Mapping[str, Any], name: str = "") -> Pattern:
    """Return the pattern that `text` writes; raise `Rejected` (E206) if it is not Python.

    `known` gives the dotted values. A lone expression matches expressions wherever they stand. With a `name`, what is
    wrong has a place in the text, as a file of that name.
    """
    code = code_text(text, known)
    try:
        body = parse_python(code.text).body
    except Rejected as error:
        raise Rejected(not_python(error.diagnostics[0], text, name)) from None
    if not body:
        raise Rejected(Diagnostic("E206", "the code is empty", help="Write the code that the edit looks for."))
    bound = bind_values(body, code)
    only = bound[0]
    if len(bound) == 1 and isinstance(only, ast.Expr) and not _statement_hole(only):
        return Pattern(code, (only.value,), is_expression=True)
    if all(isinstance(node, ast.Expr) and many(_identifier(node)) for node in bound):
        raise Rejected(Diagnostic("E206", "the pattern matches anything", help="Write some code between the holes."))
    return Pattern(code, tuple(bound), is_expression=False)


def not_python(found: Diagnostic, text: str, name: str = "") -> Diagnostic:
    """Return the diagnostic for code in YAML that does not parse; with a `name`, with its place in `text`."""
    help_ = "Write whole statements or one expression; a hole stands where a name, expression or statement may stand."
    if "$" in without_references(text):
        help_ = "A hole is written `${name}` and a value `${params.x}`, with both braces; `$${` is a plain `${`."
    line, column = (found.place.line, found.place.column) if found.place else (0, 0)
    column = column_in(text, line, column) if line else column
    if name:
        return Diagnostic("E206", found.message, Place(name, line, column), help=help_)
    where = f" (line {line}, column {column} of the code)" if found.place else ""
    return Diagnostic("E206", f"{found.message}{where}", help=help_)


def bind_values(body: Sequence[ast.stmt], code: CodeText) -> list[ast.stmt]:
    """Return statements with the identifiers of values replaced by the values' own nodes.

    Raises `Rejected` (E205) for a reference inside a string literal: it would be text, not a node.
    """
    for node in body:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and PLACEHOLDER.search(part.value):
                help_ = "Let the reference stand for the whole string, or write `$${` for a plain `${`."
                raise Rejected(Diagnostic("E205", "a reference inside a string literal", help=help_))
    if not code.values:
        return list(body)
    binder = _ValueBinder(dict(code.values))
    return [binder.visit(node) for node in body]


class _ValueBinder(ast.NodeTransformer):
    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.values:
            return node
        return ast.copy_location(value_node(self.values[node.id]), node)


def value_node(value: Any) -> ast.expr:  # noqa: ANN401 - any plain value
    """Return the expression that writes a plain value (numbers, strings, booleans, lists, mappings)."""
    return ast.parse(value_code(value), mode="eval").body


def value_code(value: Any) -> str:  # noqa: ANN401 - any plain value
    """Return the code that writes a plain value; what has no literal, such as infinity, is written as a call."""
    match value:
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case list():
            return f"[{', '.join(map(value_code, value))}]"
        case dict():
            return f"{{{', '.join(f'{value_code(k)}: {value_code(v)}' for k, v in value.items())}}}"
        case _:
            return repr(value)


def written(code: CodeText) -> str:
    """Return code for people: the holes as they were written, each value in its place."""
    values = {name: value_code(value) for name, value in code.values}
    return shown(PLACEHOLDER.sub(lambda found: values.get(found.group(), found.group()), code.text))


def _identifier(node: ast.AST) -> str:
    """Return the name that a node consists of: `x`, the statement `x`, the parameter `x`, the import `x`."""
    match node:
        case ast.Expr(value=ast.Name(id=name)) | ast.Name(id=name):
            return name
        case ast.arg(arg=name, annotation=None) | ast.alias(name=name, asname=None):
            return name
        case ast.keyword(arg=None, value=ast.Name(id=name)) if many(name):
            return name  # `**${rest...}`: what may follow a keyword
        case _:
            return ""


def _statement_hole(node: ast.Expr) -> bool:
    return bool(many(_identifier(node)))


class Matcher:
    """Matches one pattern node against one node and keeps what the holes took."""

    def __init__(self) -> None:
        self.captures: Captures = {}

    def same(self, pattern: Any, node: Any) -> bool:  # noqa: ANN401 - nodes, lists and constants alike
        """Tell whether `node` is what `pattern` says, binding holes on the way."""
        if isinstance(pattern, ast.AST):
            return isinstance(node, ast.AST) and self._same_node(pattern, node)
        if isinstance(pattern, list):
            return isinstance(node, list) and self._same_list(pattern, node)
        if isinstance(pattern, str) and isinstance(node, str):
            name = hole(pattern)
            return self._bind(name, node) if name else pattern == node
        return same_constant(pattern, node)

    def _same_node(self, pattern: ast.AST, node: ast.AST) -> bool:
        kind = type(pattern)
        name = hole(_identifier(pattern)) if kind in _NAMED else None
        if name and _fits(pattern, node):
            return self._bind(name, node)
        if kind is not type(node):
            return False
        if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
            return self.same(pattern.func, node.func) and self._same_list(_arguments(pattern), _arguments(node))
        if isinstance(pattern, ast.arguments) and isinstance(node, ast.arguments):
            return self._same_list(_parameters(pattern), _parameters(node))
        if isinstance(pattern, ast.Constant) and isinstance(node, ast.Constant):
            return same_constant(pattern.value, node.value)
        return all(self.same(getattr(pattern, field, None), getattr(node, field, None)) for field in TELLING[kind])

    def _same_list(self, pattern: Sequence[Any], nodes: Sequence[Any]) -> bool:
        for i, item in enumerate(pattern):
            name = many(_identifier(item)) if type(item) in _NAMED else None
            if name:
                return self._split(name, pattern[i + 1 :], nodes[i:])
            if i >= len(nodes) or not self.same(item, nodes[i]):
                return False
        return len(pattern) == len(nodes)

    def _split(self, name: str, rest: Sequence[Any], nodes: Sequence[Any]) -> bool:
        """Let `name` take as few nodes as possible so that the rest still matches."""
        before = dict(self.captures)
        fixed = sum(1 for item in rest if not (isinstance(item, ast.AST) and many(_identifier(item))))
        for taken in range(len(nodes) - fixed + 1):
            if self._bind(name, tuple(nodes[:taken])) and self._same_list(rest, nodes[taken:]):
                return True
            self.captures = dict(before)
        return False

    def _bind(self, name: str, found: Captured) -> bool:
        if name == "_":
            return True
        if name in self.captures:
            return same_code(self.captures[name], found)
        self.captures[name] = found
        return True


def _fits(pattern: ast.AST, node: ast.AST) -> bool:
    """Tell whether a hole standing as this kind of node may take that kind of node."""
    if isinstance(pattern, ast.Expr):
        return isinstance(node, ast.stmt)
    if isinstance(pattern, ast.Name):
        return isinstance(node, ast.expr) and not isinstance(node, _Parameter)
    if isinstance(pattern, ast.arg):
        return isinstance(node, ast.arg | _Parameter)
    return type(pattern) is type(node)


def _arguments(call: ast.Call) -> list[ast.AST]:
    both: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    return [*sorted(both, key=lambda a: (a.lineno, a.col_offset))]


def _parameters(arguments: ast.arguments) -> list[ast.AST]:
    """Return the parameters in order, kinds and defaults included, as nodes that match one by one."""
    found: list[ast.AST] = []
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for i, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        found.append(_parameter("positional", arg, default))
        if i + 1 == len(arguments.posonlyargs):
            found.append(ast.Constant("/"))
    if arguments.vararg:
        found.append(_parameter("*", arguments.vararg, None))
    elif arguments.kwonlyargs:
        found.append(ast.Constant("*"))
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter("keyword", arg, default))
    if arguments.kwarg:
        found.append(_parameter("**", arguments.kwarg, None))
    return found


def _parameter(kind: str, arg: ast.arg, default: ast.expr | None) -> ast.AST:
    """Wrap a parameter so that kind, name, annotation and default are compared together.

    A hole stays bare: `${args...}` takes parameters of every kind. The wrapper stands where the whole
    parameter stands, its stars and its default included.
    """
    if (many(arg.arg) or hole(arg.arg)) and not arg.annotation and default is None and kind == "positional":
        return arg
    last: ast.AST = default or arg
    wrapped = _Parameter()
    wrapped.kind, wrapped.name, wrapped.annotation, wrapped.default = kind, arg.arg, arg.annotation, default
    ast.copy_location(wrapped, arg)
    wrapped.col_offset = arg.col_offset - (len(kind) if kind.startswith("*") else 0)
    wrapped.end_lineno, wrapped.end_col_offset = last.end_lineno, last.end_col_offset  # type: ignore[attr-defined]  # both have positions
    return wrapped


class _Parameter(ast.expr):
    """One parameter of a function as a node of its own."""

    _fields = ("kind", "name", "annotation", "default")
    kind: str
    name: str
    annotation: ast.expr | None
    default: ast.expr | None


TELLING: dict[type[ast.AST], tuple[str, ...]] = {
    _Parameter: _Parameter._fields,
    **{kind: tuple(field for field in kind._fields if field not in _TRIVIA) for kind in KINDS},
}
"""The fields of each kind of node that are compared."""


def same_constant(left: Any, right: Any) -> bool:  # noqa: ANN401 - any constant
    """Compare constants by type too: `1`, `1.0` and `True` differ, and so do `0.0` and `-0.0`."""
    return type(left) is type(right) and (left == right if not isinstance(left, float) else repr(left) == repr(right))


def same_code(left: Captured, right: Captured) -> bool:
    """Tell whether two captures are the same code."""
    if isinstance(left, tuple) or isinstance(right, tuple):
        both = isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right)
        return both and all(same_code(a, b) for a, b in zip(left, right, strict=True))  # type: ignore[arg-type]  # both are tuples here
    return Matcher().same(left, right)


def find_matches(pattern: Pattern, scope: ScopeNode) -> list[Match]:
    """Return every match inside `scope`, in source order; one match may lie inside another."""
    found = _expressions(pattern, scope) if pattern.is_expression else _statements(pattern, scope)
    return sorted(found, key=lambda match: (match.first.lineno, match.first.col_offset))  # type: ignore[attr-defined]  # both kinds have positions


def _expressions(pattern: Pattern, scope: ScopeNode) -> Iterator[Match]:
    wanted = pattern.nodes[0]
    anything = hole(_identifier(wanted)) is not None
    kind = ast.expr if anything else type(wanted)
    pending: list[tuple[ast.AST, ast.stmt | None]] = [(scope, scope if isinstance(scope, ast.stmt) else None)]
    while pending:
        node, statement = pending.pop()
        if isinstance(node, kind) and node is not scope:
            matcher = Matcher()
            if matcher.same(wanted, node):
                yield Match((node,), matcher.captures, statement=statement)
        if isinstance(node, ast.stmt):
            statement = node
        inner = parts_of(node)
        if inner:
            pending.extend([(child, statement) for child in reversed(inner)])


def _statements(pattern: Pattern, scope: ScopeNode) -> Iterator[Match]:
    first = type(pattern.nodes[0])
    name = _identifier(pattern.nodes[0])
    anywhere = hole(name) is not None or many(name) is not None
    for body in bodies(scope):
        index = 0
        while index < len(body):
            match = _run_at(pattern, body, index) if anywhere or type(body[index]) is first else None
            if match:
                yield match
                index += len(match.nodes)
            else:
                index += 1


def _run_at(pattern: Pattern, body: list[ast.stmt], index: int) -> Match | None:
    wanted = pattern.nodes
    flexible = any(many(_identifier(node)) for node in wanted)
    if not flexible:
        if index + len(wanted) > len(body):
            return None
        ends: Iterator[int] | Sequence[int] = (index + len(wanted),)
    else:
        # A pattern that ends with `${rest...}` takes the body to its end, any other as little as fits.
        ends = range(len(body), index, -1) if many(_identifier(wanted[-1])) else range(index + 1, len(body) + 1)
    for end in ends:
        matcher = Matcher()
        if matcher.same(list(wanted), body[index:end]):
            return Match(tuple(body[index:end]), matcher.captures, body, index)
    return None


def bodies(scope: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements inside `scope`, outer before inner, in source order."""
    pending: list[ast.AST] = [scope]
    while pending:
        node = pending.pop()
        inner: list[ast.AST] = []
        for field in _BODIES[type(node)]:
            value = getattr(node, field, None)
            if isinstance(value, list) and value:
                if isinstance(value[0], ast.stmt):
                    yield value
                inner.extend(value)
        pending.extend(reversed(inner))
