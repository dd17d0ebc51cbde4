"""Judges what the compilers make of every configuration row: `python tests/kernels/compile_gate.py` prints the table.

Each row is compiled for what it stands for: the small devices' rows by Triton 2.3.1 for sm_80 and sm_75 and by 3.x for
sm_80 and sm_90, the H200's by 3.x for sm_90. Rows of the BI-V100 get twice the warps, since its warps are twice as
wide. What is held against them:

* they compile, and fit the shared memory of their device, and are not above the table's own model of it;
* they spill no registers, but for what a row accepts and says;
* full tiles of keys and values come in 16-byte loads (or the row's `key_bytes`). Masks on the block table or along the
  values' slots, or a stride that the compiler does not know, turn them into loads of one element.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from benchmarks.tune.compile_kernel import Job  # noqa: E402 - the same
from benchmarks.tune.space import COMPILED_FOR, FIRST_WITH_BFLOAT16  # noqa: E402 - the same
from kernels import muh_dispatch  # noqa: E402 - found where this file lies when it is run as a program
from kernels.muh_dispatch import Config, DecodeConfig  # noqa: E402 - the same

OLD, NEW = "2.3.1", "3.x"
NAMES = {2: OLD, 3: NEW}
TARGETS = {name: [(NAMES[major], number) for major, number in pairs] for name, pairs in COMPILED_FOR.items()}

WIDE = 16
PAGE_ENTRY = 4
COMBINED = "window, slopes, splits, group 7"
COMBINED_SPILLS = 16
"""Bytes that the variant with everything at once may spill: Triton 2.3.1 runs out of registers for head size 256."""

CHILDREN = 2
CHUNK = 12
PREFILL_LOOPS = ("context", "edge of the context", "new tokens", "diagonal")
"""The loops of the prefill kernel, in the order of its text."""

Pythons = dict[str, str]
"""An interpreter for each of the two Tritons."""


@dataclass(frozen=True)
class Case:
    """One row, compiled for one target by one Triton; `variant` says what differs from the plain case."""

    row: Config
    triton: str
    job: Job
    variant: str = ""


@dataclass(frozen=True)
class Made:
    """What came out; `death` is what a compiler said that did not survive."""

    shared: int = 0
    registers: int = 0
    spilled: int = 0
    loops: tuple[dict[int, int], ...] = ()
    death: str = ""


def pythons() -> Pythons:
    """Return the interpreters: this one for Triton 3.x, and the one with 2.3.1.

    Raises:
        FileNotFoundError: There is none with Triton 2.3.1.
    """
    old = Path(os.environ.get("TRITON_2_PYTHON") or ROOT / ".venv-triton2/bin/python")
    if not old.exists():
        raise FileNotFoundError(f"{old} is not there; `make .venv-triton2/.ready` makes it (Python 3.8 to 3.12)")
    return {OLD: str(old), NEW: sys.executable}


def cases() -> list[Case]:
    """Return every row for each of its targets, then the variants of the BI-V100's rows."""
    rows: list[Config] = [*muh_dispatch.DECODE.values(), *muh_dispatch.PREFILL.values()]
    found = []
    for row in rows:
        for triton, capability in TARGETS[row.device]:
            if row.dtype != "bfloat16" or capability >= FIRST_WITH_BFLOAT16:
                found.append(Case(row, triton, job_of(row, capability)))
    return found + [case for row in rows for case in variants(row)]


def job_of(row: Config, capability: int) -> Job:
    """Return what a launch with this row compiles; on a device of 32-wide warps, with as many threads."""
    job = Job(
        row.operation,
        capability,
        row.dtype,
        row.head_size,
        row.block_m,
        row.block_n,
        row.num_warps * muh_dispatch.DEVICES[row.device].warp // 32,
        row.num_stages,
    )
    if isinstance(row, DecodeConfig):
        group = row.block_m // 2
        return replace(job, key_dims=row.key_dims, whole_pages=row.whole_pages, group=group, splits=2)
    return replace(job, key_parts=row.key_parts)


def variants(row: Config) -> list[Case]:
    """Return cases for what launches vary: biases, windows, groups, splits, odd head sizes; and the second launches."""
    if row.device != "bi100" or row.dtype != "float16" or row.head_size < 128:
        return []
    plain = job_of(row, 80)
    wide = muh_dispatch.DEVICES[row.device].warp // 32
    second = replace(plain, num_warps=row.merge_warps * wide, num_stages=row.merge_stages, splits=4)
    changed = {"slopes": replace(plain, slopes=True)}
    if isinstance(row, DecodeConfig):
        changed["no split"] = replace(plain, splits=1)
        changed["second launch"] = replace(second, merge=(row.merge_splits, row.merge_dims))
    else:
        changed["second launch"] = replace(second, merge=(row.merge_rows,))
        changed["splits"] = replace(plain, splits=2)
        changed["window"] = replace(plain, window=True)
        changed[COMBINED] = replace(plain, window=True, slopes=True, splits=2, group=7)
    for size in (80, 120) if row.head_size == 128 else (192,):
        changed[f"head size {size}"] = replace(plain, head_size=size)
    return [Case(row, triton, job, name) for name, job in changed.items() for triton in (OLD, NEW)]


def faults(case: Case, made: Made) -> list[str]:
    """Return what is wrong with a case."""
    if made.death:
        return [f"the compiler died: {made.death}"]
    row, limit = case.row, muh_dispatch.DEVICES[case.row.device].shared_bytes
    found = []
    if made.shared > limit:
        found.append(f"{made.shared} B of shared memory, {row.device} has {limit}")
    if made.shared > row.shared_bytes:
        found.append(f"{made.shared} B of shared memory, the table's model says {row.shared_bytes}")
    accepted = max(row.spilled, COMBINED_SPILLS if case.variant == COMBINED else 0)
    if made.spilled > accepted:
        found.append(f"{made.spilled} B spilled, the row accepts {accepted}")
    return found if case.job.merge else found + load_faults(case, made)


