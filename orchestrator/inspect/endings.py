"""What a branch does with a failure: it fails too, it does nothing about it, or it does something real."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from orchestrator.inspect.syntax import (
    Binary,
    Call,
    Case,
    Comparison,
    Declare,
    Group,
    If,
    Loop,
    Statement,
    Test,
    Var,
    calls,
    nodes,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDLE = frozenset(
    [
        "echo",
        "printf",
        "true",
        ":",
        "cat",
        "sleep",
        "continue",
        "break",
        "logger",
        "warn",
        "warning",
        "info",
        "log",
        "tput",
        "date",
        "touch",
        "rm",
        "set",
        "shift",
        "unset",
        "test",
        "[",
        "ls",
        "pwd",
        "wait",
        "cd",
        "popd",
        "pushd",
        "read",
    ]
)
_DYING = re.compile(
    r"(die|fail|fatal|abort|panic|err_?exit|error_?(exit|out)|exit_?(with_?)?(error|fail\w*))", re.IGNORECASE
)
_SETTING = frozenset(["++", "--", "+=", "=", "|=", "-="])
MAX_DEPTH = 20


def reads_status(statement: Statement) -> str:
    """Return PIPESTATUS or `?` where a statement asks for the status of the one before, else an empty string."""
    names = variables(statement)
    return "PIPESTATUS" if "PIPESTATUS" in names else "?" if "?" in names else ""


@dataclass(frozen=True)
class Endings:
    """Judges branches; `functions` are those defined so far, `whole` is all the text."""

    functions: Mapping[str, Statement]
    whole: tuple[Statement, ...]

    def always_fails(self, found: tuple[Statement, ...], depth: int = 0) -> bool:
        """Tell whether a list ends the script or the function with a failure."""
        return any(self._fails(statement, depth) for statement in found)

    def _fails(self, statement: Statement, depth: int) -> bool:
        if depth > MAX_DEPTH or statement.negated or statement.background:
            return False
        match statement.command:
            case Call(words=words) if words:
                name = words[0].literal or ""
                value = words[1].literal if len(words) > 1 else None
                if name in {"exit", "return"}:
                    return len(words) == 1 or value is None or value.strip("0") != ""
                if name in self.functions:
                    return self._fails(self.functions[name], depth + 1)
                return (
                    name == "false" or (name == "kill" and "$" in variables(statement)) or bool(_DYING.fullmatch(name))
                )
            case Group(statements=inner):
                return self.always_fails(inner, depth + 1)
            case Binary(op="&&" | "||" | "|", x=x, y=y):
                return self._fails(y, depth + 1) and (statement.command.op != "||" or not self._real(x, depth))
            case If(then=then, other=other):
                return self.always_fails(then, depth + 1) and self.always_fails(other, depth + 1)
            case _:
                return False

    def way_out(self, statement: Statement, depth: int = 0) -> str:
        """Return how a failing branch ends: `exit`, `return`, or empty where it only has a status."""
        for call in calls(statement):
            name = (call.words[0].literal or "") if call.words else ""
            if name in {"exit", "return", "kill"} or _DYING.fullmatch(name):
                return "return" if name == "return" else "exit"
            if name in self.functions and depth < MAX_DEPTH:
                inner = self.way_out(self.functions[name], depth + 1)
                return "exit" if inner == "exit" else ""
        return ""

    def leaves(self, found: tuple[Statement, ...], depth: int = 0) -> bool:
        """Tell whether a list ends with leaving the script or the function, with whatever status."""
        match found[-1].command if found and depth < MAX_DEPTH else None:
            case Call(words=(first, *_)):
                return first.literal in {"exit", "return"}
            case Group(statements=inner, subshell=False):
                return self.leaves(inner, depth + 1)
            case Binary(op="&&" | "||", y=y):
                return self.leaves((y,), depth + 1)
            case _:
                return False

    def does_nothing(self, found: tuple[Statement, ...]) -> bool:
        """Tell whether a branch only talks: no command in it could make up for the failure, or report it upwards."""
        return not any(self._real(statement, 0) for statement in found)

    def _real(self, statement: Statement, depth: int) -> bool:  # noqa: C901, PLR0911, PLR0912 - one case for each kind
        """Tell whether a statement does something about a failure."""
        if depth > MAX_DEPTH:
            return True
        match statement.command:
            case Call(assigns=assigns, words=()):
                return any(self._asked_later(assign.name) for assign in assigns)
            case Declare(assigns=assigns):
                return any(self._asked_later(assign.name) for assign in assigns)
            case Call(words=words):
                name = words[0].literal or ""
                if name in {"exit", "return"}:
                    return self._fails(statement, depth)
                if name in self.functions:
                    return self._real(self.functions[name], depth + 1)
                return name not in _IDLE
            case Group(statements=inner):
                return any(self._real(s, depth + 1) for s in inner)
            case Binary(x=x, y=y):
                return self._real(x, depth + 1) or self._real(y, depth + 1)
            case If(condition=condition, then=then, other=other):
                return any(self._real(s, depth + 1) for s in (*condition, *then, *other))
            case Loop(body=body):
                return any(self._real(s, depth + 1) for s in body)
            case Case(bodies=bodies):
                return any(self._real(s, depth + 1) for body in bodies for s in body)
            case Test(comparisons=comparisons):  # `(( failures++ ))`
                return any(
                    self._asked_later(n) for c in comparisons if c.op in _SETTING for n in variables(c) | _names(c)
                )
            case _:
                return False

    def _asked_later(self, name: str, *, status: bool = False) -> bool:
        """Tell whether a variable decides anything: it is read by a test, a condition, `exit` or `return`.

        A status that is only compared with one unusual number, such as 124, is not asked whether anything failed.
        """
        asking = [found for found in nodes(self.whole) if _decides(found) and name in variables(found)]
        return any(not (status and _is_unusual(found)) for found in asking)

    def gives_up(self, body: tuple[Statement, ...]) -> bool:
        """Tell whether a loop's body leaves the loop with `break`, and so with success."""
        left = any(call.words and call.words[0].literal == "break" for call in calls(body))
        return left and not self.always_fails(body)

    def status_is_used(self, rest: tuple[Statement, ...]) -> bool:
        """Tell whether the statement after a command, which reads its status, lets a failure through."""
        first = rest[0]
        match first.command:
            case Call(words=words) if words and words[0].literal in {"exit", "return"}:
                return True
            case Call(assigns=assigns, words=()) | Declare(assigns=assigns):
                return any(self._asked_later(assign.name, status=True) for assign in assigns)
            case If(condition=condition, then=then, other=other):
                branch = other if _asks_for_success(condition) else then
                return not self.does_nothing(branch)
            case Binary(op="||", y=y) | Binary(op="&&", y=y):
                return self._real(y, 0)
            case Case(bodies=bodies):
                return any(not self.does_nothing(body) for body in bodies)
            case Test():
                return True
            case Call(words=words):
                return bool(words) and words[0].literal in {"test", "["}
            case _:
                return False

    def is_waited_for(self, rest: tuple[Statement, ...]) -> bool:
        """Tell whether someone waits for a background command by name: only then its status comes back."""
        waits = [call for call in calls(rest) if call.words and call.words[0].literal == "wait"]
        return any(len(call.words) > 1 for call in waits)

    @staticmethod
    def text_exits_well(text: str) -> bool:
        """Tell whether the text of a trap ends the shell with success."""
        return bool(re.search(r"(^|[;\s{&])(exit\s+0|true\s*;\s*exit\s+0)\s*;?\s*}?\s*$", text))

    def shown(self, statement: Statement) -> str:
        """Return a branch in a word or two."""
        names = [call.words[0].literal or "…" for call in calls(statement) if call.words]
        more = " 0" if names[:1] in (["exit"], ["return"]) else " …" if names[:1] in (["echo"], ["printf"]) else ""
        return f"{names[0]}{more}" if names else "…"


