"""A rank's memory as the report shows it, by use: made from the run's memory records, never computed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.emit.memory_table import USES, gigabytes, memory_notes, quantity, tokens_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True)
class Use:
    """One use of the memory: bytes, None where a figure behind it is unknown, and how it reads in GB."""

    name: str
    count: int | None
    shown: str


@dataclass(frozen=True)
class Setting:
    """One configuration, the chosen one or a neighbour: its memory by use, its KV cache by each accounting.

    `limit` are the bytes that the engine is given, None where they are unknown; `refused` says why the configuration
    cannot start.
    """

    name: str
    uses: tuple[Use, ...]
    caches: tuple[tuple[str, str], ...]
    """(tokens, sequences) in words, by the table's accountings"""
    chosen: bool = False
    limit: int | None = None
    refused: tuple[str, ...] = ()

    @property
    def known(self) -> int:
        """Bytes of the uses that are known."""
        return sum(max(0, use.count or 0) for use in self.uses)


@dataclass(frozen=True)
class MemoryTable:
    """The settings of one run configuration side by side; none of them where what decides is unknown."""

    artefact: str
    title: str
    memory: str
    accountings: tuple[tuple[str, bool], ...]
    """(name, whether it is the one in effect)"""
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]
    fit: tuple[tuple[str, str, str], ...] = ()
    """(tokens of a batch, measured peak, what the fit differs) of each run that was measured"""
    line: str = ""
    """The fit, as a formula."""

    @property
    def scale(self) -> int:
        """The bytes that a whole bar stands for."""
        return max([1, *(max(setting.known, setting.limit or 0) for setting in self.settings)])


def memory_of(records: Iterable[Mapping[str, Any]]) -> Iterator[MemoryTable]:
    """Yield a table for each memory record."""
    for record in records:
        if record.get("event") != "memory":
            continue
        rows = record.get("rows", ())
        title = f"context {record['context_tokens']:,}, {_counted(record['ranks'], 'rank')}" if rows else ""
        accountings = tuple((c["accounting"], c["accounting"] == record["accounting"]) for c in _first(rows, "caches"))
        yield MemoryTable(
            record["artefact"],
            title,
            gigabytes(rows[0]["memory"]) if rows else "unknown",
            accountings,
            tuple(_setting(row) for row in rows),
            tuple(memory_notes([record])),
            *_fit(record.get("fit", {})),
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _first(rows: Any, key: str) -> Any:  # noqa: ANN401 - plain data
    return rows[0][key] if rows else ()


def _setting(row: Mapping[str, Any]) -> Setting:
    return Setting(
        f"share {row['utilisation']}, batch {row['batched_tokens']:,}",
        tuple(Use(name, row[key].get("value"), gigabytes(row[key])) for key, name in USES),
        tuple((tokens_cell(cache), quantity(cache["sequences"])) for cache in row["caches"]),
        row["chosen"],
        row["given"].get("value"),
        tuple(row["refused"]),
    )


def _fit(fit: Mapping[str, Any]) -> tuple[tuple[tuple[str, str, str], ...], str]:
    """Return the measured runs with what the fit differs, and the fit itself; nothing where there is none."""
    if "runs" not in fit:
        return (), ""
    rows = tuple(
        (
            f"{run['batched_tokens']:,}",
            gigabytes({"value": run["peak_bytes"]}),
            f"{run['residual_bytes'] / _MEGABYTE:+,.0f}".replace("-", "\N{MINUS SIGN}"),
        )
        for run in fit["runs"]
    )
    return rows, f"{gigabytes({'value': fit['constant_bytes']})} GB + {fit['bytes_per_token']:,} B a token"


_MEGABYTE = 10**6
