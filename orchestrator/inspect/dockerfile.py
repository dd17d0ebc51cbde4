"""A Dockerfile's instructions with their places, read as the builder reads them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Severity, did_you_mean
from orchestrator.inspect.text import Chunk, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

KNOWN = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "MAINTAINER",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)
_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.+?)\s*")
_TEMPLATE = re.compile(r"\s*(\{\{|\{%|\{#|<%)")
_HEREDOC = re.compile(r"(\d*)<<(-?)([^<]+)")
_SHELL_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_FLAG = re.compile(r"\s*(--[a-z][a-z-]*(?:=(?:\"[^\"]*\"|\S*))?)(?=\s|$)")
_VARIABLE = re.compile(
    r"\\(.)|\$(?:\{([A-Za-z_]\w*)(?:(:?[-+?]|#{1,2}|%{1,2}|//?)([^}]*))?\}|([A-Za-z_]\w*))", re.DOTALL
)


@dataclass(frozen=True)
class Heredoc:
    """A here-document of an instruction; `quoted` ones are taken as they stand."""

    name: str
    quoted: bool
    body: Chunk


@dataclass(frozen=True)
class Instruction:
    """One instruction. `body` is what follows the flags; `arguments` are the strings of its JSON form."""

    name: str
    place: Place
    flags: tuple[tuple[str, str], ...]
    body: Chunk
    arguments: tuple[str, ...] | None = None
    heredocs: tuple[Heredoc, ...] = ()

    def flag(self, name: str) -> str | None:
        """Return the value of a flag."""
        return next((value for key, value in self.flags if key == name), None)

    def words(self) -> list[tuple[str, Place]]:
        """Return the words, of the JSON form or parted by blanks, each with its place."""
        if self.arguments is not None:
            return [(word, self.body.place(0, max(1, len(self.body.text)))) for word in self.arguments]
        return [
            (match[0], self.body.place(_bytes(self.body.text[: match.start()]), len(match[0])))
            for match in re.finditer(r"\S+", self.body.text)
        ]


@dataclass
class _Reader:
    file: str
    lines: list[str]
    escape: str = "\\"
    at: int = 0
    found: list[Instruction] = field(default_factory=list)
    faults: list[Diagnostic] = field(default_factory=list)

    def fault(self, message: str, place: Place, help_: str) -> None:
        self.faults.append(Diagnostic("E822", message, place, help=help_))


def read_dockerfile(file: str, text: str) -> tuple[tuple[Instruction, ...], tuple[Diagnostic, ...]]:
    """Return the instructions of a Dockerfile and an E822 for each thing that no builder would take."""
    template = next((n for n, line in enumerate(text.split("\n"), 1) if _TEMPLATE.match(line)), 0)
    if template:
        message = "this is a template and no Dockerfile yet, so it was not looked into"
        place = Place(file, template, 1)
        help_ = "Inspect what is made from it."
        return (), (Diagnostic("W890", message, place, help=help_, severity=Severity.NOTE),)
    reader = _Reader(file, text.split("\n"))
    _read_directives(reader)
    while reader.at < len(reader.lines):
        line = reader.lines[reader.at]
        if not line.strip() or line.lstrip().startswith("#"):
            reader.at += 1
            continue
        _read_instruction(reader)
    return tuple(reader.found), tuple(reader.faults)


def _read_directives(reader: _Reader) -> None:
    for line in reader.lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            return
        if match[1].lower() == "escape" and match[2] in {"\\", "`"}:
            reader.escape = match[2]
        reader.at += 1


def _read_instruction(reader: _Reader) -> None:
    first = reader.at
    logical = _joined(reader)
    keyword = re.match(r"\s*(\S+)\s*", logical.text)
    if keyword is None:
        return
    name = keyword[1].upper()
    place = logical.place(_bytes(logical.text[: keyword.start(1)]), len(keyword[1]))
    if name not in KNOWN:
        hint = did_you_mean(name, KNOWN) if len(name) > 2 else ""  # noqa: PLR2004 - a shorter word is near to anything
        help_ = (
            hint if hint.startswith("did") else "Begin the line with an instruction, or end the one before with `\\`."
        )
        reader.fault(f"`{keyword[1][:40]}` is no instruction", place, help_)
        return
    rest = logical.text[keyword.end() :]
    if name == "ONBUILD":  # its instruction runs in another build, on files that are not here
        return
    start = keyword.end()
    flags: list[tuple[str, str]] = []
    while name in {"ADD", "COPY", "FROM", "HEALTHCHECK", "RUN"} and (match := _FLAG.match(rest)):
        key, _, value = match[1].removeprefix("--").partition("=")
        flags.append((key, value.strip('"')))
        rest, start = rest[match.end() :], start + match.end()
    start += len(rest) - len(rest.lstrip())
    body = _cut(logical, start)
    heredocs = _heredocs(reader, body.text, first) if name in {"ADD", "COPY", "RUN"} else ()
    if not body.text.strip():
        reader.fault(f"{name} says nothing", place, "Complete it or remove it.")
        return
    reader.found.append(Instruction(name, place, tuple(flags), body, _json_form(body.text), heredocs))


def _joined(reader: _Reader) -> Chunk:
    """Read on from the current line through its continuations; comments and empty lines between them fall out."""
    parts: list[str] = []
    marks: list[Mark] = []
    size = 0
    ends = re.compile(re.escape(reader.escape) + r"[ \t]*$")
    while reader.at < len(reader.lines):
        line = reader.lines[reader.at]
        reader.at += 1
        if parts and (not line.strip() or line.lstrip().startswith("#")):
            continue
        kept = ends.sub("", line)
        marks.append(Mark(size, reader.at, 1))
        parts.append(kept)
        size += _bytes(kept)
        if kept == line:
            break
    return Chunk(reader.file, "".join(parts), tuple(marks))


def _cut(chunk: Chunk, start: int) -> Chunk:
    """Return a one-line chunk from character `start` on."""
    offset = _bytes(chunk.text[:start])
    place = chunk.place(offset)
    marks = [Mark(0, place.line, place.column)]
    marks += [Mark(mark.offset - offset, mark.line, mark.column) for mark in chunk.marks if mark.offset > offset]
    return Chunk(chunk.file, chunk.text[start:].rstrip(), tuple(marks))


def _heredocs(reader: _Reader, text: str, first: int) -> tuple[Heredoc, ...]:
    found = []
    if "<<" not in text:
        return ()
    for word in _SHELL_WORD.findall(text):
        match = _HEREDOC.fullmatch(word)
        name = match[3].strip("\"'") if match else ""
        if match is None or not name:
            continue
        start = reader.at
        body: list[str] = []
        while reader.at < len(reader.lines):
            line = reader.lines[reader.at]
            reader.at += 1
            if (line.lstrip("\t") if match[2] else line) == name:
                break
            body.append(line.lstrip("\t") if match[2] else line)
        else:
            help_ = f"End it with a line that holds {name} and nothing else."
            reader.fault(f"the here-document <<{name} has no end", Place(reader.file, first + 1, 1), help_)
        tabs = [
            len(line) - len(line.lstrip("\t")) if match[2] else 0 for line in reader.lines[start : start + len(body)]
        ]
        marks, size = [], 0
        for number, (line, skipped) in enumerate(zip(body, tabs, strict=True)):
            marks.append(Mark(size, start + number + 1, skipped + 1))
            size += _bytes(line) + 1
        chunk = Chunk(reader.file, "".join(f"{line}\n" for line in body), tuple(marks) or (Mark(0, start + 1, 1),))
        found.append(Heredoc(name, match[3] != name, chunk))
    return tuple(found)


def _json_form(text: str) -> tuple[str, ...] | None:
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list) and all(isinstance(item, str) for item in found):
        return tuple(found)
    return None


def with_heredocs(instruction: Instruction) -> Chunk:
    """Return what the shell gets of a RUN: the line, then its here-documents."""
    text, marks = instruction.body.text, list(instruction.body.marks)
    for heredoc in instruction.heredocs:
        text += "\n"
        size = _bytes(text)
        marks += [Mark(size + mark.offset, mark.line, mark.column) for mark in heredoc.body.marks]
        text += f"{heredoc.body.text}{heredoc.name}"
    return Chunk(instruction.body.file, text, tuple(marks))


def expand(text: str, values: Mapping[str, str | None]) -> str:
    """Return a word with variables replaced and quotes taken off; what is unknown stays as `${name}`."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        if text[0] == "'":
            return text[1:-1]
        text = text[1:-1]

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        name, op, operand = match[2] or match[5], match[3] or "", match[4] or ""
        known = values.get(name)
        if op.endswith("-") and (name not in values or known == ""):
            return expand(operand, values)
        if op.endswith("+"):
            return expand(operand, values) if name in values else ""
        if op and op not in {":?", "?", ":-", "-"}:
            return f"${{{name}}}"
        return f"${{{name}}}" if known is None else known

    return _VARIABLE.sub(value, text)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="surrogatepass"))
