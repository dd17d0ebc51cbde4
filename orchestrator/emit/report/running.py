"""The server that a run configuration starts: its arguments and its environment, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from orchestrator.checks.serving.environment import environment_here
from orchestrator.checks.serving.facts import RUN
from orchestrator.core.diagnostics import Rejected
from orchestrator.spec.document import read_document
from orchestrator.spec.run_config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.engine.outcome import Run


@dataclass(frozen=True)
class Argument:
    """A word of the command, or an option with its value; `stage` brings it, else the template does."""

    text: str
    value: str
    stage: str


@dataclass(frozen=True)
class Variable:
    """A variable of the server's process: the value that wins, who sets it, what that hides.

    `stage` provides it, where one does; `hidden` are (who, value) of those whose other value is lost.
    """

    name: str
    value: str
    origin: str
    stage: str = ""
    hidden: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RunningServer:
    """A rendered run configuration."""

    file: str
    concurrency: int
    arguments: tuple[Argument, ...]
    environment: tuple[Variable, ...]


def running_server(run: Run) -> RunningServer | None:
    """Return what the run's configuration starts; None where no stage in effect renders one that can be read."""
    for result in run.results:
        for render in result.planned.renders if result.in_effect else ():
            if render.schema == "run-config" and render.to in run.artefacts:
                return _server(run, render.to, run.artefacts[render.to])
    return None


def _server(run: Run, file: str, content: bytes) -> RunningServer | None:
    try:
        config = RunConfig.model_validate(read_document(file, content).data)
    except (Rejected, ValidationError):
        return None  # its own check says what is wrong with it
    flags: dict[str, str] = {}
    variables: dict[str, str] = {}
    for result in run.results:
        if result.in_effect:
            flags.update(dict.fromkeys(result.planned.stage.provides.flags, result.id))
            variables.update(dict.fromkeys(result.planned.stage.provides.environment, result.id))
    given = {variable.name: variable.value for variable in config.env}
    return RunningServer(
        file, config.concurrency, tuple(_arguments(config.command, flags)), _environment(run, file, given, variables)
    )


def _arguments(command: Sequence[str], flags: dict[str, str]) -> Iterable[Argument]:
    index = 0
    while index < len(command):
        text, following = command[index], command[index + 1 : index + 2]
        index += 1
        value = ""
        if text.startswith("-") and following and not following[0].startswith("-"):
            value = following[0]
            index += 1
        yield Argument(text, value, flags.get(text, ""))


def _environment(run: Run, file: str, given: dict[str, str], stages: dict[str, str]) -> tuple[Variable, ...]:
    """Return the effective environment: of the image, of the Dockerfile, of the run configuration; the last wins."""
    found = environment_here(run.plan.facts.serving, given)
    names = {RUN: file}
    return tuple(
        Variable(
            name,
            variable.value,
            names.get(variable.layer, variable.layer),
            stages.get(name, "") if variable.layer == RUN else "",
            tuple((names.get(layer, layer), value) for layer, value in variable.hidden),
        )
        for name, variable in sorted(found.items())
    )
