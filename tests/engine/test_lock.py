"""The lock: written and read, compared by definition, and what a run says about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.scopes import Definition
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.lock import Chain, Lock, differences, read_lock
from orchestrator.engine.outcome import Link
from tests.workspaces import CODE, LIMIT_STAGE, Workspace, faults, replaced, run_cli

if TYPE_CHECKING:
    from pathlib import Path

_name = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
_digest = st.none() | st.text("0123456789abcdef", min_size=64, max_size=64)
_link = st.builds(Link, st.builds(Definition, _name, _name), _name, _digest, _digest)
_table = st.dictionaries(_name, _name, max_size=4)
_locks = st.builds(
    lambda inputs, sources, bases, tools: Lock(
        inputs,
        sources,
        {d: chain for d, (_, chain) in bases.items()},
        {d: name for d, (name, _) in bases.items()},
        tools,
    ),
    _table,
    _table,
    st.dictionaries(_name, st.tuples(_name, st.builds(Chain, st.lists(_link, max_size=4).map(tuple))), max_size=3),
    _table,
)


@given(_locks)
def test_a_lock_is_read_back_as_it_was_written(lock: Lock) -> None:
    content = lock.to_bytes()
    assert read_lock("pipeline.lock", content) == lock
    assert read_lock("pipeline.lock", content).to_bytes() == content
    assert differences(lock, lock) == ()


@given(_locks, _locks)
def test_another_input_source_or_base_is_a_difference_by_name(old: Lock, new: Lock) -> None:
    shown = differences(old, new)
    for table in ("inputs", "sources"):
        before, after = getattr(old, table), getattr(new, table)
        for key in before.keys() | after.keys():
            line = f"{table.removesuffix('s')} {key}: "
            assert any(found.startswith(line) for found in shown) == (before.get(key) != after.get(key))
    gone = [digest for digest in old.bases if digest not in new.bases]
    assert [found for found in shown if found.startswith("base gone ")] == [f"base gone {d[:12]}" for d in gone]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_lock_or_one_diagnostic(content: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        read_lock("pipeline.lock", content)
    assert [d.code for d in caught.value.diagnostics] == ["E601"]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("bases"),
        lambda data: data.update(version=2),
        lambda data: data.update(inputs=[]),
        lambda data: data.update(bases={"x": {"name": "", "chain": [{}]}}),
        lambda data: data.update(bases={"x": {"name": "", "chain": 3}}),
        lambda data: data.update(bases=[1]),
        lambda data: data.update(bases={"x": None}),
    ],
)
def test_a_damaged_lock_is_one_diagnostic(change: object) -> None:
    data = json.loads(Lock().to_bytes())
    change(data)  # type: ignore[operator]  # one of the functions above
    with pytest.raises(Rejected) as caught:
        read_lock("pipeline.lock", json.dumps(data).encode())
    assert [d.code for d in caught.value.diagnostics] == ["E601"]


# --- the command ---


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path)


def lines(workspace: Workspace, *arguments: str) -> list[str]:
    return workspace.run("lock", *arguments).out.splitlines()


def test_a_lock_shows_what_it_blesses_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # a narrow terminal breaks the lines
    base, limit = lines(workspace)
    assert base.startswith("new base ")
    assert limit.startswith("limit: pkg/a.py   ")
    assert lines(workspace) == []
    assert workspace.run("lock", "--check").code == 0


def test_checking_writes_nothing(workspace: Workspace) -> None:
    assert workspace.run("lock", "--check").code == 6
    assert not (workspace.folder / "pipeline.lock").exists()


def test_another_value_of_a_parameter_is_as_locked_as_the_first(workspace: Workspace) -> None:
    assert workspace.run("lock").code == 0
    ended = workspace.run("render", "--locked", "--set", "limit=16")
    assert (ended.code, "applied (exact)" in ended.out) == (0, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("base", "E602 pipeline.lock a definition that stage 'limit' touches has changed since it was locked"),
        ("source", "E602 pipeline.lock k.py has changed since it was locked"),
        ("new source", "E602 pipeline.lock l.py is not in the lock"),
        ("none", "E602 there is no pipeline.lock"),
    ],
)
def test_what_is_not_locked_is_a_warning_and_with_locked_an_error(workspace: Workspace, change: str, said: str) -> None:
    deploy = "    waive: [{rule: E513, because: a toy}]\n    deploy:\n      - {source: k.py, to: pkg/k.py}\n"
    workspace.write("k.py", "K = 1\n")
    workspace.pipeline(replaced(LIMIT_STAGE, "    edits", f"{deploy}    edits"))
    assert workspace.run("lock").code == 0
    match change:
        case "base":
            workspace.base({"a.py": replaced(CODE, "LIMIT = 4", "LIMIT = 5")})
        case "source":
            workspace.write("k.py", "K = 2\n")
        case "new source":
            workspace.write("l.py", "L = 2\n")
            more = f"{deploy}      - {{source: l.py, to: pkg/l.py}}\n"
            workspace.pipeline(replaced(LIMIT_STAGE, "    edits", f"{more}    edits"))
        case _:
            (workspace.folder / "pipeline.lock").unlink()
    ended = workspace.run("render", "--locked", "--json")
    help_ = "Look at the change, then bless it with `orchestrator lock`."
    assert f"{said} | {help_}" in faults(ended)
    assert ended.code == 6
    assert not (workspace.folder / "build").exists()
    ended = workspace.run("render", "--json")
    assert (ended.code, faults(ended)) == (0, [])
    assert next(r["code"] for r in ended.records() if r["event"] == "diagnostic") == "W602"
    assert workspace.run("lock").code == 0
    assert workspace.run("render", "--locked").code == 0


def test_a_changed_definition_elsewhere_does_not_concern_the_lock(workspace: Workspace) -> None:
    assert workspace.run("lock").code == 0
    workspace.base({"a.py": replaced(CODE, "x + LIMIT", "x * LIMIT")})
    assert workspace.run("render", "--locked").code == 0


def test_a_patched_tree_is_recognised_by_the_lock(workspace: Workspace) -> None:
    removing = replaced(
        LIMIT_STAGE,
        'op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"',
        "op: delete, file: pkg/a.py, within: second, match: raise NotImplementedError()",
    )
    workspace.pipeline(removing.split("    post")[0])
    assert workspace.run("lock").code == 0
    assert workspace.run("render").code == 0
    workspace.base({"a.py": workspace.built()["patchset/overlay/pkg/a.py"]})
    ended = workspace.run("plan", "--json")
    assert [r["outcome"] for r in ended.records() if r["event"] == "stage"] == ["already applied"]
    assert workspace.run("verify").code == 0


def test_accepting_a_stage_leaves_what_the_lock_holds_of_others(tmp_path: Path) -> None:
    second = LIMIT_STAGE.replace("id: limit", "id: second").replace("a.py, name", "b.py, name")
    workspace = Workspace.at(tmp_path, LIMIT_STAGE + second)
    workspace.base({"b.py": CODE})
    assert workspace.run("lock").code == 0
    lock = workspace.folder / "pipeline.lock"
    before = read_lock("pipeline.lock", lock.read_bytes())
    changed = replaced(CODE, "LIMIT = 4", "LIMIT = 4\nOTHER = 1")
    workspace.base({"a.py": changed, "b.py": changed})
    assert workspace.run("lock", "--accept", "limit", "--check").code == 6
    assert lock.read_bytes() == before.to_bytes()
    ended = workspace.run("lock", "--accept", "limit")
    assert (ended.code, "limit: pkg/a.py   has changed since it was locked" in ended.out) == (0, True), ended
    after = read_lock("pipeline.lock", lock.read_bytes())
    digest = workspace.tree().digest
    assert {link.stage for link in after.bases[digest].links} == {"limit"}
    assert after == before.accepting(digest, after.base_names[digest], after.bases[digest].links, ["limit", "second"])
    outcomes = {r["stage"]: r["outcome"] for r in workspace.run("plan", "--json").records() if r["event"] == "stage"}
    assert outcomes == {"limit": "applied (exact)", "second": "applied (adapted)"}
    assert "nothing to accept" in workspace.run("lock", "--accept", "limit").err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--accept", "limt"), "E211"),
        (("--to", "pkg==1"), "E211"),
        (("--accept", "limit", "--to", "other==1"), "E135"),
        (("--accept", "limit", "--to", "pkg==1", "--tree", "pkg=."), "E700"),
    ],
)
def test_what_cannot_be_accepted_is_a_diagnostic(tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    ended = run_cli("lock", "--json", *arguments, cwd=Workspace.at(tmp_path).folder)
    assert (ended.code, [fault.split()[0] for fault in faults(ended)]) == (2, [code])


def test_a_stage_that_does_not_apply_is_not_accepted(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    workspace.base({"a.py": replaced(CODE, "LIMIT", "CAP")})
    ended = workspace.run("lock", "--accept", "limit", "--json")
    assert (ended.code, [fault.split()[0] for fault in faults(ended)]) == (4, ["E403"])
    assert not (workspace.folder / "pipeline.lock").exists()
