"""Fill the tables of docs/kernels.md from the measurements in this folder, and draw the plot.

    python docs/kernels/generate.py

No measured figure in that document is typed: whoever measures again puts the new JSON files here and runs this.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.paged import goals, plot, report  # noqa: E402 - the path comes first
from docs.kernels import derivation  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DOCUMENT = HERE.parent / "kernels.md"
PLOT = HERE / "h200.svg"
MARKED = re.compile(r"(<!-- table: ([a-z0-9 -]+) -->\n).*?(\n?<!-- end -->)", re.DOTALL)
NO_FIGURE = "Not measured."


def read(name: str) -> dict[str, Any]:
    """Return a measurement, or an empty one where there is none yet."""
    path = HERE / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def ablation(record: Mapping[str, Any], module: str) -> str:
    """Return each variant's time over that of its base, a column for each cell; above 1 the variant is slower."""
    rows = [row for row in record["rows"] if row["module"] == module]
    times = {(row["name"], row.get("cell")): row["us"] for row in rows if "us" in row}
    cells = list(dict.fromkeys(row["cell"] for row in rows if "cell" in row))
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        line = lines.setdefault((row["group"], row["name"], row["base"]), {})
        line[row.get("cell", "")] = _factor(row, times.get((row["base"], row.get("cell"))))
        if "registers" in row and "us" in row:
            spills = f" and {row['spills']} spilled" if row["spills"] else ""
            said = f"{row['cell'].split()[2]}: {row['shared']:,} B, {row['registers']}{spills}"
            line["used"] = "; ".join(filter(None, (line.get("used"), said)))
    head = ("question", "variant", "against", *(_short(cell) for cell in cells), "shared memory, registers a thread")
    body = [
        (*name, *(line.get(cell, line.get("", report.NONE)) for cell in cells), line.get("used", report.NONE))
        for name, line in lines.items()
    ]
    return report.table(head, body)


def _factor(row: Mapping[str, Any], base: float | None) -> str:
    if "refused" in row:
        return "refused"
    if "us" not in row:
        return "does not fit" if "shared memory" in row.get("failed", "") else "failed"
    if row["name"] == row["base"] or base is None:
        return f"{report.short(row['us'])} µs"
    return f"{row['us'] / base:.2f}"


def _short(cell: str) -> str:
    return cell.removeprefix("decode ").removeprefix("prefill ").replace(" new 2K context", ",")


def said_of(record: Mapping[str, Any]) -> str:
    """Return what a measurement was made with."""
    rows = [(name, value) for name, value in record["meta"].items() if name != "seconds"]
    return report.table(("measured with", ""), rows)


def tables() -> dict[str, str]:
    """Return every table of the document by its name."""
    h200, cpu, ablated = read("h200"), read("cpu"), read("ablation")
    judge = goals.Judge(h200, read("baseline"), cpu)
    measured: dict[str, tuple[Mapping[str, Any], Callable[[], str]]] = {
        "measured with": (h200, lambda: said_of(h200)),
        "ceilings": (h200, lambda: report.ceilings(h200)),
        "plot": (h200, lambda: f"![Share of the ceiling that each contender reaches](kernels/{PLOT.name})"),
        "decode": (h200, lambda: report.decode(h200)),
        "prefill": (h200, lambda: report.prefill(h200)),
        "spread": (h200, lambda: report.percentiles(h200)),
        "steps": (h200.get("steps", {}), lambda: report.steps(h200)),
        "bounds": (h200.get("bound", {}), lambda: report.bounds(h200)),
        "missing": (h200, lambda: report.missing(h200)),
        "goals": (h200, lambda: goals.summary(judge.goals())),
        "shortfalls": (h200, lambda: goals.details(judge.goals())),
        "claims": (h200, lambda: goals.claims(h200)),
        "cpu": (cpu, lambda: report.decode(cpu)),
        "ablation decode": (ablated, lambda: ablation(ablated, "paged_attention_v2_triton")),
        "ablation prefill": (ablated, lambda: ablation(ablated, "prefix_prefill")),
    }
    derived = {
        "little": derivation.littles_law(),
        "decode rows": derivation.decode_rows(),
        "prefill rows": derivation.prefill_rows(),
        "rows": derivation.every_row(),
        "floor": derivation.floor(),
    }
    return derived | {name: make() if record else NO_FIGURE for name, (record, make) in measured.items()}


def filled(text: str) -> str:
    """Return the document with its tables made anew.

    Raises:
        KeyError: The document asks for a table that nobody makes.
    """
    made = tables()
    return MARKED.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n\n<!-- end -->", text)


def drawn() -> str:
    """Return the plot."""
    return plot.drawn(read("h200"))


def main() -> None:
    """Write the document and the plot."""
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    if read("h200"):
        PLOT.write_text(drawn(), encoding="utf-8")
    print(DOCUMENT.name, PLOT.name)  # noqa: T201 - a program that prints


if __name__ == "__main__":
    main()
