"""A row in the text of the table: put in by its place in the syntax, everything around it as it was.

The table holds rows that were measured in one tuple, `TUNED`. A new row takes the place of the one with its key there,
else it stands behind the last.
"""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING, Any

from orchestrator.code.source import Source, Span, Splice
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.tune.space import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "TUNED"
KEYS = ("operation", "device", "dtype", "head_size", "block_m")
"""What two rows may not have in common; a row without `operation` has its type's."""
INDENT = " " * 4
WIDTH = 104


def with_row(raw: bytes, kind: str, fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> bytes:
    """Return the table's text with a row in it.

    Args:
        raw: The file.
        kind: The row's type, as the table calls it.
        fields: All fields of the row.
        defaults: What fields have that need not be written.

    Raises:
        Rejected: The file is no Python (E408), or holds no tuple of that name (E908).
    """
    source = Source(TABLE, raw)
    rows = _tuned(source)
    lines = row_lines(kind, fields, defaults)
    text, key = source.text, _key(kind, fields)
    for element in rows.elts:
        if isinstance(element, ast.Call) and _key_of(element, defaults) == key:
            span = source.span(element)
            return _spliced(source, span, "\n".join(lines).replace("\n", f"\n{INDENT}"))
    body = textwrap.indent("\n".join(lines), INDENT)
    if not rows.elts:
        return _spliced(source, source.span(rows), f"(\n{body},\n)")
    last = source.span(rows.elts[-1]).end
    if text[last : source.span(rows).end].lstrip().startswith(","):
        last = text.index(",", last) + 1
        return _spliced(source, Span(last, last), f"\n{body},")
    return _spliced(source, Span(last, last), f",\n{body}")


def row_lines(kind: str, fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Return the lines of a row as the formatter would lay them out."""
    lines = [f"{kind}("]
    for name, value in fields.items():
        if name in defaults and defaults[name] == value:
            continue
        whole = f"{INDENT}{name}={_literal(value)},"
        if isinstance(value, str) and len(whole) > WIDTH:
            pieces = textwrap.wrap(value, WIDTH - 12, drop_whitespace=False)
            lines += [f"{INDENT}{name}=(", *(f"{INDENT * 2}{_literal(piece)}" for piece in pieces), f"{INDENT}),"]
        else:
            lines.append(whole)
    return [*lines, ")"]


def _literal(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
    return repr(value)


def _tuned(source: Source) -> ast.Tuple | ast.List:
    for node in source.tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        named = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        if isinstance(named, ast.Name) and named.id == NAME:
            if isinstance(node.value, ast.Tuple | ast.List):
                return node.value
            message = f"`{NAME}` in {TABLE} is not a tuple of rows"
            raise Rejected(
                Diagnostic("E908", message, source.place(node), help=f"Write `{NAME} = (…)`, a row for each.")
            )
    message = f"{TABLE} has no `{NAME}`, where rows that were measured stand"
    raise Rejected(
        Diagnostic("E908", message, Place(TABLE), help=f"Add `{NAME} = ()`, and take its rows into the tables.")
    )


def _spliced(source: Source, span: Span, text: str) -> bytes:
    """Return the file with other text in a span, its own line ends in it; what comes out is Python again."""
    newline = source.newline_at(source.line_of(span.start))
    found = source.splice([Splice(span, text.replace("\n", newline))])
    _ = found.tree
    return found.raw


def _key(kind: str, fields: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what a row is looked up by; prefill's rows do not name their query tile."""
    return kind, *(fields.get(name) for name in KEYS if name != "block_m" or "key_dims" in fields)


def _key_of(call: ast.Call, defaults: Mapping[str, Any]) -> tuple[object, ...] | None:
    """Return the key of a row as somebody wrote it; None where that is not written out."""
    try:
        given = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
    except ValueError:
        return None
    kind = call.func.id if isinstance(call.func, ast.Name) else ""
    return _key(kind, {**defaults, **given})
