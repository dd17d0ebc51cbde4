"""A plot of a record as SVG; the same record gives the same bytes with the same matplotlib.

Decode cells show which share of the read ceiling each contender reaches, prefill cells its share of the matrix product.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from benchmarks.paged import ours, report

if TYPE_CHECKING:
    from collections.abc import Mapping

INCHES_A_CELL = 0.22


def shares(record: Mapping[str, Any]) -> list[tuple[str, dict[str, float]]]:
    """Return for each cell the share of its ceiling that each family reaches."""
    peak = record.get("ceilings", {}).get("fp16 TFLOP/s")
    found = []
    for row in record["cells"]:
        reached = {}
        for family in report.families([row]):
            us = report.best(row, family)
            rate = report.rate(row, us) if row["kind"] == "prefill" else None
            part = report.share(record, row, us) if rate is None else rate / peak if peak else None
            if part is not None:
                reached[family] = part
        if reached:
            found.append((row["cell"], reached))
    return found


def drawn(record: Mapping[str, Any]) -> str:
    """Return the plot: a line for each cell, a dot for each family."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 - the same

    rows = shares(record)
    families = sorted({name for _, reached in rows for name in reached}, key=lambda n: (not n.startswith(ours.MINE), n))
    with mpl.rc_context({"svg.hashsalt": "attention", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(10, 1.6 + INCHES_A_CELL * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for number, family in enumerate(families):
            lines = [line for line, (_, reached) in enumerate(rows) if family in reached]
            percents = [100 * rows[line][1][family] for line in lines]
            front = len(families) - number  # ours on top
            axes.scatter(percents, lines, 28, f"C{number % 10}", alpha=0.85, label=family, zorder=2 + front)
        axes.set_yticks(range(len(rows)), [cell for cell, _ in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of the ceiling: decode of reading, prefill of multiplying")
        axes.set_title(str(record["meta"]["name"]))
        axes.grid(color="0.9")
        if families:
            figure.legend(loc="outside upper center", ncols=4, frameon=False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
