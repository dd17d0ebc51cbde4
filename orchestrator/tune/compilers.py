"""What the compilers make of a row: each in a process of its own, since one that does not suit a target can abort."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity
from orchestrator.tune.child import Death, ask_once, end_all
from orchestrator.tune.space import COMPILE, TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from orchestrator.tune.space import Row, Space

OLD_TRITON = ".venv-triton2/bin/python"
"""Where `make` puts the interpreter with Triton 2.3.1."""
VERSION = "import triton; print('{\"triton\": \"' + triton.__version__ + '\"}')"
VERSION_SECONDS = 60.0
WARP = 32
"""Threads of a warp where the compilers are; a device of wider ones gets as many threads in more warps."""


@dataclass(frozen=True)
class Made:
    """What came out of one row: the largest figure of all compilers, or why there is none."""

    shared: int = 0
    registers: int = 0
    spilled: int = 0
    death: str = ""


@dataclass
class Compilers:
    """The interpreters with a Triton, by its major version, and what was compiled so far, by the row's tiles."""

    root: Path
    space: Space
    group: int
    head_size: int
    limit: float
    environment: Mapping[str, str]
    pythons: Mapping[int, tuple[str, str]]
    """Major version → interpreter and version."""
    made: dict[int, Made] = field(default_factory=dict)

    @property
    def used(self) -> list[tuple[int, int]]:
        """The compilers that are here, of those that the rows have to pass."""
        return [pair for pair in self.space.compilers if pair[0] in self.pythons]

    def compiled(self, numbers: Sequence[int], jobs: int) -> None:
        """Compile entries of the space that were not yet, `jobs` at a time."""
        wanted = [number for number in dict.fromkeys(numbers) if number not in self.made]
        with ThreadPoolExecutor(jobs) as pool:
            try:
                for number, made in zip(wanted, pool.map(self._one, wanted), strict=True):
                    self.made[number] = made
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                end_all()  # or the interrupt would wait for them
                raise

    def _one(self, number: int) -> Made:
        row = self.space.rows[number]
        if not hasattr(row, "fields"):
            return Made(death="the table refuses it")
        return self.of(row)  # type: ignore[arg-type] # it has fields: it is a row

    def of(self, row: Row) -> Made:
        """Return what the compilers make of a row; the first that dies decides."""
        found = Made()
        for major, capability in self.used:
            python, version = self.pythons[major]
            command = [python, str(self.root / COMPILE), str(self.root)]
            said = ask_once(command, [self.job(row, capability)], self.limit, self.environment)
            if isinstance(said, Death):
                return Made(death=f"Triton {version}, sm_{capability}: {said.reason}")
            numbers = {
                name: max(getattr(found, name), int(said[0][name])) for name in ("shared", "registers", "spilled")
            }
            found = Made(**numbers)
        return found

    def job(self, row: Row, capability: int) -> dict[str, object]:
        """Return what the compiling program is asked: a launch as the table's rows are judged by."""
        names = ("block_m", "block_n", "num_stages", "key_dims", "whole_pages", "key_parts", "operation", "dtype")
        taken = {name: row.fields[name] for name in names if name in row.fields}
        warps = row.fields["num_warps"] * self.space.warp // WARP
        return {**taken, "capability": capability, "num_warps": warps, "head_size": self.head_size,
                "group": self.group, "splits": self.space.compiled_splits}  # fmt: skip


def interpreters(candidates: Sequence[str], environment: Mapping[str, str]) -> dict[int, tuple[str, str]]:
    """Return the first interpreter with each major version of Triton, and the version."""
    found: dict[int, tuple[str, str]] = {}
    for python in candidates:
        said = ask_once([python, "-c", VERSION], None, VERSION_SECONDS, environment)
        if not isinstance(said, Death) and said:
            version = str(said[0]["triton"])
            found.setdefault(int(version.partition(".")[0]), (python, version))
    return found


def absent(space: Space, pythons: Mapping[int, tuple[str, str]]) -> list[Diagnostic]:
    """Return a warning for compilers that are not here; raise `Rejected` (E904) where none is."""
    lacking = sorted({major for major, _ in space.compilers} - set(pythons))
    help_ = "Name an interpreter that imports it with --python; `orchestrator[kernels]` brings Triton 3."
    if not any(major in pythons for major, _ in space.compilers):
        wanted = " and ".join(f"Triton {major}" for major in lacking)
        raise Rejected(Diagnostic("E904", f"no interpreter here has {wanted}, for which rows are compiled", help=help_))
    return [
        Diagnostic("W901", f"no interpreter here has Triton {major}: no row is compiled by it", help=help_,
                   severity=Severity.WARNING)
        for major in lacking
    ]  # fmt: skip


def disagreement(row: Row, made: Made) -> Diagnostic | None:
    """Return an error where the compiler needs more shared memory than the table's model says, else None."""
    if made.death or made.shared <= row.shared:
        return None
    tile = ", ".join(f"{name} {value}" for name, value in row.choice.items())
    message = f"the model says {row.shared} B of shared memory, the compiler needs {made.shared} B: {tile}"
    return Diagnostic("E907", message, Place(TABLE), help="Correct the model of shared memory in this file.")
