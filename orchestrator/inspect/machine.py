"""Runs shell text on paper: follows the working directory, the variables and the files, and records what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.inspect.acts import Acts
from orchestrator.inspect.commands import act_of
from orchestrator.inspect.expansion import MAX_ITEMS, Expansion, State
from orchestrator.inspect.marks import note_signs
from orchestrator.inspect.paths import joined
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
    Statement,
    Subst,
    Test,
    Word,
)
from orchestrator.inspect.wrappers import unwrapped

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place
    from orchestrator.inspect.session import Session
    from orchestrator.inspect.text import Chunk
    from orchestrator.inspect.world import Image

MAX_DEPTH = 10
MAX_STEPS = 50_000
_EXISTS = frozenset({"-f", "-e", "-d", "-s", "-r", "-x", "-L", "-h"})


class Machine(Expansion):
    """One shell, with the image that its commands work on."""

    def __init__(self, session: Session, image: Image, state: State, *, runtime: bool = False, depth: int = 0) -> None:
        self.session, self.image, self.state = session, image, state
        self.runtime, self.depth = runtime, depth
        self.python: tuple[int, int] | None = None  # the version that the image has
        self.script = ""  # the file of the context that is being run
        self.optional = 0
        self.calling: set[str] = set()
        self.acts = Acts(self)

    def run(self, chunk: Chunk, statements: tuple[Statement, ...]) -> None:
        """Run a list of statements."""
        for statement in statements:
            self.session.steps += 1
            if self.session.steps > MAX_STEPS:  # loops in loops in scripts: what matters was seen in the first rounds
                return
            for redirect in statement.redirects:
                self._substitutions(chunk, redirect.word)
            self._statement(chunk, statement)

    def _statement(self, chunk: Chunk, statement: Statement) -> None:  # noqa: C901, PLR0912 - one case for each kind
        if isinstance(statement.command, Binary | If):
            note_signs(self, chunk, statement)
        match statement.command:
            case Call() as call:
                self._call(chunk, statement, call)
            case Declare(assigns=assigns, words=words):
                self._assign(assigns)
                for word in (*(assign.value for assign in assigns), *words):
                    self._substitutions(chunk, word)
            case Binary(op="&&", x=x, y=y):
                self._statement(chunk, x)
                self._guarded(chunk, (y,), self._asks_existence(x))
            case Binary(op="||", x=x, y=y):
                self._statement(chunk, x)
                self._apart(chunk, (y,), self._asks_existence(x))
            case Binary(x=x, y=y):
                self._apart(chunk, (x,))
                self._apart(chunk, (y,))
            case Group(statements=inner, subshell=True):
                self._apart(chunk, inner)
            case Group(statements=inner):
                self.run(chunk, inner)
            case If() as branch:
                self._branch(chunk, branch)
            case Loop() as loop:
                self._loop(chunk, loop)
            case Case(bodies=bodies):
                for body in bodies:
                    self._apart(chunk, body, optional=True)
            case Function(name=name, body=body):
                self.state.functions[name] = body
        if not isinstance(statement.command, Call):
            self.acts.redirects(chunk, statement)

    def _apart(self, chunk: Chunk, inner: tuple[Statement, ...], *flags: bool, optional: bool = False) -> None:
        """Run statements whose directory and variables do not come back."""
        saved, self.state = self.state, self.state.branched()
        self._guarded(chunk, inner, optional or any(flags))
        self.state = saved

    def _guarded(self, chunk: Chunk, inner: tuple[Statement, ...], optional: bool) -> None:  # noqa: FBT001 - private, one meaning
        self.optional += optional
        self.run(chunk, inner)
        self.optional -= optional

    def _asks_existence(self, statement: Statement) -> bool:
        match statement.command:
            case Test(comparisons=comparisons):
                return any(c.op in _EXISTS for c in comparisons)
            case Call(words=words) if words and words[0].literal in {"test", "[", "ls", "stat", "compgen"}:
                return (words[0].literal in {"ls", "stat", "compgen"} and len(words) > 1) or any(
                    w.literal in _EXISTS for w in words
                )
            case Binary(x=x, y=y):
                return self._asks_existence(x) or self._asks_existence(y)
            case Group(statements=inner):
                return any(self._asks_existence(s) for s in inner)
            case _:
                return False

    def _branch(self, chunk: Chunk, branch: If) -> None:
        self.run(chunk, branch.condition)
        optional = any(self._asks_existence(s) for s in branch.condition)
        before = self.state
        self.state = before.branched()
        self._guarded(chunk, branch.then, optional)
        after_then, self.state = self.state, before
        self._guarded(chunk, branch.other, optional)
        merged = self.state
        for name in after_then.values.keys() | merged.values.keys():
            if after_then.values.get(name) != merged.values.get(name):
                merged.values[name] = None
        if after_then.cwd != merged.cwd:
            merged.cwd = "${cwd}"

    def _loop(self, chunk: Chunk, loop: Loop) -> None:
        self.run(chunk, loop.condition)
        items = [text for word in loop.items for text in self._globbed(word)]
        if not loop.variable or not items or len(items) > MAX_ITEMS or any("${" in item for item in items):
            if loop.variable:
                self.state.values[loop.variable] = None
            self.run(chunk, loop.body)
            return
        for item in items:
            self.state.values[loop.variable] = item
            self.run(chunk, loop.body)

    def _globbed(self, word: Word) -> list[str]:
        """Return what a word of a `for` stands for, with names of files for a pattern."""
        found = []
        for text in self.words(word):
            if set("*?[") & set(text) and "${" not in text:
                path = joined(self.state.cwd, text)
                _, files = self.image.find(path)
                depth = path.count("/") + 1
                names = sorted({"/".join(f.split("/")[:depth]) for f in files})
                found += names or [text]
            else:
                found.append(text)
        return found

    def _assign(self, assigns: tuple[Assign, ...]) -> None:
        for assign in assigns:
            if assign.name:
                value = self.value(assign.value) if assign.value else self.state.values.get(assign.name, "")
                self.state.values[assign.name] = value

    def _call(self, chunk: Chunk, statement: Statement, call: Call) -> None:
        if not call.words:
            self._assign(call.assigns)
            for assign in call.assigns:
                self._substitutions(chunk, assign.value)
            self.acts.redirects(chunk, statement)
            return
        words = [text for word in call.words for text in self.words(word)]
        for word in call.words:
            self._substitutions(chunk, word)
        if not words:
            return
        place = chunk.place(statement.start, max(1, statement.end - statement.start))
        name = words[0]
        if name in self.state.functions and name not in self.calling and len(self.calling) < MAX_DEPTH:
            saved = self.state.arguments
            self.state.arguments = tuple(words[1:])
            self.calling.add(name)
            self._statement(chunk, self.state.functions[name])
            self.calling.discard(name)
            self.state.arguments = saved
            return
        if name == "popd":
            self.state.cwd = "${cwd}"
            return
        if name == "find":
            self._find_exec(words, place)
        self.acts.redirects(chunk, statement)
        self.acts.perform(act_of(words), place, chunk, statement, words)

    def _find_exec(self, words: list[str], place: Place) -> None:
        r"""`find … -exec cp {} … \;` succeeds whatever cp returns; with `+` it does not."""
        at = next((i for i, word in enumerate(words) if word in {"-exec", "-execdir"}), None)
        if at is None or ";" not in words[at:]:
            return
        inner = unwrapped(words[at + 1 : words.index(";", at)])
        weight = self.acts.weight(act_of(inner), self.runtime)
        if weight == "error" and not self.runtime:
            message = "`find -exec … \\;` succeeds whatever the command that it runs returns"
            help_ = "End it with `+`, or loop over the files with `set -e`."
            self.session.report("E801", f"{inner[0]}: {message}", place, help_)

    def _substitutions(self, chunk: Chunk, word: Word | None) -> None:
        for part in word.parts if word else ():
            if isinstance(part, Subst):
                self._apart(chunk, part.statements)
