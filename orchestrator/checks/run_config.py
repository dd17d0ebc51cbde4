"""The check of a run configuration: its shape, and all that can be said of it before a server starts (FACTS.md §7).

What an argument list comes to and the rules on it are in `orchestrator.checks.serving`; the figures are the target's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.reading import document_of, standing_alone
from orchestrator.checks.serving.argv import Flags, Word, parse_argv, start_of, words
from orchestrator.checks.serving.capacity import capacity_in_words, context_fits, setting_of
from orchestrator.checks.serving.effective import (
    CHUNKED,
    LENGTH,
    Context,
    Forcing,
    batched,
    engine_of,
    forcings,
    turns_chunking_on,
)
from orchestrator.checks.serving.environment import environment_faults, environment_here
from orchestrator.checks.serving.flags import idle_options, unknown_options, unregistered_values
from orchestrator.checks.serving.options import parser_of
from orchestrator.checks.serving.rules import broken_rules
from orchestrator.checks.serving.started import Started, started
from orchestrator.checks.values import steps
from orchestrator.checks.verdict import Status, Verdict, fails, holds
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, errors
from orchestrator.device.quantity import Unknown
from orchestrator.spec.run_config import EnvironmentVariable, RunConfig
from orchestrator.spec.validate import misread, validated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.checks.serving.options import Parser
    from orchestrator.checks.view import View
    from orchestrator.device.budget import Setting
    from orchestrator.spec.document import Document


@dataclass(frozen=True)
class Configuration:
    """A run configuration, read: its options, what the tree makes of them, its environment, and all their places."""

    document: Document
    steps: tuple[str | int, ...]
    argv: tuple[str, ...]
    words: tuple[Word, ...]
    parser: Parser | None
    flags: Flags
    context: Context
    forced: tuple[Forcing, ...]
    environment: Mapping[str, str]
    started: Started

    @property
    def place(self) -> Place:
        """Where the argument list stands."""
        return self.document.place(self.steps)

    def at(self, index: int) -> Place:
        """Return where a word of the argument list stands."""
        return self.document.place((*self.steps, self.started.place(index)))

    @property
    def variable_places(self) -> dict[str, Place]:
        """Where each of its variables stands."""
        places = {
            name: self.document.place(("env", i, "name"))
            for i, name in enumerate(self.environment)
            if name not in self.started.variables
        }
        return {**dict.fromkeys(self.started.variables, self.place), **places}

    def setting(self, view: View) -> Setting | Unknown:
        """Return what decides about memory."""
        return setting_of(self.flags, self.context, self.forced, view.facts.serving)


class RunConfigFits(Check):
    """A run configuration has the platform's shape, and the patched server will start with it.

    Judged are the engine's rules with its defaults filled in, the options that the patched command line knows, the
    capacity of the KV cache, and the environment of image, Dockerfile and run configuration together.
    """

    check: Literal["run_config"]
    file: Annotated[str, Field(min_length=1, description="name of the artefact")]
    argv_from: Annotated[str, Field(min_length=1, description="path of the argument list in it")] = "command"
    multimodal: Annotated[
        bool | None, Field(description="whether the model takes more than text; the target's figure if absent")
    ] = None
    chunks_by_itself: Annotated[
        bool | None,
        Field(description="whether the engine turns chunked prefill on for long contexts; read in the tree if absent"),
    ] = None
    answers: Annotated[int, Field(ge=1, description="how many parallel answers (`n`) clients may ask for")] = 1

    def look(self, view: View) -> Verdict:
        """Return whether shape and rules hold; every fault is named, and is a finding with its own code."""
        read = self.read(view)
        if read is None:
            return fails(f"`{self.argv_from}` of {self.file} is no argument list", Place(self.file))
        found = tuple(self.findings(view, read))
        faults = errors(found)
        if faults:
            said = "; ".join(d.message for d in faults)
            return Verdict(Status.FAILS, f"{read.place}: {said}", read.place, found)
        capacity = capacity_in_words(view, read.setting(view))
        if found:
            said = "; ".join(d.message for d in found)
            return Verdict(Status.WARNS, f"{said}; {capacity}", read.place, found)
        tokens, origin = batched(read.flags, read.context)
        counted = f" with {origin}" if tokens is not None else ""
        return holds(f"{self.file} keeps the rules of shape, engine and environment{counted}; {capacity}", read.place)

    def read(self, view: View) -> Configuration | None:
        """Return the configuration; None where it has no argument list; raise `Rejected` for another shape."""
        document = document_of(view, self.file)
        config = _config(document)
        written = _argv(config, self.argv_from)
        if written is None:
            return None
        server = view.facts.serving.server
        how = started(written, server.module if server else None)
        argv = how.words
        start = start_of(argv, server.module) if server else None
        parser = parser_of(view, tuple(server.argument_files)) if server and start is not None else None
        known = parser.options if parser else None
        flags = parse_argv(argv, known, start or 0)
        return Configuration(
            document,
            tuple(steps(self.argv_from)),
            argv,
            tuple(words(argv, known, start or 0)),
            parser,
            flags,
            self.context(view, flags),
            forcings(view, server),
            {**{variable.name: variable.value for variable in config.env}, **how.variables},
            how,
        )

    def context(self, view: View, flags: Flags) -> Context:
        """Return what the rules need besides the flags; where a flag decides, the engine's code need not be read."""
        values = view.facts.values
        server = view.facts.serving.server
        by_itself = self.chunks_by_itself
        if by_itself is None:
            by_itself = CHUNKED not in flags and turns_chunking_on(view)
        undecided = not by_itself and CHUNKED not in flags
        backend, block = values.get("engine.attention_backend"), values.get("engine.block_size")
        return Context(
            engine_of(values),
            bool(values.get("model.multimodal")) if self.multimodal is None else self.multimodal,
            by_itself,
            backend if isinstance(backend, str) and server else None,
            tuple(server.backends_of_multi_step) if server else (),
            tuple(server.backends_of_chunked_multi_step) if server else (),
            self.answers,
            block if isinstance(block, int) else None,
            view.facts.serving.editors.get(str(values.get("engine.chunks_by_itself_file")), ()) if undecided else (),
        )

    def findings(self, view: View, read: Configuration) -> Iterator[Diagnostic]:
        """Yield every fault and every warning."""
        server = view.facts.serving.server
        broken = broken_rules(read.flags, read.context)
        yield from (Diagnostic("E540", said, read.place, "Give a legal value.") for said in broken)
        if read.parser is not None and server:
            yield from unknown_options(read.words, read.parser, read.at, view.facts.serving.providers)
            yield from unregistered_values(view, server, read.words, read.at)
        yield from idle_options(read.words, read.forced, read.at, multimodal=read.context.multimodal)
        setting = None if broken else read.setting(view)
        if setting is not None and not isinstance(setting, Unknown):
            place = next((read.at(word.index) for word in read.words if word.name == LENGTH), read.place)
            yield from context_fits(view, read.flags, setting, place)
        found = environment_here(view.facts.serving, read.environment)
        yield from environment_faults(view, found, read.variable_places, read.document.place(("env",)))


def _config(document: Document) -> RunConfig:
    """Return the configuration; raise `Rejected` with one diagnostic that names every fault and its place."""
    found = misread(document)
    try:
        if not found:
            return validated(RunConfig, document.data, document, {"env": EnvironmentVariable})
    except Rejected as error:
        raise Rejected(standing_alone(error, document.name)) from None
    raise Rejected(standing_alone(Rejected(found), document.name))


def _argv(config: RunConfig, path: str) -> list[str] | None:
    data: Any = config.model_dump()
    for step in steps(path):
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data if isinstance(data, list) and all(isinstance(word, str) for word in data) else None
