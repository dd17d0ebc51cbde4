"""The pinned set: the sources of the stages by digest, from the lock; every difference is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workspaces import LIMIT_STAGE, Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workspaces import Ended

COUNT = 13
NAMES = [f"kernels/k{number:02}.py" for number in range(COUNT)]


def stages(names: list[str]) -> str:
    deploys = "".join(f"      - {{source: {name}, to: pkg/ops/{name.rpartition('/')[2]}}}\n" for name in names)
    return (
        f"{LIMIT_STAGE}  - id: kernels\n    kind: codemod\n    summary: Bring them.\n    deploy:\n{deploys}"
        "    waive: [{rule: E513, because: nobody calls them in this test}]\n"
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, stages(NAMES))
    for name in NAMES:
        made.write(name, f"def kernel(x):\n    return '{name}', x\n")
    assert made.run("lock").code == 0
    return made


def said(ended: Ended, *codes: str) -> list[str]:
    found = (record for record in ended.records() if record["event"] == "diagnostic")
    return [f"{record['severity']}: {record['message']}" for record in found if record["code"] in codes]


def test_what_is_as_locked_is_silent(workspace: Workspace) -> None:
    for name in ("plan", "render"):
        assert said(workspace.run(name, "--json"), "W602", "E602", "W141") == []
    assert workspace.run("render", "--locked").code == 0
    assert workspace.run("lock", "--check").code == 0


def test_a_directory_of_14_is_one_too_many_by_name(workspace: Workspace) -> None:
    workspace.write("kernels/k99.py", "print('what is this')\n")
    message = "no stage uses 'kernels/k99.py', and nothing that a stage uses imports or includes it"
    for name in ("validate", "plan", "render"):
        ended = workspace.run(name, "--json")
        assert (ended.code, said(ended, "W602", "W141")) == (0, [f"warning: {message}"])
    ended = workspace.run("render", "--locked", "--json")
    locked = f"error: kernels/k99.py lies among the sources and is not in the lock: {message}"
    assert (ended.code, said(ended, "E602")) == (6, [locked])
    ended = workspace.run("lock", "--check", "--json")
    assert (ended.code, said(ended, "W141")) == (6, [f"warning: {message}"])


def test_a_14th_that_is_deployed_is_not_in_the_lock(workspace: Workspace) -> None:
    workspace.write("kernels/k99.py", "def kernel(x):\n    return x\n")
    workspace.pipeline(stages([*NAMES, "kernels/k99.py"]))
    assert said(workspace.run("plan", "--json"), "W602") == ["warning: kernels/k99.py is not in the lock"]
    ended = workspace.run("render", "--locked", "--json")
    assert (ended.code, said(ended, "E602")[0]) == (6, "error: kernels/k99.py is not in the lock")


def test_13_of_which_one_has_another_digest_is_named(workspace: Workspace) -> None:
    workspace.write(NAMES[4], "def kernel(x):\n    return x\n")
    message = f"{NAMES[4]} has changed since it was locked"
    for name in ("plan", "render"):
        ended = workspace.run(name, "--json")
        assert (ended.code, said(ended, "W602")[0]) == (0, f"warning: {message}")
    ended = workspace.run("render", "--locked", "--json")
    assert (ended.code, said(ended, "E602")[0]) == (6, f"error: {message}")
    ended = workspace.run("lock", "--check")
    assert (ended.code, f"source {NAMES[4]}: " in ended.out) == (6, True)


@pytest.mark.parametrize("stage", ["claims it still", "claims it no more"])
def test_a_directory_of_12_lacks_one_by_name(workspace: Workspace, stage: str) -> None:
    (workspace.folder / NAMES[7]).unlink()
    if stage == "claims it still":
        ended = workspace.run("plan", "--json")
        assert (ended.code, said(ended, "E120")) == (3, [f"error: '{NAMES[7]}' does not exist in the workspace"])
        return
    workspace.pipeline(stages([name for name in NAMES if name != NAMES[7]]))
    message = f"{NAMES[7]} is in the lock, and no stage uses it any more"
    assert said(workspace.run("plan", "--json"), "W602") == [f"warning: {message}"]
    ended = workspace.run("render", "--locked", "--json")
    assert (ended.code, said(ended, "E602")) == (6, [f"error: {message}"])
    ended = workspace.run("lock", "--check")
    assert (ended.code, f"source {NAMES[7]}: " in ended.out, "→ absent" in ended.out) == (6, True, True)


def test_every_difference_is_named_and_not_the_first_alone(workspace: Workspace) -> None:
    workspace.write(NAMES[0], "x = 1\n")
    workspace.write(NAMES[1], "x = 2\n")
    workspace.pipeline(stages(NAMES[:-1]))
    (workspace.folder / NAMES[-1]).rename(workspace.folder / "kernels" / "other.py")
    ended = workspace.run("render", "--locked", "--json")
    named = [line.removeprefix("error: ").split(" ")[0] for line in said(ended, "E602")]
    assert named[:3] == [NAMES[0], NAMES[1], NAMES[-1]]
    assert "kernels/other.py" in named


def test_a_template_of_a_stage_is_in_the_set(workspace: Workspace) -> None:
    template = "  - {id: t, kind: template, summary: Write., render: [{template: templates/x.j2, to: x}]}\n"
    workspace.write("templates/x.j2", "one\n")
    workspace.pipeline(stages(NAMES) + template)
    assert workspace.run("lock").code == 0
    workspace.write("templates/x.j2", "two\n")
    assert said(workspace.run("plan", "--json"), "W602") == ["warning: templates/x.j2 has changed since it was locked"]
