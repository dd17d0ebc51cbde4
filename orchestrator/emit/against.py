"""What a server's argument list and environment differ in from those of a former render: keys must not get lost.

The environment is the effective one, of image, Dockerfile and run configuration, so that a variable which only moved
from one to another is no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.table import Table

from orchestrator.checks.serving.argv import parse_argv, words
from orchestrator.checks.serving.environment import environment_here
from orchestrator.checks.serving.facts import Serving
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.spec.dockerfile import environment_of, image_of
from orchestrator.spec.document import read_document
from orchestrator.spec.run_config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.checks.serving.environment import Environment
    from orchestrator.engine.plan import Plan
    from orchestrator.spec.target import Target

MANIFEST, DOCKERFILE = "patchset/manifest.json", "Dockerfile"
SCHEMA = "run-config"
_HELP = "Name a folder that `render` wrote."


@dataclass(frozen=True)
class Started:
    """How a server is started: options, environment, requests at a time, and the image.

    `words` are those of the argument list that belong to no option, such as the program.
    """

    image: str
    concurrency: int
    words: str
    options: Mapping[str, str | None]
    environment: Environment


def run_configurations(plan: Plan) -> list[str]:
    """Return the names of the run configurations that the pipeline renders, whatever is switched on."""
    return [render.to for stage in plan.stages for render in stage.renders if render.schema == SCHEMA]


def started(folder: str, files: Mapping[str, bytes], config: str, target: Target) -> Started:
    """Return how the server of a rendered folder is started.

    The image's own environment is the target's where the Dockerfile is built on the target's image, else unknown and
    left out. Raises `Rejected` (E128) where a file is missing or cannot be read.
    """
    for name in (MANIFEST, DOCKERFILE, config):
        if name not in files:
            raise Rejected(_fault(f"{folder} has no {name}: it is no former render of this pipeline"))
    try:
        document = read_document(f"{folder}/{config}", files[config])
        run = RunConfig.model_validate(document.data)
        dockerfile = files[DOCKERFILE].decode("utf-8")
    except Rejected as error:
        found = error.diagnostics[0]
        raise Rejected(_fault(f"{folder}/{config} cannot be read: {found.message}", found.place)) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Rejected(_fault(f"{folder}/{config} is no run configuration: {where}: {first['msg']}")) from None
    except UnicodeDecodeError:
        raise Rejected(_fault(f"{folder}/{DOCKERFILE} is not UTF-8")) from None
    image = image_of(dockerfile)
    below = dict(target.image.environment) if image == target.image.reference else {}
    serving = Serving(image_environment=below, dockerfile_environment=environment_of(dockerfile, below))
    variables = {variable.name: variable.value for variable in run.env}
    options = parse_argv(run.command)
    plain = " ".join(word.written for word in words(run.command) if not word.name)
    return Started(image, run.concurrency, plain, options, environment_here(serving, variables))


def _fault(message: str, place: Place | None = None) -> Diagnostic:
    return Diagnostic("E128", f"--against: {message}", place, help=_HELP)


def against_record(folder: str, config: str, before: Started, after: Started) -> dict[str, Any]:
    """Return the record of what differs from a former render."""
    changes = list(_changes(before, after))
    return {"event": "against", "folder": folder, "artefact": config, "changes": changes}


def _changes(before: Started, after: Started) -> Iterator[dict[str, Any]]:
    if before.image != after.image:
        yield _change("image", "FROM", (before.image, ""), (after.image, ""))
    if before.concurrency != after.concurrency:
        yield _change("concurrency", "concurrency", (str(before.concurrency), ""), (str(after.concurrency), ""))
    if before.words != after.words:
        yield _change("argument", "words without an option", (before.words, ""), (after.words, ""))
    for name in sorted({*before.options, *after.options}):
        old, new = (_option(started.options, name) for started in (before, after))
        if old != new:
            yield _change("argument", name, old, new)
    for name in sorted({*before.environment, *after.environment}):
        old, new = (_variable(started.environment, name) for started in (before, after))
        if old[0] != new[0]:
            yield _change("environment", name, old, new)


Stated = tuple[str | None, str]
"""A value, None for one that is not there, and where it is set."""


def _option(options: Mapping[str, str | None], name: str) -> Stated:
    return (options[name] or "", "") if name in options else (None, "")


def _variable(environment: Environment, name: str) -> Stated:
    found = environment.get(name)
    return (found.value, found.layer) if found else (None, "")


def _change(what: str, name: str, before: Stated, after: Stated) -> dict[str, Any]:
    kind = "added" if before[0] is None else "removed" if after[0] is None else "changed"
    return {
        "what": what,
        "name": name,
        "kind": kind,
        "before": before[0],
        "before_in": before[1],
        "after": after[0],
        "after_in": after[1],
    }


def against_table(record: Mapping[str, Any]) -> Table:
    """Return the table of what differs from a former render."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold", title_justify="left")
    table.title = f"{record['artefact']} against {record['folder']}"
    for name in ("what", "name", "", "before", "now"):
        table.add_column(name, no_wrap=name in {"what", "name"})
    for change in record["changes"]:
        sides = [_shown(change[side], change[f"{side}_in"]) for side in ("before", "after")]
        table.add_row(change["what"], change["name"], change["kind"], *sides)
    return table


def _shown(value: str | None, layer: str) -> str:
    if value is None:
        return "-"
    return f"{value} ({layer})" if layer else value or "(bare)"
