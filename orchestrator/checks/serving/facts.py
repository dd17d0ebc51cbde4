"""The target's facts about serving, as the rules of a run configuration need them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.device.quantity import figures_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.device.quantity import Figures
    from orchestrator.spec.serving import MemoryRun, RefusedVariable, Server
    from orchestrator.spec.target import Figure, Target

IMAGE, DOCKERFILE, RUN = "image", "Dockerfile", "run configuration"


@dataclass(frozen=True)
class Serving:
    """Figures with their unknowns, the server's code, measured runs, and the environments below the run's own."""

    figures: Figures = field(default_factory=dict)
    server: Server | None = None
    memory_runs: tuple[MemoryRun, ...] = ()
    image_environment: Mapping[str, str] = field(default_factory=dict)
    dockerfile_environment: Mapping[str, str] = field(default_factory=dict)
    required: Mapping[str, Figure] = field(default_factory=dict)
    refused: tuple[RefusedVariable, ...] = ()
    read: Mapping[str, str] = field(default_factory=dict)
    image_files: frozenset[str] = frozenset()
    providers: Mapping[str, str] = field(default_factory=dict)
    """Option without dashes → the stage of the pipeline that provides it, whether or not that is on."""
    editors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """File of the tree → the stages that edit it, whether or not they are on."""


def serving_of(target: Target, dockerfile_environment: Mapping[str, str]) -> Serving:
    """Return what a target says about serving, with what the rendered Dockerfile sets."""
    return Serving(
        figures=figures_of(target),
        server=target.server,
        memory_runs=tuple(target.memory_runs),
        image_environment=dict(target.image.environment),
        dockerfile_environment=dict(dockerfile_environment),
        required=dict(target.required_env),
        refused=tuple(target.refused_env),
        read=dict(target.read_env),
        image_files=frozenset(target.image.files),
    )
