"""The space as the workspace's own program tells it: the row of the table, and everything that it could be instead."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean
from orchestrator.tune.child import Death, ask_once

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SPACE, COMPILE, MEASURE = (f"benchmarks/tune/{name}.py" for name in ("space", "compile_kernel", "measure"))
TABLE = "kernels/muh_dispatch.py"
PROGRAMS = (SPACE, COMPILE, MEASURE, TABLE)
LIMIT_SECONDS = 120.0

Value = int | float | bool
Choice = dict[str, Value]


@dataclass(frozen=True)
class Row:
    """A row that the table could hold: its fields, and what the table's model says of one block.

    Attributes:
        choice: The fields that the search chose.
        fields: All fields.
        shared: Bytes of shared memory.
        threads: Threads.
        registers: Registers of four bytes that it cannot do without.
        in_flight: Bytes of keys and values that are under way.
    """

    choice: Choice
    fields: Mapping[str, Any]
    shared: int
    threads: int
    registers: int
    in_flight: int


@dataclass(frozen=True)
class Refused:
    """A combination that the table cannot hold."""

    choice: Choice
    reason: str


@dataclass(frozen=True)
class Space:
    """Everything around one row of the table.

    `rows` has an entry for each combination of tiles: a row, why there is none, or the number of the entry that is the
    same row. `compilers` are pairs of Triton's major version and a compute capability.
    """

    operation: str
    device: str
    kind: str
    base: Row
    defaults: Mapping[str, Any]
    limit: int
    warp: int
    compilers: tuple[tuple[int, int], ...]
    shapes: tuple[tuple[int, ...], ...]
    tiles: Mapping[str, tuple[Value, ...]]
    rules: Mapping[str, tuple[Value, ...]]
    resident_is_held: bool
    compiled_splits: int
    rows: tuple[Row | Refused | int, ...]

    def at(self, choice: Choice) -> int:
        """Return the number of the entry with these tiles; the first of those that are the same row."""
        index = 0
        for name, values in self.tiles.items():
            index = index * len(values) + values.index(choice[name])
        entry = self.rows[index]
        return entry if isinstance(entry, int) else index

    def key(self, choice: Choice) -> str:
        """Return what two choices have in common where they mean the same row."""
        entry = self.rows[self.at(choice)]
        tiles = choice if isinstance(entry, int) else entry.choice
        both = {**{name: tiles[name] for name in self.tiles}, **{n: choice[n] for n in self.rules if n in choice}}
        return json.dumps(both, sort_keys=True)


def ask(
    root: Path, question: Mapping[str, Any], environment: Mapping[str, str], needed: tuple[str, ...] = PROGRAMS
) -> dict[str, Any]:
    """Return what the workspace's program says about its space.

    Raises:
        Rejected: It is not there, or the table cannot answer (E903).
    """
    for path in needed:
        if not (root / path).is_file():
            message = f"this workspace has no {path}: it brings no kernels to tune"
            raise Rejected(Diagnostic("E903", message, Place(path), help="Name the workspace with --workspace."))
    found = ask_once([sys.executable, str(root / SPACE), str(root)], question, LIMIT_SECONDS, environment)
    if isinstance(found, Death):
        raise Rejected(
            Diagnostic("E903", f"the table of configurations cannot be read: {found.reason}", Place(TABLE),
                       help="Mend the row that it names; `python -c 'import kernels.muh_dispatch'` shows where it is.")
        )  # fmt: skip
    said = found[0] if found else {"error": "it says nothing"}
    if "error" in said:
        raise Rejected(Diagnostic("E903", f"the table has no answer: {said['error']}", Place(TABLE),
                                  help="Ask for what the table has a row for, or add a row."))  # fmt: skip
    return said


def names_of(root: Path, operation: str, dtype: str, environment: Mapping[str, str]) -> str:
    """Return the table's name of an operation; raise `Rejected` (E902) where it knows no such operation or type."""
    known = ask(root, {}, environment)
    by_name = {name: own for own, others in known["operations"].items() for name in (own, *others)}
    if operation not in by_name:
        message = f"there is no operation '{operation}'"
        raise Rejected(Diagnostic("E902", message, help=did_you_mean(operation, by_name)))
    if dtype not in known["types"]:
        raise Rejected(Diagnostic("E902", f"there is no type '{dtype}'", help=did_you_mean(dtype, known["types"])))
    return str(by_name[operation])


def space_of(root: Path, question: Mapping[str, Any], environment: Mapping[str, str]) -> Space:
    """Return the space around the table's row for a question; raise `Rejected` (E903) where there is none."""
    said = ask(root, question, environment)
    return Space(
        operation=question["operation"],
        device=said["device"],
        kind=said["class"],
        base=_row(said["base"]),
        defaults=said["defaults"],
        limit=said["limit"],
        warp=said["warp"],
        compilers=tuple((major, capability) for major, capability in said["compilers"]),
        shapes=tuple(tuple(shape) for shape in said["shapes"]),
        tiles={name: tuple(values) for name, values in said["tiles"].items()},
        rules={name: tuple(values) for name, values in said["rules"].items()},
        resident_is_held=said["resident_is_held"],
        compiled_splits=said["compiled_splits"],
        rows=tuple(_entry(entry) for entry in said["candidates"]),
    )


def _entry(said: Mapping[str, Any]) -> Row | Refused | int:
    if "same" in said:
        return int(said["same"])
    return Refused(said["choice"], said["refused"]) if "refused" in said else _row(said)


def _row(said: Mapping[str, Any]) -> Row:
    return Row(said["choice"], said["fields"], said["shared"], said["threads"], said["registers"], said["in_flight"])
