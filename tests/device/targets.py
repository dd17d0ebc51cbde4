"""The repository's targets, for tests of the arithmetic over them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from orchestrator.device.quantity import Figures, figures_of
from orchestrator.spec.target import Target, load_target

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "targets").glob("*.yaml"))


@cache
def target(name: str) -> Target:
    """Return a target of the repository."""
    path = f"targets/{name}.yaml"
    return load_target(path, (ROOT / path).read_bytes(), lambda file: (ROOT / file).read_bytes())


def figures(name: str) -> Figures:
    """Return its figures."""
    return figures_of(target(name))
