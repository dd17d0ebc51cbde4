"""What a run configuration is judged by: the target's facts, the Dockerfile's environment, what stages provide."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.serving.facts import serving_of
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.templates import compile_jinja, render_template
from orchestrator.spec.dockerfile import environment_of

if TYPE_CHECKING:
    from orchestrator.checks.serving.facts import Serving
    from orchestrator.engine.load import Loaded, Read

DOCKERFILE = "templates/Dockerfile.j2"


def serving_facts(loaded: Loaded, read: Read) -> Serving:
    """Return the facts about serving, with the workspace's Dockerfile and the stages that provide and edit."""
    serving = serving_of(loaded.target, dockerfile_environment(loaded, read))
    stages = loaded.pipeline.stages
    providers = {flag.lstrip("-"): stage.id for stage in stages for flag in stage.provides.flags}
    editors: dict[str, tuple[str, ...]] = {}
    for stage in stages:
        for file in {edit.file for edit in stage.edits}:
            editors[file] = (*editors.get(file, ()), stage.id)
    return dataclasses.replace(serving, providers=providers, editors=editors)


def dockerfile_environment(loaded: Loaded, read: Read) -> dict[str, str]:
    """Return the variables that the Dockerfile sets; none where there is no template, or one that cannot be used.

    `render` asks for the template and reports what is wrong with it. The patch set's digest is not known yet and
    stands as zeros: a variable that holds it is seen so.
    """
    image = loaded.target.image
    context = {
        "image": image.reference,
        "interpreter": image.interpreter,
        "patchset_digest": "0" * 64,
        "labels": {},
    }
    try:
        text = read(DOCKERFILE).decode("utf-8")
        rendered = render_template(DOCKERFILE, compile_jinja(DOCKERFILE, text), context, read)
    except (Rejected, OSError, KeyError, UnicodeDecodeError):
        return {}
    return environment_of(rendered, image.environment)
