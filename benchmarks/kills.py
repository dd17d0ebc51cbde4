"""Kill, starve and double `render` and `lock`: what lies there afterwards is the old or the new, never a mix.

    python benchmarks/kills.py [--moments 200] [--pairs 50] [--sizes 40] [--seed 1]

- killed: `kill -9` at that many moments of each command, drawn over the whole run and, every other time, over the time
  in which it writes; each time over what the former one left, which is an older build or lock;
- twice at once: two renders, two locks, and a render beside a lock;
- full: a small file system with ever less room (needs the right to mount one, else it is left out).

Runs are forked from this process, so that one takes a fraction of a second. Exit code 1 where there is a mix.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.app import run_app
from orchestrator.emit import write as writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
EPOCH = "1700000000"
PIPELINE = """\
version: 1
name: killed
target: target.yaml
params: {limit: 8}
stages:
  - id: limit
    kind: codemod
    summary: Raise the limit.
    edits:
      - {op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
    post:
      - {check: assignment_equals, file: pkg/a.py, name: LIMIT, value: "${params.limit}"}
"""
TARGET = """\
version: 1
name: box
image: {reference: example.org/box:1, python: "3.11", interpreter: /usr/bin/python3}
base: {supplied: It is here.}
roots: {pkg: [/opt/lib/pkg]}
"""
CODE = '"""A module."""\n\nLIMIT = 4\n\n\ndef first(x):\n    return x + LIMIT\n'
State = dict[str, bytes]
"""What a command has written: path → bytes; nothing if it is not there."""


@dataclass(frozen=True)
class Job:
    """A command, the file or folder that it writes, and the function that writes it."""

    name: str
    output: str
    writer: str

    def told(self, tell: Callable[[], None]) -> None:
        """Let this process, a child that ends with the command, tell of the moment from which a kill may tear."""
        real = getattr(writing, self.writer)

        def first(place: Path, content: object) -> None:
            tell()
            real(place, content)

        setattr(writing, self.writer, first)


RENDER = Job("render", "build", "write_folder")
LOCK = Job("lock", "pipeline.lock", "write_file")


def workspace(folder: Path) -> Path:
    """Write a workspace with its package beside it and return its folder."""
    made = folder / "workspace"
    (made / "templates").mkdir(parents=True)
    (folder / "pkg").mkdir()
    for name in ("Dockerfile.j2", "dockerignore.j2"):
        shutil.copy(ROOT / "templates" / name, made / "templates" / name)
    (made / "pipeline.yaml").write_text(PIPELINE)
    (made / "target.yaml").write_text(TARGET)
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "a.py").write_text(CODE)
    return made


def state(folder: Path, job: Job) -> State:
    """Return what lies there now."""
    place = folder / job.output
    if place.is_dir():
        return {p.relative_to(place).as_posix(): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}
    return {job.output: place.read_bytes()} if place.is_file() else {}


def start(folder: Path, job: Job, limit: int) -> tuple[int, int]:
    """Start a run in a child; return its process and a descriptor that can be read when it begins to write."""
    readable, writable = os.pipe()
    child = os.fork()
    if child:
        os.close(writable)
        return child, readable
    try:  # in the child: quiet, and without a way back
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.environ["SOURCE_DATE_EPOCH"] = EPOCH
        sys.argv = ["orchestrator", job.name]  # it is written into the log
        job.told(lambda: os.close(writable))
        tree = f"pkg={folder.parent / 'pkg'}"
        code = run_app([job.name, "-C", str(folder), "--tree", tree, "--offline", "--set", f"limit={limit}"])
        os._exit(code)
    finally:
        os._exit(70)


def finish(child: int, readable: int) -> int:
    """Wait for a run and return its exit code, below zero for the signal that ended it."""
    os.close(readable)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def warm(folder: Path) -> None:
    """Run both commands in this process, so that its children find everything imported."""
    for job in (RENDER, LOCK):
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            code = run_app([job.name, "-C", str(folder), "--tree", f"pkg={folder.parent / 'pkg'}", "--offline"])
        assert code == 0, f"{job.name} ended with {code}"


def whole(folder: Path, job: Job, limit: int) -> State:
    """Return what a run leaves that nobody disturbs."""
    code = finish(*start(folder, job, limit))
    assert code == 0, f"{job.name} ended with {code}"
    return state(folder, job)


def lasting(folder: Path, job: Job, limit: int) -> tuple[float, float]:
    """Return the seconds of a run that nobody disturbs: all of it, and from where it begins to write."""
    begin = time.monotonic()
    child, readable = start(folder, job, limit)
    os.read(readable, 1)  # it returns when the child closes its end
    writes = time.monotonic()
    assert finish(child, readable) == 0
    return time.monotonic() - begin, time.monotonic() - writes


def killed(folder: Path, job: Job, moments: int, chance: random.Random) -> Counter[str]:
    """Kill a command at so many moments; count what lay there afterwards: old, new or mix."""
    known = {limit: whole(folder, job, limit) for limit in (8, 9)}
    assert known[8] != known[9]
    times = [lasting(folder, job, limit) for limit in (8, 9, 8, 9)]
    seconds, writing_seconds = (max(column) for column in zip(*times, strict=True))
    found: Counter[str] = Counter()
    for number in range(moments):
        old = state(folder, job)
        limit = 8 if old == known[9] else 9
        child, readable = start(folder, job, limit)
        if number % 2:
            os.read(readable, 1)
            time.sleep(chance.random() * writing_seconds)
        else:
            time.sleep(chance.random() * seconds * 1.1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        code = finish(child, readable)
        now = state(folder, job)
        found["finished before" if code == 0 else "killed"] += 1
        found["new" if now == known[limit] else "old" if now == old else "mix"] += 1
    for limit in (9, 8):  # the next one that writes finds nothing in its way, and sweeps up
        whole(folder, job, limit)
    found["left over"] = len(
        [path for path in folder.iterdir() if path.name.startswith((".build.new", ".build.old", ".pipeline.lock."))]
    )
    return found


def doubled(folder: Path, first: Job, second: Job, pairs: int, chance: random.Random) -> Counter[str]:
    """Run two commands at once, so often; count how they ended and what lay there."""
    known: dict[str, list[State]] = {job.name: [] for job in (first, second)}
    for limit in (8, 9):  # a render tells what the lock says of it, so each is known under both locks
        if LOCK in {first, second}:
            known[LOCK.name].append(whole(folder, LOCK, limit))
        if RENDER in {first, second}:
            known[RENDER.name] += [whole(folder, RENDER, each) for each in (8, 9)]
    found: Counter[str] = Counter()
    for _ in range(pairs):
        one = start(folder, first, 8)
        time.sleep(chance.random() * 0.05)
        other = start(folder, second, 9)
        for job, run in ((first, one), (second, other)):
            found[f"{job.name} ended with {finish(*run)}"] += 1
        for job in {first.name: first, second.name: second}.values():
            whole_one = state(folder, job) in known[job.name]
            found[f"{job.name}: one of the two" if whole_one else f"{job.name}: mix"] += 1
    return found


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path | None]:
    """Mount a small file system below a folder; None where that is not allowed."""
    place = folder / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        yield None
        return
    if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603 - a fixed command
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)  # noqa: S603, S607 - the same


def starved(folder: Path, job: Job, sizes: int) -> Counter[str]:
    """Run a command with ever less room on the disk; count what lay there: old with exit code 2, new with 0, or mix."""
    found: Counter[str] = Counter()
    known = {limit: whole(folder, job, limit) for limit in (9, 8)}
    need = sum(map(len, known[9].values())) + 4096 * (len(known[9]) + 8)
    filler = folder.parent / "filler"
    for number in range(sizes):
        whole(folder, job, 8)
        free = shutil.disk_usage(folder).free
        filler.write_bytes(b"x" * max(0, free - need * number // sizes // 4096 * 4096))
        code = finish(*start(folder, job, 9))
        now = state(folder, job)
        filler.unlink()
        said = {(2, "old"), (0, "new")}
        what = "new" if now == known[9] else "old" if now == known[8] else "mix"
        found[what if (code, what) in said else f"{what} with exit code {code}"] += 1
    return found


def main() -> int:
    """Print what was found; 1 where there is a mix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--sizes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)  # noqa: S311 - moments, not secrets
    mixed = False

    def show(name: str, counted: Counter[str]) -> None:
        nonlocal mixed
        mixed |= any("mix" in what for what in counted)
        print(f"{name}: {', '.join(f'{what} {number}' for what, number in sorted(counted.items()))}", flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = workspace(Path(scratch))
        warm(folder)
        for job in (RENDER, LOCK):
            show(f"{job.name} killed", killed(folder, job, options.moments, chance))
        for first, second in ((RENDER, RENDER), (LOCK, LOCK), (RENDER, LOCK)):
            show(f"{first.name} beside {second.name}", doubled(folder, first, second, options.pairs, chance))
        with small_disk(Path(scratch), 512) as disk:
            if disk is None:
                print("full disk: left out, no right to mount a small file system")
            else:
                folder = workspace(disk)
                for job in (RENDER, LOCK):
                    show(f"{job.name} on a full disk", starved(folder, job, options.sizes))
    return int(mixed)


if __name__ == "__main__":
    sys.exit(main())