def load_faults(case: Case, made: Made) -> list[str]:
    """Return which loops read keys or values in pieces that are too small."""
    job, row = case.job, case.row
    names = ("tokens",) if isinstance(row, DecodeConfig) else PREFILL_LOOPS
    if len(made.loops) != len(names):
        return [f"{len(made.loops)} loops with products were found, not {len(names)}"]
    element = muh_dispatch.ELEMENT_BYTES[job.dtype]
    key_bytes = row.key_bytes if isinstance(row, DecodeConfig) else least_part(job) * element
    tile = job.block_n * job.head_size * element / (32 * job.num_warps)  # bytes of keys, or of values, a thread
    found = []
    for name, loads in zip(names, made.loops, strict=True):
        edge = name == "edge of the context"  # its values are masked, one tile of a whole context
        wide = sum(width * count for width, count in loads.items() if width >= key_bytes)
        narrow = set(loads) - {WIDE, key_bytes, PAGE_ENTRY} - ({element} if edge else set())
        if wide < (tile if edge else 2 * tile) or narrow:
            found.append(f"loop over {name}: loads {shown(loads)}, keys and values are {2 * tile:g} B a thread")
    return found


def least_part(job: Job) -> int:
    """Return the elements that a thread has of keys' smallest part: of 80 dimensions, 64 and 16 are read apart."""
    half = muh_dispatch.padded(job.head_size) // 2
    rest = muh_dispatch.padded(job.head_size - half)
    most = WIDE // muh_dispatch.ELEMENT_BYTES[job.dtype]
    return most if rest == half else min(most, job.block_n * rest // (32 * job.num_warps))


def shown(loads: dict[int, int]) -> str:
    """Return loads as `8x16 9x4`, eight of 16 bytes and nine of 4."""
    return " ".join(f"{count}x{width}" for width, count in sorted(loads.items(), reverse=True))


def compiled(jobs: list[tuple[str, Job]], interpreters: Pythons, root: Path = ROOT) -> dict[tuple[str, Job], Made]:
    """Compile what differs, each thing once, in two child processes at a time."""
    chunks = []
    for triton in interpreters:
        wanted = list(dict.fromkeys(job for name, job in jobs if name == triton))
        chunks += [(triton, wanted[start : start + CHUNK]) for start in range(0, len(wanted), CHUNK)]
    found: dict[tuple[str, Job], Made] = {}
    with ThreadPoolExecutor(CHILDREN) as pool:
        made = pool.map(lambda chunk: children(interpreters[chunk[0]], chunk[1], root), chunks)
        for (triton, chunk), ones in zip(chunks, made, strict=True):
            found |= {(triton, job): one for job, one in zip(chunk, ones, strict=True)}
    return found


def children(python: str, jobs: list[Job], root: Path) -> list[Made]:
    """Compile jobs in one child, and what is left in another where a job has ended it."""
    found: list[Made] = []
    while len(found) < len(jobs):
        left = jobs[len(found) :]
        done = subprocess.run(
            [python, str(ROOT / "benchmarks/tune/compile_kernel.py"), str(root)],
            input=json.dumps([asdict(job) for job in left]),
            env={**os.environ, "TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found += [made_of(line) for line in lines]
        if len(lines) < len(left):
            found.append(Made(death=f"exit status {done.returncode}: {done.stderr.strip()[-600:]}"))
    return found


def made_of(line: dict[str, object]) -> Made:
    """Return what a child printed."""
    read = {**line, "loops": tuple({int(w): n for w, n in loop.items()} for loop in line["loops"])}  # type: ignore[attr-defined] # it is JSON
    return Made(**{name: read[name] for name in ("shared", "registers", "spilled", "loops")})  # type: ignore[arg-type] # the same


def table(judged: list[tuple[Case, Made, list[str]]]) -> str:
    """Return a line for each case, its faults below it."""
    lines = [f"{'row':78} {'Triton':6} {'arch':5} {'shared':>7} {'model':>7} {'regs':>4} {'spill':>5}  loads"]
    for case, made, wrong in judged:
        name = ", ".join(word for word in (case.row.label, case.variant) if word)
        loads = " | ".join(shown(loop) for loop in made.loops)
        lines.append(
            f"{name:78} {case.triton:6} sm_{case.job.capability} {made.shared:7} {case.row.shared_bytes:7} "
            f"{made.registers:4} {made.spilled:5}  {loads}"
        )
        lines += [f"    WRONG: {fault}" for fault in wrong]
    return "\n".join(lines)


def judged(wanted: list[Case], interpreters: Pythons, root: Path = ROOT) -> list[tuple[Case, Made, list[str]]]:
    """Compile cases and return each with what came out and what is wrong with it."""
    made = compiled([(case.triton, case.job) for case in wanted], interpreters, root)
    pairs = [(case, made[case.triton, case.job]) for case in wanted]
    return [(case, one, faults(case, one)) for case, one in pairs]


def main() -> int:
    """Print the table; say by the exit status whether a row is wrong."""
    found = judged(cases(), pythons())
    print(table(found))  # noqa: T201 - a program
    wrong = sum(bool(faults) for _, _, faults in found)
    print(f"{len(found)} cases, {wrong} wrong")  # noqa: T201 - the same
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
