"""A stage that brings a module which can be asked in the image: what is checked of it, and where it ends up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.workspaces import Workspace, faults, replaced

if TYPE_CHECKING:
    from pathlib import Path

STAGE = """\
  - id: policy
    kind: codemod
    summary: Bring the policy.
    deploy:
      - {source: policy.py, to: pkg/policy.py}
      - {source: table.txt, to: pkg/table.txt}
    live: pkg/policy.py
    post:
      - {check: symbol_exists, file: pkg/policy.py, name: live}
    waive:
      - {rule: E513, because: nothing imports it yet}
"""
POLICY = "def live():\n    return []\n"


def workspace(tmp_path: Path, policy: str = POLICY, stages: str = STAGE) -> Workspace:
    made = Workspace.at(tmp_path, stages)
    made.write("policy.py", policy)
    made.write("table.txt", "1\n")
    return made


def stages_of(made: Workspace) -> dict[str, Any]:
    ended = made.run("render")
    assert ended.code == 0, ended.err
    return {stage["id"]: stage for stage in json.loads(made.built()["patchset/manifest.json"])["stages"]}


@pytest.mark.parametrize(
    "policy", [POLICY, "X = 1\n\n\ndef live(folder=None, *more, deep=False, **rest):\n    return [X]\n"]
)
def test_the_manifest_names_the_module_of_a_stage_that_is_in_effect(policy: str, tmp_path: Path) -> None:
    assert stages_of(workspace(tmp_path, policy))["policy"]["live"] == "pkg/policy.py"


def test_a_stage_without_one_has_no_such_key(tmp_path: Path) -> None:
    stages = replaced(STAGE, "    live: pkg/policy.py\n", "")
    assert "live" not in stages_of(workspace(tmp_path, stages=stages))["policy"]


def test_a_stage_that_is_skipped_has_nothing_asked(tmp_path: Path) -> None:
    other = STAGE.replace("policy", "other") + "    enabled: false\n"
    made = workspace(tmp_path, stages=STAGE + other)
    made.write("other.py", POLICY)
    assert {id_ for id_, stage in stages_of(made).items() if "live" in stage} == {"policy"}


@pytest.mark.parametrize(
    ("stages", "policy", "message"),
    [
        (
            replaced(STAGE, "live: pkg/policy.py", "live: pkg/polcy.py"),
            POLICY,
            "`live: pkg/polcy.py` is no file that this stage deploys | did you mean 'pkg/policy.py'?",
        ),
        (
            replaced(STAGE, "live: pkg/policy.py", "live: pkg/a.py"),
            POLICY,
            "`live: pkg/a.py` is no file that this stage deploys | ",
        ),
        (replaced(STAGE, "live: pkg/policy.py", "live: pkg/table.txt"), POLICY, "'table.txt' has no function `live()`"),
        *(
            (
                STAGE,
                policy,
                "'policy.py' has no function `live()` at its top level that can be called without arguments",
            )
            for policy in (
                "",
                "live = 3\n",
                "class Policy:\n    def live(self):\n        return []\n",
                "async def live():\n    return []\n",
                "def live(folder):\n    return []\n",
                "def live(*, folder):\n    return []\n",
            )
        ),
    ],
)
def test_a_module_that_cannot_be_asked_is_refused_at_its_place(
    stages: str, policy: str, message: str, tmp_path: Path
) -> None:
    ended = workspace(tmp_path, policy, stages).run("validate", "--json")
    [fault] = faults(ended)
    assert ended.code == 3
    assert fault.startswith(f"E250 pipeline.yaml:12:11 {message}"), fault


def test_a_source_that_is_missing_is_told_once(tmp_path: Path) -> None:
    made = workspace(tmp_path)
    (made.folder / "policy.py").unlink()
    [fault] = faults(made.run("validate", "--json"))
    assert fault.startswith("E120")
