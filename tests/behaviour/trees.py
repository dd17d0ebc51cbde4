"""The trees that tests import, made as the command line makes them, and the interpreter that imports them.

`VLLM_PYTHON` names an interpreter that has `tests/behaviour/requirements.txt`; without it, `.venv-vllm` in the
repository. `VENDOR_TREE` names a vLLM package folder to patch instead of the default target's own base.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from orchestrator.cli.options import Request
from orchestrator.cli.steps import Stopped, base_of, make_plan_for, run_on

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from orchestrator.cli.steps import BaseTree
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan

ROOT = Path(__file__).parents[2]
STANDINS = ROOT / "tests" / "standins"
WORKSPACE = ("pipeline.yaml", "targets", "templates", "kernels", "modules", "stages", "examples")
NO_NETWORK = "E301"


def unavailable(reason: str) -> NoReturn:
    """Skip the test for a visible reason; where everything must be there, in CI, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing is skipped: {reason}", pytrace=False)
    pytest.skip(reason)


@cache
def interpreter() -> Path:
    """Return the interpreter that imports vLLM trees."""
    named = os.environ.get("VLLM_PYTHON")
    found = Path(named) if named else ROOT / ".venv-vllm" / "bin" / "python"
    if not found.is_file():
        where = f"VLLM_PYTHON names {found}, which is not there" if named else "there is no .venv-vllm"
        unavailable(f"importing vLLM needs tests/behaviour/requirements.txt: {where}")
    return found


@dataclass(frozen=True)
class Patched:
    """A finished run of the repository's pipeline, with what it was made of."""

    plan: Plan
    base: BaseTree
    run: Run


def request_for(workspace: Path = ROOT, *, trees: tuple[str, ...] | None = None) -> Request:
    vendor = os.environ.get("VENDOR_TREE")
    given = (f"vllm={vendor}",) if vendor else ()
    return Request(workspace=workspace, trees=given if trees is None else trees)


def patched(request: Request, base: BaseTree | None = None) -> Patched:
    """Return the run of a workspace's pipeline; skip where its base can be had neither from the cache nor the index."""
    try:
        plan = make_plan_for(request)
        base = base or base_of(plan, request)
        return Patched(plan, base, run_on(plan, base, request))
    except Stopped as stop:
        if {d.code for d in stop.diagnostics} == {NO_NETWORK}:
            unavailable("the source distribution is not in the cache and the package index cannot be reached")
        raise AssertionError("\n".join(str(d) for d in stop.diagnostics)) from stop


@cache
def default() -> Patched:
    """Return the run of the repository's own pipeline on the default base."""
    return patched(request_for())


def workspace_copy(folder: Path, *, disabled: Collection[str], enabled: Collection[str] = ()) -> Path:
    """Copy the workspace to `folder` and switch stages off and on in its YAML."""
    for name in WORKSPACE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("build", "__pycache__"))
        elif source.is_file():
            shutil.copy(source, folder / name)
    pipeline = folder / "pipeline.yaml"
    text = pipeline.read_text(encoding="utf-8")
    for stage in (*disabled, *enabled):
        text = _switched(text, stage, on=stage in enabled)
    pipeline.write_text(text, encoding="utf-8")
    return folder


def _switched(text: str, stage: str, *, on: bool) -> str:
    """Return the pipeline with the stage's own `enabled:` in the place of the one that it has."""
    head = f"  - id: {stage}\n"
    before, found, after = text.partition(head)
    assert found
    own, next_stage, rest = after.partition("\n  - id: ")
    kept = [line for line in own.split("\n") if not line.startswith("    enabled: ")]
    return f"{before}{head}    enabled: {str(on).lower()}\n" + "\n".join(kept) + next_stage + rest


def write(tree: Mapping[str, bytes], folder: Path) -> Path:
    """Write a tree to `folder` and return the folder."""
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def environment(tree: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process that imports `tree` with the stand-in beside it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "TRITON_", "PYTHON", "PYTEST_"))
    }
    path = os.pathsep.join((str(tree), str(STANDINS)))
    return {**kept, "PYTHONPATH": path, **more}
