"""Read a YAML document into plain data that remembers where each value stands.

ruamel composes nodes with marks (YAML 1.2, pure Python); the values are built here, so that duplicate
keys, tags, merges and alias bombs are refused instead of resolved in silence, and so that a scalar
that YAML read as another type than its text shows (`0.10`, `1e3`, `2026-01-01`) can be reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node, ScalarNode, SequenceNode

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected

if TYPE_CHECKING:
    from ruamel.yaml.error import StreamMark

MAX_BYTES = 2**20  # ruamel needs many seconds for more, and no hand-written pipeline is near it
MAX_DEPTH = 64
MAX_VALUES = 200_000  # what aliases may expand to

Path = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = {f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")}
_TEXT_TAGS = {f"{_TAG}{name}" for name in ("str", "value", "merge")}  # `=` and `<<` mean something in keys only


@dataclass
class Document:
    """Plain data, its text, and for each path into it the place of the key and of the value."""

    name: str
    text: str
    data: Any
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    misread: dict[Path, str] = field(default_factory=dict)
    """Scalars whose value does not print as they are written, with the text that stands there."""

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Return where `path` stands, or the nearest part of it that exists.

        Segments that the YAML does not have are skipped: pydantic puts union tags into its paths.
        """
        known = self.known(path)
        if key and known in self.keys:
            return self.keys[known]
        return self.values.get(known, Place(self.name))

    def known(self, path: Path) -> Path:
        """Return the part of `path` that the YAML has, without the segments that it does not have."""
        known: Path = ()
        for segment in path:
            if (*known, segment) in self.values:
                known = (*known, segment)
        return known

    def line(self, number: int) -> str:
        """Return line `number` (from 1) of the text, without its end."""
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""


