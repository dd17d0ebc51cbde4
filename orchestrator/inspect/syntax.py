"""The shell's syntax tree, as far as `inspect` asks about it: small, frozen, without a trace of the parser's own."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Lit:
    """Fixed text. Quotes and escapes are resolved; `quoted` text is never a glob."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Var:
    """`$name` or `${name…}`; `op` and `operand` are those of `${name:-operand}`, `other` any other form."""

    name: str
    op: str = ""
    operand: Word | None = None
    other: bool = False


@dataclass(frozen=True)
class Subst:
    """`$(…)`, or with `process` `<(…)` and `>(…)`."""

    statements: tuple[Statement, ...]
    process: bool = False


@dataclass(frozen=True)
class Opaque:
    """A part whose value nobody here computes: arithmetic, extended globs."""


Part = Lit | Var | Subst | Opaque


@dataclass(frozen=True)
class Word:
    """One word of a command, with its byte offsets in the text."""

    parts: tuple[Part, ...]
    start: int
    end: int

    @property
    def literal(self) -> str | None:
        """The text, if all of it is fixed."""
        texts = [part.text for part in self.parts if isinstance(part, Lit)]
        return "".join(texts) if len(texts) == len(self.parts) else None


@dataclass(frozen=True)
class Redirect:
    """`op` with its operand, such as `2>` with /dev/null; `body` is the text of a here-document."""

    op: str
    number: str
    word: Word | None
    body: Word | None


@dataclass(frozen=True)
class Assign:
    """`name=value` before a command, or on its own, or behind `export` and its like."""

    name: str
    value: Word | None


@dataclass(frozen=True)
class Call:
    """A simple command."""

    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Declare:
    """`export`, `local`, `declare`, `readonly`: their own status hides that of a substitution in them."""

    variant: str
    assigns: tuple[Assign, ...]
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Binary:
    """`x && y`, `x || y`, `x | y`, `x |& y`."""

    op: str
    x: Statement
    y: Statement


@dataclass(frozen=True)
class Group:
    """`{ …; }`, or with `subshell` `( … )`."""

    statements: tuple[Statement, ...]
    subshell: bool


@dataclass(frozen=True)
class If:
    """`if`; an `elif` is an If alone in `other`."""

    condition: tuple[Statement, ...]
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True)
class Loop:
    """`for`, `while`, `until`, `select`; `variable` and `items` are those of `for`."""

    kind: str
    condition: tuple[Statement, ...]
    body: tuple[Statement, ...]
    variable: str = ""
    items: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Case:
    """`case`: the bodies of its branches."""

    word: Word
    bodies: tuple[tuple[Statement, ...], ...]


@dataclass(frozen=True)
class Function:
    """A definition; its body runs where it is called."""

    name: str
    body: Statement


@dataclass(frozen=True)
class Comparison:
    """`x op y` inside `[[ … ]]` or `(( … ))`."""

    op: str
    x: Word | None
    y: Word | None


@dataclass(frozen=True)
class Test:
    """`[[ … ]]`, `(( … ))`, `let`."""

    __test__ = False  # not pytest's business
    comparisons: tuple[Comparison, ...]
    words: tuple[Word, ...]


Command = Call | Declare | Binary | Group | If | Loop | Case | Function | Test


@dataclass(frozen=True)
class Statement:
    """A command with what stands around it."""

    command: Command | None
    negated: bool
    background: bool
    redirects: tuple[Redirect, ...]
    start: int
    end: int


def nodes(node: object) -> Iterator[object]:
    """Yield a node and all that is in it, in the order in which it is written."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        if isinstance(top, tuple):
            stack.extend(reversed(top))
        elif is_dataclass(top):
            stack.extend(getattr(top, field.name) for field in reversed(fields(top)))


def variables(node: object) -> set[str]:
    """Return the names of all variables that are read in a node."""
    return {found.name for found in nodes(node) if isinstance(found, Var)}


def own_calls(node: object) -> Iterator[Call]:
    """Yield the simple commands in a node, without those in the words of others."""
    if isinstance(node, Call):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from own_calls(item)
    elif is_dataclass(node) and not isinstance(node, Word | Assign | Redirect):
        for field in fields(node):
            yield from own_calls(getattr(node, field.name))


def calls(node: object) -> Iterator[Call]:
    """Yield all simple commands in a node."""
    yield from (found for found in nodes(node) if isinstance(found, Call))
