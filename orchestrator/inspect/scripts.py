"""Scripts that a command starts: found in the image, read, and run on paper in their own shell."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from typing import TYPE_CHECKING

from orchestrator.inspect.commands import act_of
from orchestrator.inspect.copying import copy_files, need
from orchestrator.inspect.deeds import LOST, Copy, RunScript
from orchestrator.inspect.expansion import State
from orchestrator.inspect.fates import Options
from orchestrator.inspect.paths import is_known, joined, package_key
from orchestrator.inspect.pyvalues import Names
from orchestrator.inspect.session import ShellRun
from orchestrator.inspect.syntax import Call
from orchestrator.inspect.syntaxes import syntax_fault
from orchestrator.inspect.text import Chunk, Mark
from orchestrator.inspect.world import Edit, Entry, Fetch, Verified

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place
    from orchestrator.inspect.machine import Machine
    from orchestrator.inspect.pyscript import Facts
    from orchestrator.inspect.syntax import Statement, Word

MAX_DEPTH = 8
_SHEBANG = re.compile(r"#!\s*(\S+)(?:[ \t]+([^\n]*))?")


def run_shell(machine: Machine, act: RunScript, place: Place, chunk: Chunk, statement: Statement, weight: str) -> str:  # noqa: PLR0913, PLR0917 - a command and where it stands
    """Run a shell script or a text; return how much its failure matters, which depends on what is in it."""
    found = _source(machine, act, place, chunk, statement)
    if found is None:
        return weight if not act.sourced and (act.path or act.text is None) else ""
    origin, text = found
    options = Options(bash=_is_bash(act, text)).with_flags(act.flags)
    if act.direct and (match := _SHEBANG.match(text.text)):
        name = posixpath.basename(match[1])
        words = (match[2] or "").split()
        if name == "env":
            name, words = (words[0], words[1:]) if words else (name, [])
        if name.startswith(("python", "pypy")):
            return run_python(machine, RunScript("python", act.path, act.arguments), place, chunk, statement, weight)
        options = Options(bash=name in {"bash", "zsh", "ksh"}).with_flags(words)
    if machine.depth >= MAX_DEPTH:
        return weight
    statements = machine.session.shell(text)
    inner = _inner(machine, act, origin)
    inner.run(text, statements)
    if act.sourced:
        machine.state.cwd, machine.state.functions = inner.state.cwd, inner.state.functions
        machine.state.values |= inner.state.values
        return "error" if _acts(machine, text) else ""
    machine.session.runs.setdefault(
        (text.place(0), options, machine.runtime), ShellRun(text, statements, options, machine.runtime)
    )
    return "error" if _acts(machine, text) else "warning" if not machine.runtime and not act.text else ""


def _acts(machine: Machine, text: Chunk) -> bool:
    """Tell whether anything in a text matters."""
    lines = text.text.count("\n") + 1
    first = text.place(0)
    return any(
        weight == "error" and at.file == first.file and first.line <= at.line <= first.line + lines
        for at, weight in machine.session.weights.items()
    )


def _is_bash(act: RunScript, text: Chunk) -> bool:
    if act.sourced or act.direct:
        return "bash" in text.text.split("\n", 1)[0]
    return "bash" in act.flags


def _inner(machine: Machine, act: RunScript, origin: str) -> Machine:
    from orchestrator.inspect.machine import Machine as Shell  # noqa: PLC0415 - the two call each other

    state = machine.state.branched() if act.sourced else State(machine.state.cwd, dict(machine.state.values))
    state.zero = act.path or machine.state.zero
    state.arguments = act.arguments
    inner = Shell(machine.session, machine.image, state, runtime=machine.runtime, depth=machine.depth + 1)
    inner.python = machine.python
    inner.optional = machine.optional
    inner.script = origin or machine.script
    return inner


def _source(
    machine: Machine, act: RunScript, place: Place, chunk: Chunk, statement: Statement
) -> tuple[str, Chunk] | None:
    """Return (path in the context, text) of what is run, or None where it is not there to read."""
    session = machine.session
    if act.text is not None:
        word = _word_of(machine, statement, act.text.removesuffix(LOST))
        if not act.text or ("${" in act.text and word is None):
            return None
        start = (
            word.start + (1 if word and chunk.text.encode()[word.start : word.start + 1] in {b"'", b'"'} else 0)
            if word
            else 0
        )
        return "", Chunk(chunk.file, act.text, (_mark(chunk, start),))
    if not act.path:
        bodies = [r.body for r in statement.redirects if r.body is not None]
        if not bodies or act.module:
            return None
        return "", Chunk(chunk.file, machine.value(bodies[0]), (_mark(chunk, bodies[0].start),))
    files = need(machine, act.path, place)
    path = joined(machine.state.cwd, act.path)
    origin = machine.image.files.get(path)
    text = session.folder.text(origin) if origin else None
    if text is None or origin is None:
        if not files and not machine.optional:
            _say_unknown(machine, act, place)
        return None
    session.deployed.setdefault(origin, path)
    return origin, Chunk(origin, text)


def _say_unknown(machine: Machine, act: RunScript, place: Place) -> None:
    known_missing = any(d.place == place and d.code in {"E810", "E811", "E813", "W890"} for d in machine.session.found)
    if known_missing or machine.runtime or not act.path.endswith((".sh", ".bash", ".py")):
        return
    if posixpath.basename(act.path) == "setup.py":  # a build of what was fetched
        return
    which = "the base image or an earlier command makes it"
    if not is_known(act.path):
        which = "which path that is depends on a variable"
    machine.session.note(
        f"{act.path} was not looked into: {which}", place, "Look at it yourself, or bring it in the build context."
    )


def _word_of(machine: Machine, statement: Statement, text: str) -> Word | None:
    words = statement.command.words if isinstance(statement.command, Call) else ()
    return next((word for word in words if machine.value(word) == text), None)


def _mark(chunk: Chunk, offset: int) -> Mark:
    place = chunk.place(offset)
    return Mark(0, place.line, place.column)


def run_python(machine: Machine, act: RunScript, place: Place, chunk: Chunk, statement: Statement, weight: str) -> str:  # noqa: PLR0913, PLR0917 - a command and where it stands
    """Run a Python script or a text on paper; return how much its failure matters."""
    if act.module:
        return weight
    found = _source(machine, act, place, chunk, statement)
    if found is None:
        return weight
    origin, text = found
    session = machine.session
    if origin:
        session.pythons[origin] = (machine.python, True)
    elif "${" not in text.text and (fault := syntax_fault(text, machine.python)):
        session.found.append(fault)
    names = Names(joined(machine.state.cwd, act.path) if act.path else "", act.arguments, dict(machine.state.values))
    facts = session.python_facts(text, names, origin)
    apply_facts(machine, facts, place, chunk, statement)
    if facts.acts and not machine.runtime:
        return "error"
    if machine.runtime:
        return "error" if any(package_key(path) for path, _ in facts.writes) else ""
    return "warning" if origin else weight


def apply_facts(machine: Machine, facts: Facts, place: Place, chunk: Chunk, statement: Statement) -> None:
    """Do to the image what a Python script does."""
    events = machine.image.events
    for source, target, at, is_tree in facts.copies:
        copy_files(machine, Copy("shutil", (source,), target, into=target.endswith("/") and not is_tree), at)
    for path, at in facts.writes:
        events.append(Edit(joined(machine.state.cwd, path), at, "a Python script"))
    for path, at in facts.reads:
        if not path.startswith(("/", "$")) and is_known(path):
            need(machine, path, at, quiet=True)
    for words, at in facts.commands:
        act = act_of(words)
        if not isinstance(act, RunScript) or act.path:
            machine.acts.effect(act, at, chunk, _bare(statement), words)
    events.extend(Fetch(what, at) for what, at in facts.fetches)
    events.extend(Entry(*entry) for entry in facts.entries)
    if facts.verifies:
        events.append(Verified(place))


def _bare(statement: Statement) -> Statement:
    return dataclasses.replace(statement, redirects=())
