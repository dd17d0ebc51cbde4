"""Edits sampled over a package: each is a change of one part of one definition, with the file as it is after it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from benchmarks.drifting.judge import expected, said
from benchmarks.drifting.parts import PARTS, SIMPLE, Part, scopes

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

KINDS = (*PARTS, "import")
IMPORT = "import json as drift_json"
INSERTED = "drift_seen = True"
LONGEST = 400  # bytes of a statement that somebody would still patch by hand
SMALLEST = 40  # lines of a file that is worth to be drawn from


@dataclass(frozen=True)
class Change:
    """One edit's meaning: which part of which definition, and what becomes of it."""

    kind: str
    file: str
    definition: str
    """Qualified name; empty for the module itself."""
    says: str
    """The part, as `parts.PARTS` names it; empty for an import."""
    number: int
    """The how manieth of the definition's parts that say the same, counted from 0, and how many there are."""
    count: int
    new: str
    """The code that is put in; empty for a deletion."""
    before: bool = False
    """For an insertion: before the part, else after it."""


@dataclass(frozen=True)
class Drawn:
    """A change with the file that it was drawn from, and the part there."""

    change: Change
    raw: bytes
    after: bytes
    part: Part | None

    @cached_property
    def text(self) -> str:
        """The file before the change."""
        return self.raw.decode()


class Lines:
    """Offsets of a file's nodes, in bytes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.starts = [0]
        for line in raw.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node's text starts and ends."""
        assert isinstance(node, ast.stmt | ast.expr | ast.keyword)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def whole(self, node: ast.stmt) -> tuple[int, int] | None:
        """Return the lines of a statement, None where it shares them with other code."""
        start, end = self.span(node)
        assert node.end_lineno is not None
        first, last = self.starts[node.lineno - 1], self.starts[node.end_lineno]
        behind = self.raw[end:last].strip()
        alone = not self.raw[first:start].strip() and (not behind or behind.startswith(b"#"))
        return (first, last) if alone and self.raw[first:last].endswith(b"\n") else None


def drawn(package: Mapping[str, bytes], count: int, random_: random.Random) -> Iterator[Drawn]:
    """Yield `count` changes drawn from the package's Python files: a kind, a file, a definition, a part of it."""
    files = [path for path, raw in sorted(package.items()) if path.endswith(".py") and _usable(raw)]
    made, seen = 0, set[tuple[str, str, str, int]]()
    for _ in range(count * 200):
        if made == count:
            return
        kind, file = random_.choice(KINDS), random_.choice(files)
        found = _draw(kind, file, package[file], random_)
        if found is None:
            continue
        change = found.change
        address = (change.file, change.definition, change.says, change.number)
        if address not in seen:
            seen.add(address)
            made += 1
            yield found


def _usable(raw: bytes) -> bool:
    return raw.count(b"\n") >= SMALLEST and b"\r" not in raw and b"\f" not in raw and raw.endswith(b"\n")


def _draw(kind: str, file: str, raw: bytes, random_: random.Random) -> Drawn | None:
    try:
        tree = ast.parse(raw)
    except SyntaxError:
        return None
    if kind == "import":
        return _import(file, raw, tree)
    name, scope = random_.choice(list(scopes(tree)))
    parts = [part for part in PARTS[kind](scope) if _fits(kind, part, raw)]
    if not parts:
        return None
    part = random_.choice(parts)
    alike = [each for each in PARTS[kind](scope) if each.says == part.says]
    number = next(i for i, each in enumerate(_in_order(alike)) if each.node is part.node)
    new = _new(kind, part, random_)
    change = Change(kind, file, name, part.says, number, len(alike), new, before=random_.random() < 0.5)  # noqa: PLR2004
    after = _spliced(change, part, Lines(raw))
    if after is None or said(after) not in expected(change, raw):
        return None
    return Drawn(change, raw, after, part)


def _in_order(parts: list[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.node.lineno, part.node.col_offset))  # type: ignore[attr-defined]  # statements and keywords


def _fits(kind: str, part: Part, raw: bytes) -> bool:
    """Tell whether somebody would make such an edit here, so that the file still works after it."""
    lines, statement = Lines(raw), part.statement
    start, end = lines.span(part.statement)
    if kind == "condition":
        assert isinstance(statement, ast.If | ast.While)
        return len(ast.unparse(statement.test)) < LONGEST and raw[start : start + 2] in {b"if", b"wh"}
    if end - start > LONGEST or not isinstance(statement, SIMPLE) or lines.whole(statement) is None:
        return False
    if isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Call):
        return False  # a docstring
    if kind == "deletion":
        return len(part.body) > 1
    if kind == "assignment":
        return _single(statement)
    return not (kind == "return" and isinstance(getattr(statement, "value", None), ast.Constant | type(None)))


def _single(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None and isinstance(statement.target, ast.Name | ast.Attribute)
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name | ast.Attribute)
    )


def _literal(value: ast.AST | None, random_: random.Random) -> str:
    number = random_.randrange(1000, 10000)
    match value:
        case ast.Constant(value=bool() as flag):
            return str(not flag)
        case ast.Constant(value=str()):
            return f"'drift-{number}'"
        case _:
            return str(number)


def _new(kind: str, part: Part, random_: random.Random) -> str:
    match kind:
        case "assignment":
            return _literal(getattr(part.statement, "value", None), random_)
        case "argument":
            assert isinstance(part.node, ast.keyword)
            return _literal(part.node.value, random_)
        case "condition":
            assert isinstance(part.statement, ast.If | ast.While)
            return f"not ({ast.unparse(part.statement.test)})"
        case "return":
            return "return None"
        case "raise":
            return f"raise RuntimeError('drift-{random_.randrange(1000, 10000)}')"
        case "deletion":
            return ""
        case _:
            return INSERTED


def _spliced(change: Change, part: Part, lines: Lines) -> bytes | None:
    """Return the file after the change, None where its text stands so that it cannot be made plainly."""
    raw, new = lines.raw, change.new.encode()
    whole = lines.whole(part.statement)
    match change.kind:
        case "deletion":
            return raw[: whole[0]] + raw[whole[1] :] if whole else None
        case "insertion":
            if whole is None:
                return None
            indent = raw[whole[0] : lines.span(part.statement)[0]]
            at = whole[0] if change.before else whole[1]
            return raw[:at] + indent + new + b"\n" + raw[at:]
        case "argument":
            assert isinstance(part.node, ast.keyword)
            start, end = lines.span(part.node.value)
        case "assignment":
            start, end = lines.span(part.statement.value)  # type: ignore[attr-defined]  # both kinds have one
        case "condition":
            assert isinstance(part.statement, ast.If | ast.While)
            start, end = lines.span(part.statement.test)
            new = b"not (" + raw[start:end] + b")"
        case _:
            start, end = lines.span(part.statement)
    return raw[:start] + new + raw[end:]


def _import(file: str, raw: bytes, tree: ast.Module) -> Drawn | None:
    """Return a change that adds an import below the leading ones."""
    lines, last = Lines(raw), None
    for i, statement in enumerate(tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            last = statement
        elif not (i == 0 and isinstance(statement, ast.Expr)):
            break
    whole = lines.whole(last) if last else None
    if last is None or whole is None:
        return None
    after = raw[: whole[1]] + IMPORT.encode() + b"\n" + raw[whole[1] :]
    return Drawn(Change("import", file, "", "", 0, 1, IMPORT), raw, after, Part("", last, last, tree.body))
