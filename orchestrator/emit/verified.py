"""What `verify` found, for people: made from its records and from nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from orchestrator.emit.tables import states_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_FOREIGN = 40
_SAID = {
    "agrees": "{log} agrees with the tree",
    "damaged": "{log} is damaged, so it is not compared",
    "another pipeline": "{log} is of another pipeline, so it is not compared",
    "the tree is its base": "{log} is of a run on this very tree, of which nothing was put in",
}


def shown(records: Sequence[Mapping[str, Any]]) -> Iterator[Table | Text]:
    """Yield the table of stages, the diffs of what changed since, the foreign changes, and what the log says."""
    by_event: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_event.setdefault(record["event"], []).append(record)
    stages = by_event.get("verify", [])
    yield states_table((r["stage"], r["state"], r["detail"]) for r in stages)
    diffs = [part["diff"] for record in stages for part in record["parts"] if part["diff"]]
    for diff in dict.fromkeys(diffs):
        yield Text(f"\n{diff.rstrip()}")
    yield from _foreign(by_event.get("foreign", []), by_event.get("base", []))
    for record in by_event.get("log", []):
        if record["said"] in _SAID:
            yield Text("\n" + _SAID[record["said"]].format(log=record["log"]))


def _foreign(changes: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]) -> Iterator[Table | Text]:
    if base and not base[0]["known"]:
        yield Text("\nForeign changes are not known, for there is no base to compare with: name one with --base.")
    if not changes:
        return
    yield Text(f"\nforeign changes, against {base[0]['name']}" if base else "\nforeign changes")
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in ("change", "file", ""):
        table.add_column(name, no_wrap=name == "change")
    for change in changes[:MAX_FOREIGN]:
        what = ", ".join(change["definitions"]) or ("comments or layout only" if change["layout"] else "")
        table.add_row(change["change"], change["path"], what)
    if len(changes) > MAX_FOREIGN:
        table.add_row("…", f"{len(changes) - MAX_FOREIGN} more: --json has all", "")
    yield table