def _asks_for_success(condition: tuple[Statement, ...]) -> bool:
    """Tell whether a condition holds when the status is zero: `[ $? -eq 0 ]`, `(( $? == 0 ))`."""
    words: list[str] = []
    for found in nodes(condition):
        match found:
            case Call(words=given):
                words += [word.literal or "" for word in given]
            case Test(comparisons=comparisons):
                words += [c.op for c in comparisons]
    return bool({"-eq", "=", "=="} & set(words))


def _is_unusual(found: object) -> bool:
    """Tell whether a test compares with a status that no ordinary failure has: `[ $rc -eq 124 ]`."""
    match found:
        case Call(words=words):
            literals = [word.literal or "" for word in words]
            pairs = list(pairwise(literals))
        case Test(comparisons=comparisons):
            pairs = [(c.op, c.y.literal or "" if c.y is not None else "") for c in comparisons]
        case _:
            return False
    equal = [after for word, after in pairs if word in {"-eq", "=", "=="}]
    return bool(equal) and all(after.isdigit() and int(after) > 1 for after in equal)


def _names(found: Comparison) -> set[str]:
    return {word.literal or "" for word in (found.x, found.y) if word is not None}


def _decides(found: object) -> bool:
    match found:
        case Test(comparisons=comparisons):
            return not any(c.op in _SETTING for c in comparisons)
        case Case():
            return True
        case Call(words=words) if words:
            name = words[0].literal
            return name in {"exit", "return", "test", "["} or (name is None and isinstance(words[0].parts[0], Var))
        case _:
            return False
