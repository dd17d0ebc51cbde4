"""How a server is started: by an argument list, or by a shell that is given a text, as in `["sh", "-c", "exec …"]`."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.checks.serving.argv import start_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_BEFORE = frozenset({"exec", "export", "env", "nohup", "time"})
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PUNCTUATION = frozenset("();<>|&")


@dataclass(frozen=True)
class Started:
    """The words of the server's own command, the variables that are set before it, and where they stand.

    `at` is the place in the argument list of the text that a shell is given, None where there is no shell: then the
    words are the argument list itself. What only the shell knows (`$PORT`, `$(…)`) is left out, with its option.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    at: int | None = None

    def place(self, index: int) -> int:
        """Return where in the argument list a word stands."""
        return index if self.at is None else self.at


def started(argv: Sequence[str], module: str | None) -> Started:
    """Return how an argument list starts a server; `module` is what the server is started as, None if not known."""
    at = _text_at(argv)
    if at is None:
        return Started(tuple(argv), _assigned(argv) if posixpath.basename(argv[0]) == "env" else {})
    variables: dict[str, str] = {}
    commands = list(_commands(argv[at]))
    for words in commands:
        variables |= _assigned(words)
        if module is not None and start_of(words, module) is not None:
            return Started(tuple(_known(words)), variables, at)
    return Started(tuple(_known(commands[-1])) if commands and module is None else tuple(argv), variables, at)


def _text_at(argv: Sequence[str]) -> int | None:
    """Return where the text for a shell stands, None where there is none."""
    first = next((i for i, word in enumerate(argv) if posixpath.basename(word) in _SHELLS), None)
    if first is None:
        return 0 if len(argv) == 1 and len(argv[0].split()) > 1 else None  # one word that somebody will take apart
    for i in range(first + 1, len(argv) - 1):
        if not argv[i].startswith(("-", "+")):
            return None
        if re.fullmatch(r"-[a-zA-Z]*c", argv[i]):
            return i + 1
    return None


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell's text; what cannot be taken apart yields none."""
    for line in text.replace("\\\n", " ").splitlines():
        reader = shlex.shlex(line, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        command: list[str] = []
        try:
            for word in reader:
                if _PUNCTUATION.issuperset(word):
                    yield command
                    command = []
                else:
                    command.append(word)
        except ValueError:  # a quote that the next line ends
            return
        yield command


def _assigned(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that stand before a command; those with a value that only the shell knows are left out."""
    found: dict[str, str] = {}
    for word in words:
        assigned = _ASSIGNED.fullmatch(word)
        if assigned and not _is_open(assigned[2]):
            found[assigned[1]] = assigned[2]
        elif not assigned and posixpath.basename(word) not in _BEFORE and not word.startswith("-"):
            break
    return found


def _known(words: Sequence[str]) -> Iterator[str]:
    """Yield words, without those that hold something open and without the option that one is the value of."""
    kept: list[str] = []
    for word in words:
        if not _is_open(word):
            kept.append(word)
        elif not word.startswith("-") and kept and kept[-1].startswith("-") and "=" not in kept[-1]:
            kept.pop()
    yield from kept


def _is_open(word: str) -> bool:
    return "$" in word or "`" in word
