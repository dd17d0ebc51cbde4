"""The command on this repository's kernels: real compilers, and a stand-in only where a GPU would be."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.tune.space import MEASURE, SPACE, TABLE
from tests.tune.scene import Scene, result
from tests.workspaces import Ended, run_cli

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.triton


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    pytest.importorskip("triton")
    pytest.importorskip("optuna")
    made = Scene.at(tmp_path)
    monkeypatch.setenv("ORCHESTRATOR_CACHE", str(made.cache))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    return made


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    pytest.importorskip("triton")
    pytest.importorskip("optuna")
    made = Scene.at(tmp_path, clock=True)
    monkeypatch.setenv("ORCHESTRATOR_CACHE", str(made.cache))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    return made


def run(scene: Scene, *words: str) -> Ended:
    return run_cli(*scene.words(*words), cwd=scene.root)


def codes(ended: Ended) -> list[str]:
    return [record["code"] for record in ended.records() if record["event"] == "diagnostic"]


def keys(trials: list[dict[str, Any]]) -> list[str]:
    return [trial["key"] for trial in trials]


def test_without_a_device_rows_are_ranked_compiled_and_said_to_be_derived(scene: Scene) -> None:
    ended = run(scene, "--no-timing", "--trials", "3", "--plot", "space.svg")
    assert ended.code == 0, ended
    space, *rows, last = ended.records()
    assert space["passing"] + sum(space["rejected"].values()) == space["tiles"]
    assert sum(row["table"] for row in rows) == 1
    assert {row["basis"] for row in rows} == {"derived"}
    assert "only derived" in last["statement"]
    assert last["diff"] == ""
    assert space["disagreements"] == 0
    assert (scene.root / "space.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert scene.tried()[0]["shared"] > 0


def test_the_fastest_row_becomes_a_diff_that_applies_and_a_table_that_loads(timed: Scene) -> None:
    before = timed.table.read_bytes()
    ended = run(timed, "--trials", "6", "--out", "row.diff", "--plot", "space.png")
    assert ended.code == 0, ended
    assert timed.table.read_bytes() == before
    last = result(ended.out)
    assert last["diff"] == (timed.root / "row.diff").read_text(encoding="utf-8")
    for word in ("1970-01-01", "a stand-in", "paged_decode_v2-h200-float16-64-measured"):
        assert word in " ".join(last["diff"].replace('"', "").split())
    subprocess.run(["git", "apply", "row.diff"], cwd=timed.root, check=True)
    rows = [record for record in ended.records() if record["event"] == "row"]
    best = next(row for row in rows if not row["table"])
    code = "from kernels.muh_dispatch import decode_config as d; r = d('h200', 'float16', 64, 2); "
    code += "print(r.block_n, r.num_stages)"
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=timed.root, capture_output=True, text=True, check=True
    ).stdout
    expected = min(row["value"] for row in rows)
    assert best["value"] == expected
    assert [int(word) for word in shown.split()] in [
        [row["choice"]["block_n"], row["choice"]["num_stages"]] for row in rows if row["value"] == expected
    ]
    # The table's row is another now: what was timed beside the old one cannot be compared.
    again = run(timed, "--trials", "6")
    assert (again.code, codes(again)) == (2, ["E906"])


def test_nothing_is_written_without_write_and_with_it_the_table_alone_is(timed: Scene) -> None:
    ended = run(timed, "--trials", "6", "--write")
    assert ended.code == 0
    assert result(ended.out)["diff"]
    assert {path.name for path in timed.table.parent.iterdir()} >= {"muh_dispatch.py", "prefix_prefill.py"}
    assert not list(timed.table.parent.glob(".*"))
    assert b"measured 1970-01-01 on one a stand-in" in timed.table.read_bytes().replace(b'"\n            "', b"")


def test_rows_that_are_wrong_or_kill_the_device_s_process_are_trials_that_failed(timed: Scene) -> None:
    ended = run(timed, "--trials", "14", "--seed", "3")
    assert ended.code == 0, ended
    reasons = [trial["reason"] for trial in timed.trials() if trial.get("stage") == "failed"]
    assert reasons
    assert all("wrong" in reason or "exit status -6" in reason for reason in reasons)


def test_a_device_that_hangs_costs_its_row_the_limit_and_nothing_else(timed: Scene) -> None:
    clock = timed.root / MEASURE
    text = clock.read_text(encoding="utf-8").replace("os.abort()", "time.sleep(600)")
    text = text.replace('if row["num_warps"] == 4', "if False").replace(
        'row["num_warps"] == 8', 'row["num_stages"] == 3'
    )
    clock.write_text(text, encoding="utf-8")
    start = time.monotonic()
    ended = run(timed, "--trials", "2", "--limit", "10", "--timing")
    assert ended.code == 0, ended
    assert time.monotonic() - start < 300
    assert "no answer within 10 s" in [trial.get("reason") for trial in timed.trials()]


def test_the_same_command_goes_on_where_the_last_one_ended(scene: Scene) -> None:
    assert run(scene, "--no-timing", "--trials", "2").code == 0
    first = keys(scene.tried())
    assert run(scene, "--no-timing", "--trials", "2").code == 0
    assert keys(scene.tried()) == first
    assert run(scene, "--no-timing", "--trials", "4").code == 0
    tried = keys(scene.tried())
    assert (len(tried), len(set(tried)), tried[:2]) == (4, 4, first)


def wait_for(scene: Scene, count: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            states = [trial["state"] for trial in scene.trials() if "key" in trial]
        except sqlite3.OperationalError:
            states = []
        if len(scene.tried() if states else []) >= count and "RUNNING" in states:
            return
        time.sleep(0.05)
    pytest.fail(f"it did not get so far: {process.communicate(timeout=10)}")


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT])
def test_what_was_being_tried_when_the_process_ended_is_tried_again_and_nothing_twice(
    scene: Scene, way: signal.Signals
) -> None:
    process = scene.started("--no-timing")
    wait_for(scene, 1, process)
    process.send_signal(way)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (-9 if way is signal.SIGKILL else 130), (out, err)
    before = keys(scene.tried())
    asked = [trial for trial in scene.trials() if "key" in trial]
    lost = {trial["key"] for trial in asked if trial.get("stage") not in {"filtered", "duplicate"}} - set(before)
    goal = len(before) + len(lost) + 1
    ended = run(scene, "--no-timing", "--trials", str(goal))
    assert ended.code == 0, ended
    tried = keys(scene.tried())
    assert len(tried) == len(set(tried)) == goal
    assert lost <= set(tried)
    assert "RUNNING" not in {trial["state"] for trial in scene.trials()}


def test_two_processes_share_a_study_and_try_nothing_twice(scene: Scene) -> None:
    processes = [scene.started("--no-timing", "--trials", "6") for _ in range(2)]
    ended = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    tried = keys(scene.tried())
    assert len(set(tried)) == len(tried) >= 6
    assert len({trial["owner"]["pid"] for trial in scene.tried()}) == 2


def test_a_model_that_says_too_little_is_an_error_that_names_the_tile(scene: Scene) -> None:
    text = scene.table.read_text(encoding="utf-8")
    lies = text.replace("tiles = 2 * max(1, num_stages - 1) * block_n * head_size", "tiles = block_n")
    assert lies != text
    scene.table.write_text(lies, encoding="utf-8")
    ended = run(scene, "--no-timing", "--trials", "2")
    assert ended.code == 5
    assert set(codes(ended)) == {"E907"}
    assert "block_n" in ended.out


# What is wrong with the question, the workspace or the storage: a code, the exit code, and a word of the message.
def test_an_unknown_operation_is_told_with_the_nearest_one(scene: Scene) -> None:
    words = scene.words()
    words[1] = "decod"
    ended = run_cli(*words, cwd=scene.root)
    assert (ended.code, codes(ended)) == (2, ["E902"])
    assert "did you mean 'decode'?" in ended.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--dtype", "float8"), "E902"),
        (("--heads", "5/2"), "E902"),
        (("--heads", "x"), "E902"),
        (("--device", "h2000"), "E902"),
        (("--length", "0"), "E902"),
        (("--head-size", "4096"), "E903"),
        (("--python", "/nonexistent/python"), "E904"),
        (("--storage", "sqlite:////nonexistent/folder/x.sqlite"), "E905"),
        (("--storage", "no address"), "E905"),
        (("--storage", "nodialect://x/y"), "E905"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code(scene: Scene, words: tuple[str, ...], code: str) -> None:
    ended = run(scene, "--no-timing", "--trials", "1", *words)
    assert codes(ended) == [code], ended
    assert ended.code == (3 if code == "E903" else 2)


def test_a_storage_that_is_no_database_is_refused_and_left_alone(scene: Scene) -> None:
    scene.cache.mkdir()
    scene.storage.write_bytes(b"this is no database, but it is somebody's file" * 100)
    before = scene.storage.read_bytes()
    ended = run(scene, "--no-timing", "--trials", "1")
    assert (ended.code, codes(ended)) == (2, ["E905"])
    assert scene.storage.read_bytes() == before


def test_a_cache_that_cannot_be_made_is_told(scene: Scene) -> None:
    scene.cache.write_text("a file", encoding="utf-8")
    ended = run(scene, "--no-timing", "--trials", "1")
    assert (ended.code, codes(ended)) == (2, ["E905"])


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (("block_n=tile[0],", "block_n=4096,"), "shared memory"),
        (("DECODE = {", "DECODE = }"), "SyntaxError"),
        (("TUNED: tuple[Config, ...] = ()", "TUNED: tuple[Config, ...] = (1,)\nTUNED[0].key"), "key"),
    ],
)
def test_a_table_that_somebody_broke_is_told_as_such(scene: Scene, edit: tuple[str, str], word: str) -> None:
    text = scene.table.read_text(encoding="utf-8")
    assert edit[0] in text
    scene.table.write_text(text.replace(*edit), encoding="utf-8")
    ended = run(scene, "--no-timing", "--trials", "1")
    assert (ended.code, codes(ended)) == (3, ["E903"])
    assert word in ended.out


@pytest.mark.parametrize("path", [SPACE, MEASURE, TABLE])
def test_a_workspace_without_kernels_is_told_what_it_lacks(scene: Scene, path: str) -> None:
    (scene.root / path).unlink()
    ended = run(scene, "--no-timing", "--trials", "1")
    assert (ended.code, codes(ended)) == (3, ["E903"])
    assert path in ended.out


@pytest.mark.parametrize("name", ["optuna", "matplotlib"])
def test_a_missing_extra_is_told_with_the_command_that_brings_it(
    scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda word: None if word == name else found(word))
    ended = run(scene, "--no-timing", "--trials", "1")
    assert (ended.code, codes(ended)) == (2, ["E901"])
    assert "pip install 'orchestrator[tune]'" in ended.out


def test_a_plot_that_cannot_be_written_is_told(scene: Scene) -> None:
    for name in ("space.nothing", "space", "no/such/folder/space.svg"):
        ended = run(scene, "--no-timing", "--trials", "1", "--plot", name)
        assert (ended.code, codes(ended)) == (2, ["E701"])
    assert not scene.storage.exists(), "before the search, not after it"


def test_a_place_for_the_diff_that_cannot_be_written_is_told_before_the_search(scene: Scene, tmp_path: Path) -> None:
    for place in (tmp_path / "no" / "such.diff", tmp_path):
        ended = run(scene, "--no-timing", "--trials", "1", "--out", str(place))
        assert (ended.code, codes(ended)) == (2, ["E701"])
    assert not scene.storage.exists()


def test_the_password_of_a_storage_is_not_shown(scene: Scene) -> None:
    for url in ("nodialect://me:geh/eim@127.0.0.1/x", "postgresql://me:geh/eim@127.0.0.1:1/x"):
        ended = run(scene, "--no-timing", "--trials", "1", "--storage", url)
        assert (ended.code, codes(ended)) == (2, ["E905"])
        assert "geh" not in ended.out + ended.err
        assert "me:***@127.0.0.1" in ended.out


def test_the_progress_bar_is_for_terminals(scene: Scene) -> None:
    ended = run(scene, "--no-timing", "--trials", "1")
    assert ended.err == ""
    assert json.loads(ended.out.splitlines()[0])["event"] == "space"
    assert os.environ["ORCHESTRATOR_CACHE"] == str(scene.cache)
