"""`render` and `lock` killed, twice at once and without room: a sample of what benchmarks/kills.py does at length."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import kills
from benchmarks.kills import LOCK, RENDER, Job
from orchestrator.cli.app import run_app

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the runs are forked, and the disk is a tmpfs")
JOBS = pytest.mark.parametrize("job", [RENDER, LOCK], ids=lambda job: job.name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = kills.workspace(tmp_path)
    kills.warm(made)
    return made


@JOBS
def test_whenever_a_run_is_killed_what_lies_there_is_old_or_new(folder: Path, job: Job) -> None:
    found = kills.killed(folder, job, 8, random.Random(job.name))  # noqa: S311 - moments, not secrets
    assert found["old"] + found["new"] == 8
    assert found["mix"] == 0
    assert found["killed"] > 0
    assert found["left over"] == 0, "the next run has swept up"


@pytest.mark.parametrize(("first", "second"), [(RENDER, RENDER), (LOCK, LOCK), (RENDER, LOCK)])
def test_two_runs_at_once_leave_what_one_of_them_makes(folder: Path, first: Job, second: Job) -> None:
    found = kills.doubled(folder, first, second, 3, random.Random(1))  # noqa: S311 - moments, not secrets
    ends = {f"{job.name} ended with {code}" for job in (first, second) for code in (0, 2)}
    assert set(found) <= ends | {f"{job.name}: one of the two" for job in (first, second)}
    if first is second is LOCK:
        assert found["lock ended with 0"] == 6, "one waits for the other"
    if first is second is RENDER:
        assert found["render ended with 0"] >= 3, "one of each pair gets its way"


@JOBS
def test_on_a_full_disk_the_old_stays_and_the_exit_code_says_so(tmp_path: Path, job: Job) -> None:
    with kills.small_disk(tmp_path, 512) as disk:
        if disk is None:
            pytest.skip("needs the right to mount a small file system")
        found = kills.starved(kills.workspace(disk), job, 4)
    assert set(found) == {"old", "new"}


def test_a_lock_that_a_killed_run_left_unfinished_is_no_obstacle(folder: Path) -> None:
    (folder / ".pipeline.lock.new").write_bytes(b"half")
    arguments = ["lock", "-C", str(folder), "--tree", f"pkg={folder.parent / 'pkg'}", "--offline", "--set", "limit=9"]
    assert run_app(arguments) == 0
    assert not (folder / ".pipeline.lock.new").exists()
    assert (folder / "pipeline.lock").read_bytes().startswith(b"{")


def test_a_render_whose_lock_changes_meanwhile_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold the run against one lock and write another one's digest into the log."""
    from orchestrator.origin import interpreter  # noqa: PLC0415 - the same

    def written_meanwhile(_version: object) -> None:
        (folder / "pipeline.lock").write_bytes((folder / "pipeline.lock").read_bytes() + b"\n")

    before = kills.state(folder, RENDER)
    monkeypatch.setattr(interpreter, "find_interpreter", written_meanwhile)
    arguments = ["render", "-C", str(folder), "--tree", f"pkg={folder.parent / 'pkg'}", "--offline", "--set", "limit=9"]
    assert run_app(arguments) == 2
    assert kills.state(folder, RENDER) == before
