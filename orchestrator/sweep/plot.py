"""The plot: what decides, and the time to the first token, over the values."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from orchestrator.sweep.model import Fault, Measured
from orchestrator.sweep.sweep import advice, points

if TYPE_CHECKING:
    from orchestrator.sweep.sweep import Result, Settings

SIZE = (7.0, 6.0)


def plots(result: Result, settings: Settings) -> dict[str, bytes]:
    """Return `sweep.svg` and `sweep.png`; the same result gives the same bytes with the same matplotlib."""
    svg, png = io.BytesIO(), io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "sweep"}):
        figure = _figure(result, settings)
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})  # type: ignore[no-untyped-call]  # matplotlib
        FigureCanvasAgg(figure).print_png(png)  # type: ignore[no-untyped-call]  # matplotlib
    return {"sweep.svg": svg.getvalue(), "sweep.png": png.getvalue()}


def _figure(result: Result, settings: Settings) -> Figure:
    figure = Figure(figsize=SIZE, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    found = sorted(points(result.outcomes, settings), key=lambda p: p.value)
    errors = [point.error or 0.0 for point in found]
    values = [point.value for point in found]
    above.errorbar(values, [p.mean for p in found], yerr=errors, marker="o", capsize=3, label="mean, standard error")
    chosen = advice(result.outcomes, settings)
    if chosen is not None:
        above.axvline(chosen.value.number, linestyle=":", label=f"recommended: {chosen.value.value}")
        above.axhspan(chosen.best_mean - chosen.margin, chosen.best_mean, alpha=0.15, label="margin of the best")
    failed = [(o.number, str(o.found.kind)) for o in result.outcomes if isinstance(o.found, Fault)]
    if failed:
        above.plot([x for x, _ in failed], [0.0] * len(failed), "x", color="tab:red", label="failed")
        for x, kind in failed:
            above.annotate(kind, (x, 0.0), (0, 6), textcoords="offset points", ha="center", fontsize="small")
    above.set_ylim(bottom=0)
    above.set_ylabel("output tokens/s" if settings.by == "output" else "score")
    above.legend(fontsize="small")
    measured = sorted(
        (o.number, o.found.first_token_s)
        for o in result.outcomes
        if isinstance(o.found, Measured) and o.found.first_token_s
    )
    for percentile in ("p50", "p99"):
        times = [seconds[percentile] * 1000 for _, seconds in measured]
        below.plot([x for x, _ in measured], times, marker="o", label=percentile)
    below.set_ylabel("first token, ms")
    below.set_xlabel(settings.parameter)
    below.set_ylim(bottom=0)
    if measured:
        below.legend(fontsize="small")
    every = sorted({outcome.number for outcome in result.outcomes})
    if every and every[0] > 0:
        below.set_xscale("log", base=2)
    below.xaxis.set_major_locator(FixedLocator(every))
    below.xaxis.set_minor_locator(NullLocator())
    below.set_xticklabels([f"{value:g}" for value in every])
    return figure
