"""From shell text to its syntax tree. The parser is shfmt (mvdan.cc/sh), a program of its own: it cannot end ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.inspect.syntax import (
    Assign,
    Binary,
    Call,
    Case,
    Command,
    Comparison,
    Declare,
    Function,
    Group,
    If,
    Lit,
    Loop,
    Opaque,
    Part,
    Redirect,
    Statement,
    Subst,
    Test,
    Var,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.inspect.text import Chunk

MAX_BYTES = 1 << 20
SECONDS = 10
MAX_CHAIN = 400  # operators in one list: each is one level deeper in the parser's JSON
MAX_OUTPUT = 96 << 20
MAX_DEPTH = 500
_FAULT = re.compile(r"(?:[^\n]*?:)?(\d+):(\d+|\?): ([^\n]*)")
_GOES_ON = re.compile(rb"(\\|&&|\|)[ \t]*\n")
_SHORT = re.compile(r"\\(.)", re.DOTALL)
_SHORT_QUOTED = re.compile(r'\\([$`"\\\n])')

Json = dict[str, Any]  # the parser's own JSON, seen in this module only


def parse_shell(chunk: Chunk) -> tuple[tuple[Statement, ...], tuple[Diagnostic, ...]]:
    """Return the statements of a text and, where it does not parse, E821 with what stands before the fault.

    Raises `Rejected` (E700) where the parser is not installed.
    """
    raw = chunk.text.encode("utf-8", errors="replace")
    if len(raw) > MAX_BYTES:
        help_ = "Check whether it is the right file."
        return (), (Diagnostic("E821", "this is too large for a script", Place(chunk.file), help=help_),)
    long = any(line.count(b"&&") + line.count(b"|") > MAX_CHAIN for line in _GOES_ON.sub(rb"\1", raw).split(b"\n"))
    output, error = (None, "1:1: a list of too many commands") if long else _run(raw)
    if output is not None:
        try:
            return _statements(output.get("Stmts"), 0), ()
        except RecursionError:
            error = "1:1: nested too deeply"
    found = _FAULT.match(error)
    line, column, message = (int(found[1]), found[2], found[3]) if found else (1, "1", error or "cannot be parsed")
    offset = _offset(raw, line, int(column) if column.isdigit() else 1)
    help_ = "The shell stops at this place, or reads on in a way nobody meant; correct it."
    fault = Diagnostic("E821", f"the shell cannot read this: {message}", chunk.place(offset), help=help_)
    return _before(raw, line), (fault,)


def _before(raw: bytes, line: int) -> tuple[Statement, ...]:
    """Parse the lines before a fault: a shell runs them, whatever comes after."""
    lines = raw.split(b"\n")
    for end in range(line - 1, max(0, line - 8), -1):
        output, _ = _run(b"\n".join(lines[:end]))
        if output is not None:
            try:
                return _statements(output.get("Stmts"), 0)
            except RecursionError:
                return ()
    return ()


def _offset(raw: bytes, line: int, column: int) -> int:
    starts = [0, *(match.end() for match in re.finditer(rb"\n", raw))]
    return starts[min(line, len(starts)) - 1] + column - 1


def _run(raw: bytes) -> tuple[Json | None, str]:
    """Let the parser read a text, in bounded time and space: its JSON grows with the square of the depth."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(raw)
        given.seek(0)
        command = [_program(), "--to-json", "-ln", "bash"]
        child = subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=said)  # noqa: S603 - our own dependency
        stop = threading.Timer(SECONDS, child.kill)
        stop.start()
        try:
            output = child.stdout.read(MAX_OUTPUT + 1) if child.stdout else b""
        finally:
            stop.cancel()
            child.kill()
            if child.stdout:
                child.stdout.close()
            status = child.wait()
        said.seek(0)
        message = said.read().decode("utf-8", errors="replace").strip().removeprefix("<standard input>:")
    if not output or message:
        return None, message or f"1:1: takes too long to parse (status {status})"
    if len(output) > MAX_OUTPUT:
        return None, "1:1: nested too deeply"
    try:
        return json.loads(output), ""
    except (ValueError, RecursionError):
        return None, "1:1: nested too deeply"


@cache
def _program() -> str:
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("shfmt", path=folders)
    if found is None:
        help_ = "It comes with the package shfmt-py; install orchestrator with its dependencies."
        raise Rejected(Diagnostic("E700", "the shell parser `shfmt` is not installed", help=help_))
    return found


def _statements(found: list[Json] | None, depth: int) -> tuple[Statement, ...]:
    if depth > MAX_DEPTH:
        raise RecursionError
    return tuple(_statement(node, depth + 1) for node in found or ())


def _span(node: Json) -> tuple[int, int]:
    return node["Pos"]["Offset"], node["End"]["Offset"]


def _statement(node: Json, depth: int) -> Statement:
    command = node.get("Cmd")
    redirects = tuple(_redirect(found, depth) for found in node.get("Redirs", ()))
    return Statement(
        _command(command, depth + 1) if command else None,
        bool(node.get("Negated")),
        bool(node.get("Background") or node.get("Coprocess")),
        redirects,
        *_span(node),
    )


