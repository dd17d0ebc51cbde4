"""Goes through a Dockerfile's instructions, stage by stage, with a machine for each RUN."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.inspect.bases import python_of
from orchestrator.inspect.commands import act_of
from orchestrator.inspect.dockerfile import expand, with_heredocs
from orchestrator.inspect.expansion import State
from orchestrator.inspect.fates import Options
from orchestrator.inspect.machine import Machine
from orchestrator.inspect.mounts import bind_mounts
from orchestrator.inspect.paths import is_known, joined, package_key
from orchestrator.inspect.session import ShellRun
from orchestrator.inspect.sources import matches
from orchestrator.inspect.syntax import Call, Lit, Statement, Word
from orchestrator.inspect.world import Fetch, Image, Put

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place
    from orchestrator.inspect.dockerfile import Instruction
    from orchestrator.inspect.session import Session, Version
    from orchestrator.inspect.text import Chunk

_AUTOMATIC = ("TARGETPLATFORM", "TARGETOS", "TARGETARCH", "TARGETVARIANT", "BUILDPLATFORM", "BUILDOS", "BUILDARCH")
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")


@dataclass
class Stage:
    """One stage of the build: its image, its settings, and where its base stands."""

    name: str
    place: Place
    base: str
    image: Image
    cwd: str
    environment: dict[str, str | None] = field(default_factory=dict)
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    python: Version | None = None
    external: bool = True
    last: dict[str, Instruction] = field(default_factory=dict)


@dataclass(frozen=True)
class Copied:
    """One source of COPY or ADD with its target; `into`: the target is a folder, `alone`: it is the only source."""

    source: str
    target: str
    into: bool
    place: Place
    alone: bool = True


class Build:
    """The walk through one Dockerfile."""

    def __init__(self, session: Session, python: Version | None) -> None:
        self.session, self.given = session, python
        self.stages: list[Stage] = []
        self.arguments: dict[str, str | None] = dict.fromkeys(_AUTOMATIC)

    def run(self, instructions: tuple[Instruction, ...]) -> None:
        """Go through all of it, then through what the container starts."""
        for instruction in instructions:
            if instruction.name == "FROM":
                self._from(instruction)
            elif not self.stages:
                if any(fault.code == "E822" for fault in self.session.found):
                    continue
                if instruction.name == "ARG":
                    self._arg(instruction, self.arguments)
                else:
                    help_ = "Begin with FROM."
                    self.session.report(
                        "E822", f"{instruction.name} stands before the first FROM", instruction.place, help_
                    )
            else:
                self._instruction(self.stages[-1], instruction)
        for stage in self.stages:
            for name in ("ENTRYPOINT", "CMD"):
                if name in stage.last:
                    self._run(stage, stage.last[name], runtime=True)

    def _from(self, instruction: Instruction) -> None:
        words = instruction.words()
        spelled, place = words[0]
        base = expand(spelled, self.arguments)
        alias = words[2][0] if len(words) > 2 and words[1][0].upper() == "AS" else ""  # noqa: PLR2004 - FROM x AS y
        parent = next((s for s in reversed(self.stages) if s.name.lower() == base.lower()), None)
        if parent is not None:
            stage = replace(parent, name=alias, place=place, image=parent.image.branched(), external=False, last={})
            stage.environment = dict(parent.environment)
            self.stages.append(stage)
            return
        known = is_known(base)
        python = self.given or (python_of(base) if known else None)
        official = python_of(base) and "python" in base.split("/")[-1].split(":")[0]
        cwd = "/" if base == "scratch" or official else "${cwd}"
        self.stages.append(Stage(alias or str(len(self.stages)), place, base, Image(), cwd, python=python))
        if not known:
            self.session.note(f"{spelled} is not known here: which image that is, and whether it is pinned", place)

    def _instruction(self, stage: Stage, instruction: Instruction) -> None:
        values = stage.environment
        match instruction.name:
            case "ARG":
                self._arg(instruction, stage.environment)
            case "ENV":
                for name, value in _pairs(instruction.body.text):
                    stage.environment[name] = expand(value, values)
            case "WORKDIR":
                stage.cwd = joined(stage.cwd, expand(instruction.body.text.strip(), values))
            case "SHELL" if instruction.arguments:
                stage.shell = instruction.arguments
            case "COPY" | "ADD":
                self._copy(stage, instruction)
            case "RUN":
                self._run(stage, instruction)
            case "CMD" | "ENTRYPOINT":
                stage.last[instruction.name] = instruction

    def _arg(self, instruction: Instruction, target: dict[str, str | None]) -> None:
        for word, _ in instruction.words():
            name, equals, value = word.partition("=")
            if equals:
                target[name] = expand(value, {**self.arguments, **target})
            else:
                target.setdefault(name, self.arguments.get(name))

    # --- COPY and ADD ---

    def _copy(self, stage: Stage, instruction: Instruction) -> None:
        values = stage.environment
        words = [(expand(word, values), place) for word, place in instruction.words()]
        if len(words) < 2:  # noqa: PLR2004 - a source and a target
            help_ = "Name the sources, then the target."
            self.session.report("E822", f"{instruction.name} needs a source and a target", instruction.place, help_)
            return
        target = joined(stage.cwd, words[-1][0])
        sources = words[:-1]
        into = words[-1][0].endswith(("/", "/.")) or len(sources) > 1 or words[-1][0] in {".", "./"}
        origin = instruction.flag("from")
        for heredoc in instruction.heredocs:
            stage.image.make(posixpath.join(target, heredoc.name) if into else target, instruction.place)
        for source, place in sources:
            if source.startswith("<<"):
                continue
            if origin is not None:
                self._copy_from(stage, expand(origin, values), Copied(source, target, into, place))
            elif "://" in source or source.startswith("git@"):
                pinned = instruction.flag("checksum") is not None
                stage.image.events.append(Fetch(f"ADD {source}", place, pinned))
                stage.image.put(posixpath.join(target, posixpath.basename(source)) if into else target, "")
            else:
                self._copy_context(stage, instruction, Copied(source, target, into, place, alone=len(sources) == 1))

    def _copy_context(self, stage: Stage, instruction: Instruction, copied: Copied) -> None:
        source, target, into, place = copied.source, copied.target, copied.into, copied.place
        image = stage.image
        unpacks = instruction.name == "ADD" and source.endswith(_ARCHIVES)
        parents = instruction.flag("parents") is not None
        for match in matches(self.session, source, place, alone=copied.alone):
            if unpacks:
                image.opaque.add(target)
                continue
            if match.is_folder and not parents:
                image.copied.setdefault(target, match.path)
            for file in match.files:
                if match.is_folder and not parents:
                    end = posixpath.join(target, posixpath.relpath(file, match.path or "."))
                elif parents:
                    end = posixpath.join(target, file)
                else:
                    end = (
                        posixpath.join(target, posixpath.basename(source if match.path != source and source else file))
                        if into
                        else target
                    )
                self._put(stage, end, file, place, instruction.name)
            if instruction.name == "COPY" and match.path in {".", ""} and ".git" in _top(self.session):
                image.copied[f"git:{target}"] = ""

    def _put(self, stage: Stage, path: str, origin: str, place: Place, how: str) -> None:
        session = self.session
        stage.image.put(posixpath.normpath(path) if path.startswith("/") else path, origin)
        if package_key(path):
            stage.image.events.append(Put(path, place, origin, how))
            session.deployed.setdefault(origin, path)
        if origin.endswith(".py"):
            _, sure = session.pythons.get(origin, (None, False))
            session.pythons[origin] = (stage.python, bool(package_key(path)) or sure)

    def _copy_from(self, stage: Stage, origin: str, copied: Copied) -> None:
        source, target, into, place = copied.source, copied.target, copied.into, copied.place
        other = next((s for i, s in enumerate(self.stages) if origin in {s.name, str(i)}), None)
        image = stage.image
        if other is None or other is stage:
            image.opaque.add(target)
            image.make(posixpath.join(target, posixpath.basename(source)) if into else target, place)
            return
        path = joined("/", source)
        _, files = other.image.find(path)
        for file in files:
            single = file == path
            end = posixpath.join(target, posixpath.basename(file)) if single and into else target
            end = end if single else posixpath.join(target, posixpath.relpath(file, path))
            self._put(stage, end, other.image.files[file], place, "COPY")
        if path not in other.image.files:
            image.opaque.add(target)
            image.copied.update(
                {target + root[len(path) :]: s for root, s in other.image.copied.items() if root.startswith(path)}
            )

    # --- RUN, CMD, ENTRYPOINT ---

    def _run(self, stage: Stage, instruction: Instruction, *, runtime: bool = False) -> None:
        image = stage.image.branched() if runtime else stage.image
        machine = self._machine(stage, image, runtime=runtime)
        bound = bind_mounts(self.session, stage, instruction) if not runtime else []
        with self.session.bounded(instruction.place):
            if instruction.arguments is not None:
                self._exec(machine, instruction)
            else:
                self._shell_form(stage, machine, instruction, runtime=runtime)
        for path in bound:
            image.files.pop(path, None)

    def _machine(self, stage: Stage, image: Image, *, runtime: bool) -> Machine:
        state = State(stage.cwd, dict(stage.environment))
        machine = Machine(self.session, image, state, runtime=runtime)
        machine.python = stage.python
        return machine

    def _exec(self, machine: Machine, instruction: Instruction) -> None:
        """Run the JSON form: no shell, so nothing hides a status, and no variable is replaced."""
        words = list(instruction.arguments or ())
        if not words:
            return
        chunk = instruction.body
        parts = tuple(Word((Lit(word, quoted=True),), 0, 1) for word in words)
        statement = Statement(
            Call((), parts), negated=False, background=False, redirects=(), start=0, end=len(chunk.text)
        )
        machine.acts.perform(act_of(words), chunk.place(0, len(chunk.text)), chunk, statement, words)

    def _shell_form(self, stage: Stage, machine: Machine, instruction: Instruction, *, runtime: bool) -> None:
        program = posixpath.basename(stage.shell[0]).lower() if stage.shell else ""
        if program.startswith(("powershell", "cmd", "pwsh")):
            self.session.note(f"commands of {program} were not looked into", instruction.place)
            return
        options = Options(bash=program == "bash").with_flags(stage.shell[1:])
        chunk = with_heredocs(instruction)
        heredocs = instruction.heredocs
        if (
            heredocs
            and instruction.body.text.strip().lstrip("0123456789").startswith("<<")
            and " " not in instruction.body.text.strip()
        ):
            chunk = heredocs[0].body
            first = chunk.text.split("\n", 1)[0]
            if first.startswith("#!") and "sh" not in first:
                self._foreign(machine, chunk, first)
                return
            if first.startswith("#!"):
                options = Options(bash="bash" in first).with_flags(first.split()[1:])
        statements = self.session.shell(chunk)
        self.session.runs.setdefault((chunk.place(0), options, runtime), ShellRun(chunk, statements, options, runtime))
        machine.run(chunk, statements)

    def _foreign(self, machine: Machine, chunk: Chunk, first: str) -> None:
        """Run a here-document that names its own interpreter."""
        if "python" not in first:
            return
        text = Word((Lit(chunk.text, quoted=True),), 0, 1)
        words = ["python3", "-c", chunk.text]
        parts = (Word((Lit("python3"),), 0, 1), Word((Lit("-c"),), 0, 1), text)
        statement = Statement(Call((), parts), negated=False, background=False, redirects=(), start=0, end=1)
        machine.acts.perform(act_of(words), chunk.place(0), chunk, statement, words)


def _top(session: Session) -> list[str]:
    found = [".git"] if (session.folder.root / ".git").exists() else []
    return [name for name in found if session.ignore.ignoring(name) is None]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the pairs of ENV, in the form `A=b C="d e"` or the old form `A b c`."""
    first = text.split(None, 1)
    if first and "=" not in first[0]:
        return [(first[0], first[1] if len(first) > 1 else "")]
    return [(m[1], m[2]) for m in re.finditer(r"""([^\s=]+)=((?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])*)""", text)]
