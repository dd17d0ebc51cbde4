"""The space in a picture: what every value of every field led to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from orchestrator.tune.study import COMPILER, FAILED, FILTERED, RAN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from orchestrator.tune.study import Study, Trial

ENDINGS = (".svg", ".png")
COLUMNS = 4
LANES = {FILTERED: -1, COMPILER: -2, FAILED: -3}
NAMES = {FILTERED: "filtered by the model", COMPILER: "refused by a compiler", FAILED: "failed on the device"}
COLOURS = {RAN: "#2a6f97", FILTERED: "#bbbbbb", COMPILER: "#e09f3e", FAILED: "#9e2a2b"}
BEST = "#2d6a4f"
SPREAD = 0.3


def draw(study: Study, path: Path, *, timed: bool) -> None:
    """Write a panel for each field: its values across, the objective up, what never ran in lanes below.

    Raises:
        OSError: The file cannot be written.
        ValueError: Its ending names no format.
    """
    trials = [trial for trial in study.trials() if trial.stage in COLOURS]
    rows = -(-len(study.values) // COLUMNS)
    with mpl.rc_context({"svg.hashsalt": "orchestrator"}):
        figure = Figure(figsize=(3.2 * COLUMNS, 2.8 * rows), layout="constrained")
        panels = figure.subplots(rows, COLUMNS, squeeze=False)
        for panel, name in zip(panels.flat, study.values, strict=False):
            _panel(panel, name, [str(value) for value in study.values[name]], trials)
        for panel in list(panels.flat)[len(study.values) :]:
            panel.set_axis_off()
        what = "time over the table's row (geometric mean)" if timed else "rank by the model (nothing was timed)"
        figure.supylabel(what, fontsize=8)
        handles, labels = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels) or 1, fontsize=8, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def _panel(panel: Axes, name: str, values: list[str], trials: Sequence[Trial]) -> None:
    ran = [trial for trial in trials if trial.stage == RAN and trial.value is not None]
    low = min((trial.value or 0.0 for trial in ran), default=0.0)
    high = max((trial.value or 0.0 for trial in ran), default=1.0)
    lane = (high - low or 1.0) / 10
    groups = [(RAN, "ran", [(t, t.value or 0.0) for t in ran])]
    groups += [
        (stage, NAMES[stage], [(t, low + place * lane) for t in trials if t.stage == stage])
        for stage, place in LANES.items()
    ]
    for stage, label, points in groups:
        across = [values.index(str(t.choice[name])) + _aside(t.number) for t, _ in points]
        panel.scatter(across, [y for _, y in points], s=9, color=COLOURS[stage], label=label, linewidths=0)
    if ran:
        best = min(ran, key=lambda trial: trial.value or 0.0)
        where = values.index(str(best.choice[name])) + _aside(best.number)
        panel.scatter([where], [best.value or 0.0], s=50, facecolors="none", edgecolors=BEST, label="best")
    panel.set_xticks(range(len(values)), values, fontsize=7)
    panel.tick_params(axis="y", labelsize=7)
    panel.set_title(name, fontsize=9)


def _aside(number: int) -> float:
    """Return a small shift that differs from trial to trial, so that points do not hide each other."""
    return ((number * 0.618034) % 1 - 0.5) * SPREAD