def _redirect(node: Json, depth: int) -> Redirect:
    word, body = node.get("Word"), node.get("Hdoc")
    return Redirect(
        str(node.get("Op")),
        (node.get("N") or {}).get("Value", ""),
        _word(word, depth) if word else None,
        _word(body, depth, quoted=True) if body else None,
    )


def _command(node: Json, depth: int) -> Command:  # noqa: PLR0911 - one case for each kind
    def inner(key: str) -> tuple[Statement, ...]:
        return _statements(node.get(key), depth)

    match node["Type"]:
        case "CallExpr":
            return Call(_assigns(node.get("Assigns"), depth), _words(node.get("Args"), depth))
        case "DeclClause":
            args = node.get("Args") or []
            named = [a for a in args if not a.get("Naked") or a.get("Name")]
            words = [a["Value"] for a in args if a.get("Naked") and a.get("Value")]
            return Declare(node["Variant"]["Value"], _assigns(named, depth), _words(words, depth))
        case "BinaryCmd":
            return Binary(node["Op"], _statement(node["X"], depth), _statement(node["Y"], depth))
        case "Subshell" | "Block" as kind:
            return Group(inner("Stmts"), kind == "Subshell")
        case "IfClause":
            return _if(node, depth)
        case "WhileClause":
            return Loop("until" if node.get("Until") else "while", inner("Cond"), inner("Do"))
        case "ForClause":
            loop = node.get("Loop") or {}
            name = (loop.get("Name") or {}).get("Value", "")
            return Loop("for", (), inner("Do"), name, _words(loop.get("Items"), depth))
        case "CaseClause":
            bodies = tuple(_statements(item.get("Stmts"), depth) for item in node.get("Items") or ())
            return Case(_word(node["Word"], depth), bodies)
        case "FuncDecl":
            return Function((node.get("Name") or {}).get("Value", ""), _statement(node["Body"], depth))
        case "TimeClause" | "CoprocClause" if node.get("Stmt"):
            return Group((_statement(node["Stmt"], depth),), subshell=False)
        case _:
            comparisons = tuple(_comparisons(node, depth))
            return Test(comparisons, tuple(_loose_words(node, depth)))


def _if(node: Json, depth: int) -> If:
    if depth > MAX_DEPTH:
        raise RecursionError
    after = node.get("Else")
    other: tuple[Statement, ...] = ()
    if after and after.get("Cond"):
        other = (Statement(_if(after, depth + 1), False, False, (), *_span(after)),)
    elif after:
        other = _statements(after.get("Then"), depth)
    return If(_statements(node.get("Cond"), depth), _statements(node.get("Then"), depth), other)


def _assigns(found: list[Json] | None, depth: int) -> tuple[Assign, ...]:
    return tuple(
        Assign((a.get("Name") or {}).get("Value", ""), _word(a["Value"], depth) if a.get("Value") else None)
        for a in found or ()
    )


def _comparisons(node: object, depth: int) -> Iterator[Comparison]:
    for found in _json_nodes(node):
        x, y = found.get("X"), found.get("Y")
        if "Op" in found and "Parts" in (x or {}) and (y is None or "Parts" in y):
            yield Comparison(str(found["Op"]), _word(x, depth), _word(y, depth) if y else None)  # type: ignore[arg-type]  # `x` has parts


def _loose_words(node: object, depth: int) -> Iterator[Word]:
    for found in _json_nodes(node):
        if "Parts" in found and "Type" not in found:
            yield _word(found, depth)


def _json_nodes(node: object) -> Iterator[Json]:
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, dict):
            yield top
            stack.extend(reversed([value for key, value in top.items() if key != "Parts"]))
        elif isinstance(top, list):
            stack.extend(reversed(top))


def _words(found: list[Json] | None, depth: int) -> tuple[Word, ...]:
    return tuple(_word(node, depth) for node in found or ())


def _word(node: Json, depth: int, *, quoted: bool = False) -> Word:
    if depth > MAX_DEPTH:
        raise RecursionError
    return Word(tuple(_parts(node.get("Parts"), depth + 1, quoted=quoted)), *_span(node))


def _parts(found: list[Json] | None, depth: int, *, quoted: bool) -> Iterator[Part]:
    for part in found or ():
        match part["Type"]:
            case "Lit":
                text = part.get("Value", "")
                yield Lit((_SHORT_QUOTED if quoted else _SHORT).sub(_unescaped, text), quoted)
            case "SglQuoted":
                yield Lit(part.get("Value", ""), quoted=True)
            case "DblQuoted":
                yield Lit("", quoted=True)
                yield from _parts(part.get("Parts"), depth + 1, quoted=True)
            case "ParamExp":
                yield _parameter(part, depth)
            case "CmdSubst":
                yield Subst(_statements(part.get("Stmts"), depth))
            case "ProcSubst":
                yield Subst(_statements(part.get("Stmts"), depth), process=True)
            case _:
                yield Opaque()


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _parameter(part: Json, depth: int) -> Var:
    name = (part.get("Param") or {}).get("Value", "")
    expansion = part.get("Exp") or {}
    other = any(part.get(key) for key in ("Length", "Width", "Excl", "Repl", "Slice", "Names"))
    if part.get("Length"):
        return Var(name, "#", None, other=True)
    operand = expansion.get("Word")
    return Var(name, str(expansion.get("Op", "")), _word(operand, depth) if operand else None, other)