def read_document(name: str, content: bytes) -> Document:
    """Return the document in `content`; raise `Rejected` with every fault that reading finds."""
    text = _decoded(name, content)
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.version = "1.2"
        node = yaml.compose(text)
    except MarkedYAMLError as error:
        raise Rejected(_syntax(name, text, error)) from None
    except (YAMLError, ValueError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise Rejected(Diagnostic("E103", f"not YAML: {message}", Place(name), help="See yaml.org/spec/1.2.")) from None
    if node is None:
        help_ = "`orchestrator init` writes a starter."
        raise Rejected(Diagnostic("E102", "the file holds no YAML document", Place(name), help=help_))
    builder = _Builder(Document(name, text, None))
    builder.document.data = builder.build(node, (), 0, ())
    if builder.faults:
        raise Rejected(builder.faults)
    return builder.document


def _decoded(name: str, content: bytes) -> str:
    if len(content) > MAX_BYTES:
        message = f"the file has {len(content):,} bytes; at most {MAX_BYTES:,} are read"
        raise Rejected(Diagnostic("E101", message, Place(name), help="Split it, or remove generated parts."))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise Rejected(Diagnostic("E104", message, Place(name, line, column), help="Save the file as UTF-8.")) from None
    if not text.strip():
        help_ = "`orchestrator init` writes a starter."
        raise Rejected(Diagnostic("E102", "the file is empty", Place(name), help=help_))
    return text


def _syntax(name: str, text: str, error: MarkedYAMLError) -> Diagnostic:
    mark: StreamMark | None = error.problem_mark or error.context_mark
    place = Place(name, mark.line + 1, mark.column + 1) if mark else Place(name)
    lines = text.split("\n")
    if mark and mark.line >= len(lines):
        place = Place(name, len(lines), 1)
    tab = re.match(r" *\t", lines[place.line - 1]) if place.line else None
    if tab:
        place = Place(name, place.line, tab.end())
        return Diagnostic("E105", "a tab indents this line", place, help="YAML indents with blanks.")
    parts = [part.strip() for part in (error.context, error.problem) if part]
    help_ = "A value with `: ` or ` #` in it, or one that starts with one of `{[*&!|>%@`, is written in quotes."
    if place.line and lines[place.line - 1][: place.column].endswith("${"):
        help_ = 'Inside `{…}` and `[…]`, a value with a reference is written in quotes: "${params.x}".'
    return Diagnostic("E103", f"not YAML: {', '.join(parts)}", place, help=help_)


class _Builder:
    """Builds plain values from composed nodes and collects every fault."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.faults: list[Diagnostic] = []
        self.count = 0

    def build(self, node: Node, path: Path, depth: int, above: tuple[int, ...]) -> Any:  # noqa: ANN401 - plain data
        self.count += 1
        place = self.place(node)
        if id(node) in above:
            loop = Diagnostic("E107", "an alias points into itself", place, help="Write it out.")
            raise Rejected([*self.faults, loop])
        if depth > MAX_DEPTH or self.count > MAX_VALUES:
            what = f"nested more than {MAX_DEPTH} deep" if depth > MAX_DEPTH else f"more than {MAX_VALUES:,} values"
            raise Rejected([*self.faults, Diagnostic("E107", what, place, help="Simplify; aliases count each time.")])
        self.document.values[path] = place
        if isinstance(node, ScalarNode):
            return self.scalar(node, path)
        if not self.plain_tag(node):
            return None
        inside = (*above, id(node))
        if isinstance(node, SequenceNode):
            return [self.build(item, (*path, i), depth + 1, inside) for i, item in enumerate(node.value)]
        return self.mapping(node, path, depth, inside)

    def mapping(self, node: Node, path: Path, depth: int, above: tuple[int, ...]) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node)
            if not isinstance(key_node, ScalarNode) or key_node.tag != f"{_TAG}str":
                shown = key_node.value if isinstance(key_node, ScalarNode) else "a list or mapping"
                self.faults.append(
                    Diagnostic("E106", f"key {shown!r} is not a string", place, help="Write the key in quotes.")
                )
                continue
            key = key_node.value
            if key in built:
                first = self.document.keys[(*path, key)]
                message = f"key {key!r} is given twice; first in line {first.line}"
                self.faults.append(Diagnostic("E108", message, place, help="Keep one of the two."))
                continue
            self.document.keys[(*path, key)] = place
            built[key] = self.build(value_node, (*path, key), depth + 1, above)
            if built[key] is None and not value_node.value:  # nothing is written there: the key is what one can see
                self.document.values[*path, key] = place
        return built

    def scalar(self, node: ScalarNode, path: Path) -> Any:  # noqa: ANN401 - plain data
        if not self.plain_tag(node):
            return None
        text = str(node.value)
        if node.style is not None or node.tag in _TEXT_TAGS:
            return text
        value = _plain_value(str(node.tag), text)
        if isinstance(value, _Misread) or (not isinstance(value, bool) and value is not None and repr(value) != text):
            self.document.misread[path] = text
        return text if isinstance(value, _Misread) else value

    def plain_tag(self, node: Node) -> bool:
        known = node.tag in _SCALAR_TAGS if isinstance(node, ScalarNode) else node.tag in {f"{_TAG}map", f"{_TAG}seq"}
        if not known:
            shown = str(node.tag).replace(_TAG, "!!")
            self.faults.append(
                Diagnostic("E106", f"tag {shown} is not supported", self.place(node), help="Use plain values only.")
            )
        return known

    def place(self, node: Node) -> Place:
        start, end = node.start_mark, node.end_mark
        length = end.column - start.column if end.line == start.line else 1
        return Place(self.document.name, start.line + 1, start.column + 1, max(1, length))


_MAX_DIGITS = 4000  # Python itself refuses to print longer numbers


class _Misread:
    """A scalar that YAML takes for something no field of ours holds, a date for one."""


def _plain_value(tag: str, text: str) -> bool | int | float | _Misread | None:
    try:
        match tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool" if text.lower() in {"true", "false"}:
                return text.lower() == "true"
            case "int":
                digits = text.replace("_", "")
                value = int(digits, 0) if re.match(r"[-+]?0[xob]", digits) else int(digits)
                return value if len(repr(value)) <= _MAX_DIGITS else _Misread()
            case "float":
                return float(str(text).replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
            case _:
                return _Misread()
    except ValueError:
        return _Misread()
