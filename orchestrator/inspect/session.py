"""What one inspection knows and has found: the folder, the texts that were read, and the findings."""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Severity
from orchestrator.inspect.pyscript import Facts, study
from orchestrator.inspect.pyvalues import Names
from orchestrator.inspect.shell import parse_shell
from orchestrator.inspect.text import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.inspect.fates import Options
    from orchestrator.inspect.folder import Folder
    from orchestrator.inspect.ignore import Ignore
    from orchestrator.inspect.syntax import Statement

Version = tuple[int, int]


@dataclass(frozen=True)
class ShellRun:
    """A shell text that is run, with the options that its shell starts with. `runtime`: when the container starts."""

    chunk: Chunk
    statements: tuple[Statement, ...]
    options: Options
    runtime: bool


@dataclass(frozen=True)
class SedEdit:
    """A `sed -i` on Python: fine where the result is looked at."""

    path: str
    place: Place


@dataclass(frozen=True)
class Sign:
    """What is taken for a sign that a patch is in: a text in a file, or with an empty text that the file is there."""

    text: str
    path: str
    place: Place


@dataclass
class Session:
    """The state of one inspection; `tree` is the package's source, where it was given."""

    folder: Folder
    ignore: Ignore
    tree: Mapping[str, bytes] = field(default_factory=dict)
    found: list[Diagnostic] = field(default_factory=list)
    runs: dict[tuple[Place, Options, bool], ShellRun] = field(default_factory=dict)
    weights: dict[Place, str] = field(default_factory=dict)
    pythons: dict[str, tuple[Version | None, bool]] = field(default_factory=dict)
    seds: list[SedEdit] = field(default_factory=list)
    signs: list[Sign] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    facts: dict[tuple[str, tuple[str, ...]], Facts] = field(default_factory=dict)
    shells: dict[Chunk, tuple[Statement, ...]] = field(default_factory=dict)
    deployed: dict[str, str] = field(default_factory=dict)
    steps: int = 0

    def report(
        self, code: str, message: str, place: Place, help_: str, *notes: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Add a finding."""
        self.found.append(Diagnostic(code, message, place, help_, notes, severity=severity))

    def note(self, message: str, place: Place, help_: str = "") -> None:
        """Say what cannot be known."""
        self.report("W890", message, place, help_, severity=Severity.NOTE)

    @contextlib.contextmanager
    def bounded(self, place: Place) -> Iterator[None]:
        """Turn a text that is nested beyond all reason into a finding."""
        try:
            yield
        except RecursionError:
            self.report("E821", "this is nested too deeply to be followed", place, "Split it into several scripts.")

    def shell(self, chunk: Chunk) -> tuple[Statement, ...]:
        """Return the statements of a shell text; what does not parse is reported once."""
        if chunk not in self.shells:
            self.shells[chunk], faults = parse_shell(chunk)
            self.found += faults
        return self.shells[chunk]

    def python_facts(self, chunk: Chunk, names: Names, origin: str) -> Facts:
        """Return what a Python text does; its faults are reported once."""
        key = (str(chunk.place(0)), names.arguments)
        if key not in self.facts:
            first = not any(known[0] == key[0] for known in self.facts)
            self.facts[key] = Facts()  # a module that imports itself ends here
            facts = study(chunk, names, lambda module: self._sibling(module, origin))
            self.facts[key] = facts
            if first:
                self.found += facts.faults
        return self.facts[key]

    def _sibling(self, module: str, origin: str) -> Facts | None:
        if not origin:
            return None
        path = posixpath.join(posixpath.dirname(origin), *module.split(".")) + ".py"
        text = self.folder.text(path) if path in self.folder.files else None
        if text is None:
            return None
        self.pythons.setdefault(path, self.pythons.get(origin, (None, True)))
        return self.python_facts(Chunk(path, text), Names(), path)
