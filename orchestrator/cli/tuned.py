"""What `tune` found: shown, drawn, and as a change of the table."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.table import Table

    from orchestrator.tune.search import Search

LEAST_GAIN = 0.03
"""Repeats of one measurement differ by 2 %: what gains less is not proposed."""


@dataclass(frozen=True)
class Outputs:
    """Where results go, and the day."""

    root: Path
    plot: Path | None
    out: Path | None
    write: bool
    as_json: bool
    date: str
    interrupted: bool


def look_at(plot: Path | None, out: Path | None) -> None:
    """Raise `Rejected` (E701) for files that cannot be written, before a search of hours and not after it."""
    from orchestrator.tune.plot import ENDINGS

    if plot is not None and plot.suffix.lower() not in ENDINGS:
        message = f"the plot {plot} cannot be written: its name does not say how"
        raise Rejected(Diagnostic("E701", message, help=f"Name a file that ends in {' or '.join(ENDINGS)}."))
    for path in (path for path in (plot, out) if path is not None):
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            message = f"{path} cannot be written: {error.strerror or error}"
            raise Rejected(Diagnostic("E701", message, help="Check space and permissions.")) from None
        if path.is_dir():
            raise Rejected(Diagnostic("E701", f"{path} cannot be written: it is a folder", help="Name a file."))


def shown(search: Search, why: str, outputs: Outputs) -> ExitCode:
    """Print what was found, draw it, and write the diff or the table where that is asked for."""
    from orchestrator.cli.output import console, print_diagnostics, print_records, print_table
    from orchestrator.tune.report import records, sentence

    found = list(records(search))
    change, words = (None, "interrupted; the same command goes on") if outputs.interrupted else _change(search, outputs)
    last = {"event": "result", "not_timed": why, "statement": sentence(search), "outcome": words, "diff": change or ""}
    if outputs.as_json:
        print_records([*found, last])
    else:
        print_table(_rows_table(found))
        _explain(found[0], sentence(search), why)
        if change and outputs.out is None:
            console().print(change, end="")
        console(stderr=True).print(words)
    print_diagnostics(search.disagreements.values(), as_json=outputs.as_json)
    if outputs.plot is not None:
        _drawn(search, outputs.plot)
    return ExitCode.CHECK_FAILED if search.disagreements else ExitCode.OK


def _change(search: Search, outputs: Outputs) -> tuple[str | None, str]:
    """Return the diff of the table and what became of it; write what the command line says."""
    from orchestrator.emit.patches import patch_of
    from orchestrator.emit.write import write_file
    from orchestrator.tune import report, table
    from orchestrator.tune.space import TABLE

    best = search.confirmed()
    if best is None:
        return None, "no change of the table: nothing else was timed"
    choice, fields, timed = best
    if timed.ratio > 1 - LEAST_GAIN:
        return None, f"no change of the table: the best other row takes {timed.ratio:.3f} of its row's time"
    bench = search.bench
    shapes = [_shape(shape) for shape in bench.workers[0].first["shapes"]] if bench else []
    row = {
        **fields,
        "reason": report.reason(search, choice),
        "evidence": report.evidence(search, timed, shapes, outputs.date),
    }
    path = outputs.root / TABLE
    before = path.read_bytes()
    after = table.with_row(before, search.space.kind, row, search.space.defaults)
    _prove(search, after, row)
    change = patch_of({TABLE: before}, {TABLE: after}).decode()
    if outputs.out is not None:
        write_file(outputs.out, change.encode())
    if outputs.write:
        if path.read_bytes() != before:
            raise Rejected(Diagnostic("E908", f"{TABLE} has changed meanwhile", help="Run the command again."))
        write_file(path, after)
        return change, f"{TABLE} is changed; `orchestrator lock` blesses it"
    return change, f"the row takes {timed.ratio:.3f} of the time; nothing is written without --write"


def _prove(search: Search, after: bytes, row: Mapping[str, Any]) -> None:
    """Raise `Rejected` (E908) unless the edited table loads and gives exactly this row."""
    from orchestrator.tune.space import SPACE, TABLE, ask

    root = search.compilers.root
    with tempfile.TemporaryDirectory() as folder:
        for name in (SPACE, TABLE, "kernels/__init__.py"):
            if (root / name).is_file():
                copy = Path(folder, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes((root / name).read_bytes())
        Path(folder, TABLE).write_bytes(after)
        question = search.question
        said = ask(Path(folder), question, search.compilers.environment, (SPACE, TABLE))
    if said["base"]["fields"] != row:
        message = f"the edited {TABLE} does not give the row that was put into it"
        raise Rejected(Diagnostic("E908", message, help="Look at what else decides about this row there."))


def _shape(shape: Iterable[int]) -> str:
    batch, tokens, new = shape
    return f"{batch} x {tokens}" if new == 1 else f"{batch} x {new} after {tokens}"


def _drawn(search: Search, path: Path) -> None:
    from orchestrator.tune.plot import draw

    try:
        draw(search.study, path, timed=search.bench is not None)
    except (OSError, ValueError) as error:
        message = f"the plot {path} cannot be written: {error}"
        raise Rejected(Diagnostic("E701", message, help="Name a file that ends in .svg or .png.")) from None


def _rows_table(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table of the best rows."""
    from rich.table import Table

    rows = [record for record in records if record["event"] == "row"]
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    names = list(rows[0]["choice"]) if rows else []
    basis = rows[0]["basis"] if rows else "measured"
    for name in ("trial", "time" if basis == "measured" else "rank", "shared", "regs", "spilled", *names):
        table.add_column(name, justify="right")
    for place, row in enumerate(rows, 1):
        value = f"{row['value']:.3f}" if basis == "measured" else str(place)
        cells = [value, *(str(row.get(name, "")) for name in ("shared", "registers", "spilled"))]
        mark = " (table)" if row["table"] else ""
        table.add_row(f"{row['trial']}{mark}", *cells, *(str(row["choice"][name]) for name in names))
    return table


def _explain(space: Mapping[str, Any], statement: str, why: str) -> None:
    """Print on stderr what was left out and why, and what the figures are worth."""
    from orchestrator.cli.output import console

    out = console(stderr=True)
    rejected = ", ".join(f"{count} {bound}" for bound, count in space["rejected"].items()) or "none"
    out.print(f"{space['operation']} on {space['device']}, study {space['study']}")
    out.print(f"{space['tiles']} tiles; rejected by the model: {rejected}; {space['passing']} left")
    if space["not_judged_by"]:
        out.print(f"the target does not know {', '.join(space['not_judged_by'])}: these rejected nothing")
    tried = ", ".join(f"{count} {stage}" for stage, count in sorted(space["trials"].items())) or "nothing"
    out.print(f"compiled by {', '.join(space['compilers'])}; tried: {tried}")
    out.print(statement if not why else f"{statement} ({why})")
