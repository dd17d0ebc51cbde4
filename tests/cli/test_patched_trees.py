"""Commands on a tree that is patched already: by the lock, by a run on the target's own base, or by neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.origin.images import layer
from tests.workspaces import CODE, TARGET, Ended, Workspace, faults, replaced, run_cli

if TYPE_CHECKING:
    from pathlib import Path

STAGES = """\
  - id: limit
    kind: codemod
    summary: Raise the limit.
    edits:
      - {op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
    post:
      - {check: assignment_equals, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
  - id: drop
    kind: codemod
    summary: Remove what leaves no trace.
    edits:
      - {op: delete, file: pkg/a.py, within: second, match: raise NotImplementedError()}
    post:
      - {check: match_count, file: pkg/a.py, within: second, pattern: raise NotImplementedError(), equals: 0}
"""


def outcomes(ended: Ended) -> dict[str, str]:
    return {record["stage"]: record["outcome"] for record in ended.records() if record["event"] == "stage"}


def states(ended: Ended) -> list[str]:
    return [record["state"] for record in ended.records() if record["event"] == "verify"]


def patched(workspace: Workspace, folder: str, *arguments: str) -> str:
    """Render, lay the overlay over a copy of the package, and return the option that names it."""
    assert workspace.run("render", *arguments).code == 0
    top = workspace.folder.parent / folder / "pkg"
    for path, content in workspace.tree().items():
        name = path.removeprefix("pkg/")
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(workspace.built().get(f"patchset/overlay/{path}", content))
    return f"pkg={top}"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path, STAGES)


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace whose base is a source distribution that is in the cache."""
    made = Workspace.at(tmp_path, STAGES)
    made.write(
        "target.yaml", replaced(TARGET, "{supplied: Copy it out of the image.}", "{sdist: pkg==1.0, package: pkg}")
    )
    packed = layer({f"pkg-1.0/{name}": content for name, content in made.tree().items()}, "w:gz")
    cache = tmp_path / "cache" / "sdist"
    cache.mkdir(parents=True)
    (cache / "pkg-1.0.tar.gz").write_bytes(packed)
    monkeypatch.setenv("ORCHESTRATOR_CACHE", str(tmp_path / "cache"))
    return made


def test_the_lock_knows_a_tree_that_is_patched(workspace: Workspace) -> None:
    assert workspace.run("lock").code == 0
    tree = patched(workspace, "patched")
    ended = run_cli("plan", "--json", "--tree", tree, cwd=workspace.folder)
    assert outcomes(ended) == {"limit": "already applied", "drop": "already applied"}
    ended = run_cli("verify", "--json", "--tree", tree, cwd=workspace.folder)
    assert (ended.code, states(ended)) == (0, ["applied", "applied"])
    assert run_cli("diff", "--tree", tree, cwd=workspace.folder).out == ""


def test_rendering_on_a_patched_tree_writes_no_overlay_and_says_what_is_in_it(workspace: Workspace) -> None:
    assert workspace.run("lock").code == 0
    tree = patched(workspace, "patched")
    ended = run_cli("render", "--json", "--tree", tree, cwd=workspace.folder)
    assert (ended.code, outcomes(ended)) == (0, {"limit": "already applied", "drop": "already applied"})
    assert not [name for name in workspace.built() if "overlay" in name or name.startswith("patches/")]
    assert run_cli("audit", "build", cwd=workspace.folder).code == 0


def test_a_stage_that_leaves_no_trace_is_not_claimed_without_a_chain(workspace: Workspace) -> None:
    tree = patched(workspace, "patched")
    ended = run_cli("plan", "--json", "--tree", tree, cwd=workspace.folder)
    assert outcomes(ended) == {"limit": "already applied", "drop": "failed"}
    (found,) = faults(ended)
    assert found.startswith("E403 pipeline.yaml:17:")
    assert ended.code == 4


def test_the_target_s_own_base_tells_with_the_parameters_of_today(fetched: Workspace) -> None:
    assert run_cli("render", "--set", "limit=16", cwd=fetched.folder).code == 0
    tree = patched(fetched, "patched", "--set", "limit=16")
    ended = run_cli("verify", "--json", "--tree", tree, "--set", "limit=16", cwd=fetched.folder)
    assert (ended.code, states(ended)) == (0, ["applied", "applied"])
    ended = run_cli("verify", "--json", "--tree", tree, cwd=fetched.folder)
    assert (ended.code, states(ended)) == (4, ["applied, changed since", "applied"])


def test_a_half_patched_stage_is_told_from_a_whole_one(fetched: Workspace) -> None:
    both = replaced(
        STAGES,
        '      - {op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}\n',
        '      - {op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}\n'
        "      - {op: replace, file: pkg/a.py, within: first, match: return y, with: return -y}\n",
    )
    fetched.pipeline(both)
    fetched.base({"a.py": replaced(CODE, "return y", "return -y")})
    ended = fetched.run("verify", "--json")
    first = ended.records()[0]
    assert (ended.code, first["state"]) == (4, "partly applied")
    assert "applied:     edit 2 in pkg/a.py:first" in first["detail"]
    assert "not applied: edit 1 in pkg/a.py" in first["detail"]
    ended = fetched.run("plan", "--json")
    assert faults(ended) == [
        (
            "E413 pipeline.yaml:6:9 the stage is in the tree in part: some of it is applied and some is not | "
            "Start from the base, or find out who wrote the applied part."
        )
    ]


def test_locking_another_tree_keeps_the_target_s_own_base(fetched: Workspace) -> None:
    assert run_cli("lock", cwd=fetched.folder).code == 0
    fetched.base({"a.py": replaced(CODE, "LIMIT = 4", "LIMIT = 5")})
    ended = fetched.run("render", "--json", "--locked")
    assert (ended.code, outcomes(ended)["limit"]) == (6, "applied (adapted)")
    assert fetched.run("lock").code == 0
    for arguments in ([], ["--tree", f"pkg={fetched.package}"]):
        ended = run_cli("render", "--json", "--locked", *arguments, cwd=fetched.folder)
        assert (ended.code, outcomes(ended)["limit"]) == (0, "applied (exact)")


def test_a_cached_base_of_another_digest_than_the_lock_s_is_refused(fetched: Workspace) -> None:
    assert run_cli("lock", cwd=fetched.folder).code == 0
    lock = (fetched.folder / "pipeline.lock").read_text()
    digest = lock.partition('"pkg==1.0": "')[2][:64]
    fetched.write("pipeline.lock", lock.replace(digest, "0" * 64))
    ended = run_cli("plan", "--json", "--offline", cwd=fetched.folder)
    (found,) = faults(ended)
    assert found.startswith("E302 ")
    assert ended.code == 6
