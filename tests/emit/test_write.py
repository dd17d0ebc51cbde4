"""A folder is the old whole or the new whole: killed, full, twice at once, under any umask."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.diagnostics import Rejected
from orchestrator.emit import write
from orchestrator.emit.write import MARK, recover, write_folder
from tests.workspaces import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD = {MARK: b"old", "a/b.txt": b"old", "run.sh": b"#!/bin/sh\n"}
NEW = {MARK: b"new", "a/c/d.txt": b"new", "e.txt": b"new"}


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def refused(folder: Path, files: dict[str, bytes]) -> tuple[str, str]:
    with pytest.raises(Rejected) as caught:
        write_folder(folder, files)
    (found,) = caught.value.diagnostics
    return found.code, found.message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "build"


# OLD names `a` and `run.sh`, which NEW does not: only a log that lists them makes them ours.
LOGGED = {**OLD, MARK: b'{"event": "artefact", "name": "run.sh"}\n{"event": "artefact", "name": "a"}\n'}


def test_a_folder_holds_exactly_what_was_given(folder: Path) -> None:
    write_folder(folder, LOGGED)
    assert content(folder) == LOGGED
    write_folder(folder, NEW)
    assert content(folder) == NEW
    assert sorted(path.name for path in folder.parent.iterdir()) == [".build.lock", "build"]


def test_a_folder_may_lie_in_folders_that_are_made_for_it(folder: Path) -> None:
    write_folder(folder / "deep" / "down", OLD)
    assert content(folder / "deep" / "down") == OLD


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_modes_are_the_same_under_every_umask(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_folder(folder, OLD)
    finally:
        os.umask(before)
    modes = {p.relative_to(folder.parent).as_posix(): p.stat().st_mode & 0o7777 for p in [folder, *folder.rglob("*")]}
    assert modes == {
        "build": 0o755,
        "build/a": 0o755,
        "build/a/b.txt": 0o644,
        f"build/{MARK}": 0o644,
        "build/run.sh": 0o755,
    }


def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    assert refused(folder, NEW) == ("E702", f"build/ holds files that are not ours (no {MARK})")
    assert content(folder) == {"thesis.txt": b"mine"}


def test_a_file_of_somebody_else_among_ours_is_refused(folder: Path) -> None:
    write_folder(folder, NEW)
    (folder / "thesis.txt").write_text("mine")
    assert refused(folder, NEW) == ("E702", "build/ holds what is not ours: thesis.txt")
    assert content(folder) == {**NEW, "thesis.txt": b"mine"}


def test_an_empty_folder_is_filled(folder: Path) -> None:
    folder.mkdir()
    write_folder(folder, NEW)
    assert content(folder) == NEW


# --- where the system cannot exchange two names ---


@pytest.fixture
def without_exchange(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(write, "_renameat2", lambda _left, _right: False)
    return iter(())


@pytest.mark.usefixtures("without_exchange")
def test_two_renames_do_where_names_cannot_be_exchanged(folder: Path) -> None:
    write_folder(folder, LOGGED)
    write_folder(folder, NEW)
    assert content(folder) == NEW
    assert sorted(path.name for path in folder.parent.iterdir()) == [".build.lock", "build"]


@pytest.mark.usefixtures("without_exchange")
def test_what_died_between_the_two_renames_is_put_back_at_the_next_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(folder, LOGGED)
    rename = Path.rename

    def dying(self: Path, target: Path) -> Path:
        if target == folder:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", dying)
    with pytest.raises(KeyboardInterrupt):
        write_folder(folder, NEW)
    monkeypatch.undo()
    assert not folder.exists()
    recover(folder)
    assert content(folder) == LOGGED
    write_folder(folder, NEW)
    assert content(folder) == NEW


def test_this_system_exchanges_names_in_one_step(tmp_path: Path) -> None:
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("this system has no renameat2")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert write._renameat2(tmp_path / "a", tmp_path / "b")  # noqa: SLF001 - what all of the above rests on
    assert content(tmp_path) == {"a/b": b"", "b/a": b""}


# --- killed ---

WRITER = """
import sys
from pathlib import Path
from orchestrator.emit import write
folder, exchange = Path(sys.argv[1]), sys.argv[2] == "exchange"
if not exchange:
    write._renameat2 = lambda left, right: False
print("ready", flush=True)
number = 0
while True:
    number += 1
    text = str(number).encode()
    write.write_folder(folder, {"audit.jsonl": text, **{f"patches/{i}.txt": text for i in range(20)}})
"""


@pytest.mark.parametrize("how", ["exchange", "renames"])
def test_whenever_a_writer_is_killed_the_folder_is_one_whole(folder: Path, how: str) -> None:
    chance = random.Random(how)  # noqa: S311 - moments, not secrets
    for _ in range(25):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), how], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.random() * 0.08)
        child.send_signal(signal.SIGKILL)
        _, err = child.communicate()
        assert (child.returncode, err) == (-signal.SIGKILL, b"")
        if how == "renames":
            recover(folder)
        found = content(folder) if folder.exists() else {}
        assert len(found) in {0, 21}
        assert len(set(found.values())) <= 1
    write_folder(folder, NEW)
    assert content(folder) == NEW


# --- full ---


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if (
        os.geteuid() != 0
        or shutil.which("mount") is None
        or subprocess.run(mount, check=False, capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_on_a_full_disk_the_former_folder_stays_and_nothing_is_left_over(small_disk: Path) -> None:
    folder = small_disk / "build"
    write_folder(folder, LOGGED)
    large = {MARK: b"new", "a": b"x" * 400_000, "run.sh": b""}
    assert refused(folder, large) == ("E701", "build/ cannot be written: No space left on device")
    assert content(folder) == LOGGED
    assert sorted(path.name for path in small_disk.iterdir()) == [".build.lock", "build"]
    write_folder(folder, NEW)
    assert content(folder) == NEW


# --- twice at once ---


def test_of_two_writers_at_once_one_is_told_to_wait(folder: Path) -> None:
    write_folder(folder, NEW)
    with write._alone(folder):  # noqa: SLF001 - what the other writer holds
        assert refused(folder, NEW) == ("E703", "another run is writing build/ right now")
    write_folder(folder, NEW)


def test_a_writer_that_fails_lets_the_next_one_in(folder: Path) -> None:
    for _ in range(2):
        with contextlib.suppress(Rejected):
            write_folder(folder, {MARK: b"", "a": b"", "a/b": b""})
    write_folder(folder, NEW)
    assert content(folder) == NEW
