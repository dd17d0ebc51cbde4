"""Where the exit status of a command that matters is lost, followed through lists, pipes, branches and functions.

A command's failure ends in one of two ways: the shell stops (`set -e`, where it applies), or its status becomes that
of the list, pipe or branch around it. Each way either reaches the builder or is lost, and for a lost one the reason
is carried along. So one walk judges every spelling.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.inspect.endings import Endings, reads_status
from orchestrator.inspect.fates import Fate, Loss, Options
from orchestrator.inspect.syntax import (
    Assign,
    Binary,
    Call,
    Case,
    Declare,
    Function,
    Group,
    If,
    Loop,
    Redirect,
    Statement,
    Subst,
    Test,
    Word,
    calls,
    nodes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CALLS = 12


@dataclass
class Walk:
    """One pass over a text."""

    options: Options
    found: list[Loss] = field(default_factory=list)
    functions: dict[str, Statement] = field(default_factory=dict)
    depth: int = 0
    whole: tuple[Statement, ...] = ()
    no_pipestatus: list[tuple[int, str]] = field(default_factory=list)
    inside: set[str] = field(default_factory=set)
    returns: str = ""  # why the status of the function that is being called is lost

    @property
    def endings(self) -> Endings:
        """What branches do with a failure, given the functions so far."""
        return Endings(self.functions, self.whole)

    def end(self, fate: Fate) -> str:
        """Return why the status of a simple command is lost, given what `set -e` does with it."""
        return fate.exits if self.options.errexit and fate.unguarded else fate.status

    def statements(self, found: tuple[Statement, ...], fate: Fate) -> None:
        """Judge a list: all but the last are on their own, and the last one's status is that of the list."""
        for at, statement in enumerate(found):
            rest = found[at + 1 :]
            own = fate
            if rest:
                own = Fate(self.between(rest), fate.exits, fate.unguarded)
            self.statement(statement, own, rest)

    def between(self, rest: tuple[Statement, ...]) -> str:
        """Return why the status of a statement that others follow is lost."""
        asked = reads_status(rest[0])
        if asked == "PIPESTATUS" and not self.options.bash:
            self.no_pipestatus.append((rest[0].start, "PIPESTATUS"))
        elif asked:
            if self.endings.status_is_used(rest):
                return ""
            return "what comes next reads its status but does not fail on it"
        if self.endings.always_fails(rest[:1]):
            return ""
        if self.options.errexit:
            return "`set -e` does not stop at a command left of `&&` or `||`, nor inside a condition"
        if self.options.cleared:
            return "after `set +e` the next command runs whatever this one returns"
        return "the next command runs whatever this one returns: there is no `set -e`, and the last status counts"

    def statement(self, statement: Statement, fate: Fate, rest: tuple[Statement, ...] = ()) -> None:  # noqa: C901, PLR0912 - one case for each kind
        """Judge one statement, given what becomes of its status."""
        if statement.negated:
            fate = fate.lost("`!` turns its failure into success")
        if statement.background:
            waited = self.endings.is_waited_for(rest or self.whole)
            fate = Fate(
                "" if waited else "`&` puts it into the background, where nobody waits for its status", "", False
            )
        saved = self.options
        for redirect in statement.redirects:
            self.redirect(redirect)
        match statement.command:
            case Call() as call:
                self.call(statement, call, fate)
            case Declare(variant=variant, assigns=assigns, words=words):
                self.hidden((*assigns, *words), f"`{variant}` succeeds whatever the command in `$(…)` returns")
            case Binary(op="&&", x=x, y=y):
                self.statement(x, self.tried(y, fate, rest))
                self.statement(y, fate)
            case Binary(op="||", x=x, y=y):
                self.either(x, y, fate)
            case Binary():
                self.pipe(statement, fate, rest)
            case Group(statements=inner, subshell=True):
                end = self.end(fate)
                self.statements(inner, Fate(end, end, fate.unguarded))
                self.options = saved
            case Group(statements=inner):
                self.statements(inner, fate)
            case If() as branch:
                self.branch(branch, fate, rest)
            case Loop(kind=kind, condition=condition, body=body, items=items):
                self.hidden(items, "a `for` runs whatever the command in `$(…)` returns")
                gives_up = bool(condition) and (kind == "until") is not condition[-1].negated
                gives_up = gives_up and self.endings.gives_up(body)
                self.each_condition(condition, fate, "`break` leaves the loop with success" if gives_up else "")
                reason = "" if self.options.errexit and fate.unguarded else f"only the last round of `{kind}` counts"
                self.statements(body, Fate(reason or fate.status, fate.exits, fate.unguarded))
            case Case(word=word, bodies=bodies):
                self.hidden((word,), "`case` goes on whatever the command in `$(…)` returns")
                for body in bodies:
                    self.statements(body, fate)
            case Function(name=name, body=body):
                self.functions[name] = body
            case Test(words=words):
                self.hidden(words, "a comparison goes on whatever the command in `$(…)` returns")

    def tried(self, y: Statement, fate: Fate, rest: tuple[Statement, ...]) -> Fate:
        """Return the fate of x in `x && y; rest`: where y leaves, the rest is what is done about a failure of x."""
        if self.endings.leaves((y,)) and not self.endings.does_nothing(rest):
            return Fate(unguarded=False)
        return Fate(fate.status, fate.exits, unguarded=False)

    def call(self, statement: Statement, call: Call, fate: Fate) -> None:
        """Judge a simple command: itself, the function that it calls, the substitutions in its words."""
        end = self.end(fate)
        name = call.words[0].literal if call.words else None
        if not call.words:  # `x=$(…)`: the status is that of the last substitution
            for found in nodes(tuple(assign.value for assign in call.assigns)):
                if isinstance(found, Subst) and not found.process:
                    self.statements(found.statements, Fate(end, end, fate.unguarded))
            return
        self.hidden((*call.assigns, *call.words), f"`{name or 'the command'}` runs whatever the one in `$(…)` returns")
        if name == "set":
            self.options = self.options.with_flags(word.literal or "" for word in call.words[1:])
        elif name == "trap":
            self.trap(statement, call)
        elif name in self.functions and name not in self.inside and self.depth < MAX_CALLS:
            self.depth += 1
            self.inside.add(name)
            saved, self.returns = self.returns, end
            self.statement(self.functions[name], fate)
            self.returns = saved
            self.inside.discard(name)
            self.depth -= 1
        elif end:
            self.found.append(Loss(statement.start, statement.end, end))

    def trap(self, statement: Statement, call: Call) -> None:
        """A trap that ends with `exit 0` makes a success of every failure."""
        text = (call.words[1].literal or "") if len(call.words) > 1 else ""
        signals = {word.literal for word in call.words[2:]}
        if signals & {"EXIT", "0", "ERR"} and self.endings.text_exits_well(text):
            reason = "this trap ends with `exit 0`: every failure becomes a success"
            self.found.append(Loss(statement.start, statement.end, reason, is_trap=True))

    def either(self, x: Statement, y: Statement, fate: Fate) -> None:
        """Judge `x || y`: what becomes of a failing x is what y makes of it."""
        endings = self.endings
        if endings.always_fails((y,)):
            end = {"exit": fate.exits, "return": self.returns}.get(endings.way_out(y), self.end(fate))
            self.statement(x, Fate(end, fate.exits, unguarded=False))
        elif endings.does_nothing((y,)):
            self.statement(x, fate.lost(f"`|| {endings.shown(y)}` makes a success of its failure"))
        else:
            first = len(self.found)
            silent = any(_to_null(redirect) for redirect in x.redirects)
            self.statement(x, fate.lost("its errors are thrown away, and what is tried next hides which one ran"))
            kept = [dataclasses.replace(loss, mild=True) for loss in self.found[first:]] if silent else []
            del self.found[first:]
            self.found += kept
        self.statement(y, fate)

    def pipe(self, statement: Statement, fate: Fate, rest: tuple[Statement, ...]) -> None:
        """Judge a pipe: without pipefail only the last command's status counts."""
        elements: list[Statement] = []
        stack = [statement]
        while stack:
            top = stack.pop()
            if (
                isinstance(top.command, Binary)
                and top.command.op in {"|", "|&"}
                and (not top.negated or top is statement)
            ):
                stack += [top.command.y, top.command.x]
            else:
                elements.append(top)
        asked = bool(rest) and reads_status(rest[0]) == "PIPESTATUS" and self.options.bash
        saved = self.options
        for at, element in enumerate(elements):
            own = fate
            if at < len(elements) - 1 and not self.options.pipefail:
                reason = "" if asked else "only the status of the last command of a pipe counts (no `set -o pipefail`)"
                own = Fate(reason, reason, fate.unguarded)
            first = len(self.found)
            self.statement(element, own)
            if at < len(elements) - 1:
                name = _name(elements[at + 1])
                self.found[first:] = [
                    dataclasses.replace(loss, consumer=loss.consumer or name) for loss in self.found[first:]
                ]
            self.options = saved

    def branch(self, branch: If, fate: Fate, rest: tuple[Statement, ...]) -> None:
        """Judge an `if`: a failing condition is lost where the branch for it does nothing about it."""
        negated = len(branch.condition) == 1 and branch.condition[0].negated
        failing = branch.then if negated else branch.other
        if not failing and self.endings.leaves(branch.then):
            failing = rest  # found: leave; what comes after is for the failure
        saved = self.options
        if self.endings.does_nothing(failing):
            word = "then" if negated else "else"
            reason = f"the `{word}` for its failure does nothing about it" if failing else "the `if` has no `else`"
            self.each_condition(branch.condition, fate, reason)
        else:
            self.each_condition(branch.condition, fate)
        self.statements(branch.then, fate)
        after = self.options
        self.options = saved
        self.statements(branch.other, fate)
        self.options = after

    def each_condition(self, condition: tuple[Statement, ...], fate: Fate, reason: str = "") -> None:
        """Judge the commands of a condition; without a reason their failure is what is asked for."""
        first = len(self.found)
        for statement in condition:
            self.statement(dataclasses.replace(statement, negated=False), Fate(reason, fate.exits, unguarded=False))
        self.found[first:] = [dataclasses.replace(loss, in_condition=True) for loss in self.found[first:]]

    def redirect(self, redirect: Redirect) -> None:
        """A process substitution has no status that anyone could ask for."""
        if redirect.word is not None:
            self.hidden((redirect.word,), "the status of `<(…)` is asked by nobody")

    def hidden(self, found: Iterable[Word | Assign], reason: str) -> None:
        """Judge the substitutions in words whose command hides their status."""
        for node in nodes(tuple(found)):
            if isinstance(node, Subst):
                saved = self.options
                self.statements(node.statements, Fate(reason, reason, unguarded=True))
                self.options = saved


def _name(statement: Statement) -> str:
    call = next(calls(statement), None)
    words = [word.literal or "" for word in call.words] if call else []
    return next(
        (
            word.rpartition("/")[2]
            for word in words
            if word and word not in {"sudo", "exec"} and not word.startswith("-")
        ),
        "",
    )


def _to_null(redirect: Redirect) -> bool:
    target = redirect.word.literal if redirect.word else None
    return target == "/dev/null" and (redirect.number == "2" or redirect.op.startswith("&"))


def losses(statements: tuple[Statement, ...], options: Options) -> tuple[list[Loss], list[tuple[int, str]]]:
    """Return every simple command whose failure is lost, whether it matters or not.

    With it come the offsets of what only bash has, where the shell is `sh`.
    """
    walk = Walk(options, whole=statements)
    walk.statements(statements, Fate())
    unique: dict[tuple[int, int], Loss] = {}
    for loss in walk.found:
        unique.setdefault((loss.offset, loss.end), loss)
    return list(unique.values()), walk.no_pipestatus
