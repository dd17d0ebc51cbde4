"""Tables for people, made from records and from nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OUTCOME_STYLE = {"applied": "green", "already": "cyan", "skipped": "yellow", "fixed": "cyan", "failed": "bold red"}


def stages_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table of stages: outcome, sites, files, checks, claim."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for name in ("sites", "files", "checks"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("claim")
    for record in records:
        if record.get("event") != "stage":
            continue
        outcome = str(record["outcome"])
        files = [*record["files"], *record["artefacts"]]
        table.add_row(
            record["stage"],
            Text(outcome, style=_OUTCOME_STYLE.get(outcome.split(" ", maxsplit=1)[0], "")),
            str(len(record["sites"])),
            str(len(files)),
            checks_cell(record["checks"]),
            record.get("reason") or claim_cell(record),
        )
    return table


def checks_cell(checks: Iterable[Mapping[str, Any]]) -> str:
    """Return `7/7`, or `6/7, 1 warns`."""
    # A check is judged again on the final tree; that shows only where it came out otherwise.
    rows = [row for row in checks if row["role"] != "final" or row["status"] == "fails"]
    holds = sum(1 for row in rows if row["status"] != "fails")
    warns = sum(1 for row in rows if row["status"] == "warns")
    shown = f"{holds}/{len(rows)}" if rows else "-"
    return f"{shown}, {warns} warns" if warns else shown


def claim_cell(record: Mapping[str, Any]) -> str:
    """Return a claim with what stands behind it."""
    claim = record.get("claim")
    if not claim:
        return "-"
    evidence = record.get("evidence")
    return f"{claim} [evidence: {evidence}]" if evidence else f"{claim} (claimed, not measured)"


def states_table(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Return the table of `verify`: stage, state, detail."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in ("stage", "state", "detail"):
        table.add_column(name, no_wrap=name != "detail")
    for stage, state, detail in rows:
        table.add_row(stage, state, detail)
    return table


def cells_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table of a matrix: for each cell how it came out, what is in it, and the image's tag."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("cell", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for name in ("in effect", "skipped", "files"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("image")
    for record in records:
        if record.get("event") != "cell":
            continue
        stages = record.get("stages", {})
        failed = record["outcome"] == "failed"
        what = ", ".join(dict.fromkeys(found["code"] for found in record.get("errors", ()))) if failed else ""
        table.add_row(
            record["folder"],
            Text(f"failed ({what})" if failed else record["outcome"], style="bold red" if failed else "green"),
            str(stages.get("in_effect", "-")),
            str(stages.get("skipped", "-")),
            str(record.get("changed", "-")),
            record.get("tag") or record.get("image", "-"),
        )
    return table


def crossed_table(records: Iterable[Mapping[str, Any]], cells: Iterable[str]) -> Table:
    """Return the table of stages by cells for stage records that name their cell; `-` where a cell was not run."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    names = list(cells)
    for name in names:
        table.add_column(name.replace("/", "\n"), no_wrap=True)
    rows: dict[str, dict[str, str]] = {}
    for record in records:
        if record.get("event") == "stage":
            rows.setdefault(record["stage"], {})[record["cell"]] = str(record["outcome"])
    for stage, outcomes in rows.items():
        shown = [outcomes.get(name, "-") for name in names]
        table.add_row(stage, *(Text(text, style=_OUTCOME_STYLE.get(text.partition(" ")[0], "")) for text in shown))
    return table


def reach_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table of `plan --touched-by`: stage, why, and what of it is reached."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    for name in ("why", "edits", "files and artefacts"):
        table.add_column(name)
    for record in records:
        if record.get("event") == "touched":
            edits = ", ".join(map(str, record["edits"])) or "-"
            reached = "\n".join([*record["files"], *record["artefacts"]]) or "-"
            table.add_row(record["stage"], "\n".join(record["reasons"]), edits, reached)
    return table
