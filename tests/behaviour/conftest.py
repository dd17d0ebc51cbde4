"""Trees on disk, and the processes that import them: one a tree, each running all of its cases."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour import trees

CHILD = Path(__file__).parent / "child.py"
LONGEST_S = 900  # a machine under load; an idle one takes less than a twentieth


@dataclass(frozen=True)
class Attended:
    """What one process found: case → result, and the lines that it logged."""

    results: dict[str, dict[str, Any]]
    lines: tuple[str, ...]

    def __getitem__(self, case: str) -> dict[str, Any]:
        return self.results[case]


def attend(tree: Path, folder: Path, group: str, *options: str, **environment: str) -> Attended:
    """Run all cases of `group` on `tree` in a process of its own."""
    result = folder / "result.json"
    done = subprocess.run(
        [trees.interpreter(), CHILD, result, group, *options],
        env=trees.environment(tree, **environment),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    found = Attended(json.loads(result.read_text(encoding="utf-8")), tuple(done.stdout.splitlines()))
    assert found["facts"]["file"].startswith(str(tree)), "another vLLM than the tree was imported"
    return found


@pytest.fixture(scope="session")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the patched tree."""
    trees.interpreter()
    made = trees.default().run
    assert not made.failed, "\n".join(str(d) for d in made.diagnostics)
    return trees.write(made.tree, tmp_path_factory.mktemp("patched"))


@pytest.fixture(scope="session")
def unpatched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tree as the stages meet it."""
    trees.interpreter()
    return trees.write(trees.default().base.tree, tmp_path_factory.mktemp("unpatched"))


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tree with the first stage alone."""
    trees.interpreter()
    whole = trees.default()
    others = [stage.id for stage in whole.plan.stages if stage.stage.kind == "codemod"]
    others.remove("baseline-patch-ops")
    others.remove("triton-tuning-deployed")  # one of its group has to be on; it is skipped with what it needs
    workspace = trees.workspace_copy(tmp_path_factory.mktemp("workspace"), disabled=others)
    made = trees.patched(trees.request_for(workspace), whole.base).run
    assert not made.failed, "\n".join(str(d) for d in made.diagnostics)
    return trees.write(made.tree, tmp_path_factory.mktemp("baseline"))


@pytest.fixture(scope="session")
def on_patched(patched: Path, tmp_path_factory: pytest.TempPathFactory) -> Attended:
    """All cases on the patched tree; nobody has said whether Triton is to be trusted."""
    return attend(patched, tmp_path_factory.mktemp("on-patched"), "every")


@pytest.fixture(scope="session")
def on_unpatched(unpatched: Path, tmp_path_factory: pytest.TempPathFactory) -> Attended:
    """All cases on the tree as the stages meet it."""
    return attend(unpatched, tmp_path_factory.mktemp("on-unpatched"), "every")


@pytest.fixture(scope="session")
def on_baseline(baseline: Path, tmp_path_factory: pytest.TempPathFactory) -> Attended:
    """All cases on the tree with the first stage alone."""
    return attend(baseline, tmp_path_factory.mktemp("on-baseline"), "every")


@pytest.fixture(scope="session")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the patched tree with vLLM's own prefill kernel, its tiles edited."""
    trees.interpreter()
    folder = tmp_path_factory.mktemp("workspace")
    workspace = trees.workspace_copy(folder, disabled=("triton-tuning-deployed",), enabled=("triton-tuning-edited",))
    made = trees.patched(trees.request_for(workspace), trees.default().base).run
    assert not made.failed, "\n".join(str(d) for d in made.diagnostics)
    return trees.write(made.tree, tmp_path_factory.mktemp("edited"))


@pytest.fixture(scope="session")
def tried(patched: Path, tmp_path_factory: pytest.TempPathFactory) -> Attended:
    """Small cases on the patched tree: both trials are held, and Triton's interpreter runs the real kernels."""
    folder = tmp_path_factory.mktemp("tried")
    return attend(patched, folder, "small", TRITON_INTERPRET="1", VLLM_TRITON_TRUST_CACHE=str(folder / "verdicts"))


@pytest.fixture(scope="session")
def on_edited(edited: Path, tmp_path_factory: pytest.TempPathFactory) -> Attended:
    """Small cases on the tree with vLLM's own prefill kernel, by the user's word."""
    trust = {"VLLM_TRITON_TRUST": "prefix_prefill", "TRITON_INTERPRET": "1"}
    return attend(edited, tmp_path_factory.mktemp("on-edited"), "small", **trust)


@pytest.fixture(scope="session")
def hidden(patched: Path, tmp_path_factory: pytest.TempPathFactory) -> Attended:
    """Small cases on the patched tree where everything is trusted and Triton is not to be found."""
    return attend(patched, tmp_path_factory.mktemp("hidden"), "small", "--hide-triton", VLLM_TRITON_TRUST="all")
