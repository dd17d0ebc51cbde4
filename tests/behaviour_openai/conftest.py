"""Trees on disk, and the processes that serve them: one a tree."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour import trees
from tests.behaviour_openai import chats

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.engine.outcome import Run

CHILD = Path(__file__).parent / "child.py"
LONGEST_S = 900  # a machine under load; an idle one takes a thirtieth
FEW = (chats.ONE_CALL, chats.A_THOUGHT)

Answers = dict[str, Any]


def serve(tree: Path, folder: Path, *names: str) -> Answers:
    """Return what the server in a tree answers, in a process of its own."""
    result = folder / "result.json"
    done = subprocess.run(
        [trees.interpreter(), CHILD, result, *names],
        env=trees.environment(tree),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    found: Answers = json.loads(result.read_text(encoding="utf-8"))
    assert found["file"].startswith(str(tree)), "another vLLM than the tree was imported"
    return found


@pytest.fixture(scope="session")
def on_patched(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """All chats on the patched tree."""
    trees.interpreter()
    made = trees.default().run
    assert not made.failed, "\n".join(str(d) for d in made.diagnostics)
    folder = tmp_path_factory.mktemp("patched")
    return serve(trees.write(made.tree, folder / "tree"), folder)


@pytest.fixture(scope="session")
def on_unpatched(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """All chats on the tree as the stages meet it."""
    trees.interpreter()
    folder = tmp_path_factory.mktemp("unpatched")
    return serve(trees.write(trees.default().base.tree, folder / "tree"), folder)


@pytest.fixture(scope="session")
def run_without(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Run the pipeline with one stage switched off."""

    def run(stage: str) -> Run:
        folder = tmp_path_factory.mktemp("workspace")
        workspace = trees.workspace_copy(folder, disabled=[stage])
        shutil.copytree(trees.ROOT / "modules", workspace / "modules", dirs_exist_ok=True)
        made = trees.patched(trees.request_for(workspace), trees.default().base).run
        assert not made.failed, "\n".join(str(d) for d in made.diagnostics)
        return made

    return run


@pytest.fixture(scope="session")
def answers_without(
    run_without: Callable[[str], Run], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Answers]:
    """Ask a few chats of the tree without one stage."""

    def answers(stage: str) -> Answers:
        trees.interpreter()
        folder = tmp_path_factory.mktemp("without")
        return serve(trees.write(run_without(stage).tree, folder / "tree"), folder, *FEW)

    return answers
