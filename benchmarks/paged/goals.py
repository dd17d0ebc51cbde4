"""What was aimed at, cell by cell: every point is computed from the records, those of one run compared with each other.

Figures of an earlier run (`baseline`) are scaled by the read ceilings of the two runs for decode, by the matrix
products for prefill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.paged import ours, peers, report
from benchmarks.paged.report import NONE, best, of_kind, rate, share, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


SMALL_ROWS = f"{ours.MINE}, rows h200_48k"
PUBLIC_TRITON = (peers.XFORMERS, peers.CONCH)
CEILING_SHARES = {"B64 8K": 0.92, "B1 128K": 0.85, "B1 32K": 0.68}
WIDE = "32q/8kv d128"
NEAR_FLASHINFER = 1.1
LARGEST_STEP = 1.5
EAGER_US = 45.0
HOST_BOUND = 2 / 3
PUBLIC_48K = {"d128": 144.0, "d256": 88.0}
"""TFLOP/s of the best public prefill with context that fits the limit, as the goal states them."""

OF_UNCONSTRAINED = 0.85
STRETCH = 1.5
TILED_FACTOR = 3.0
LONG = ("32K", "100K")


@dataclass(frozen=True)
class Point:
    """One cell of a goal: what was found, what was wanted, and found over wanted with 1 or more meaning met."""

    cell: str
    found: str
    wanted: str
    reached: float

    @property
    def met(self) -> bool:
        """Whether the goal holds here."""
        return self.reached >= 1


@dataclass(frozen=True)
class Goal:
    """A goal and its points; without points it was not measured."""

    work: str
    wanted: str
    points: tuple[Point, ...]


def at_most(cell: str, found: float | None, wanted: float | None, unit: str = "µs") -> list[Point]:
    """Return the point of a figure that should not be above another, if both are known."""
    if found is None or wanted is None:
        return []
    return [Point(cell, f"{short(found)} {unit}", f"{short(wanted)} {unit}", wanted / found)]


def at_least(cell: str, found: float | None, wanted: float | None, unit: str = "TFLOP/s") -> list[Point]:
    """Return the point of a figure that should not be below another, if both are known."""
    if found is None or wanted is None:
        return []
    return [Point(cell, f"{short(found)} {unit}", f"{short(wanted)} {unit}", found / wanted)]


@dataclass(frozen=True)
class Judge:
    """The records of one device: this run, the earlier one of others, and one of a CPU."""

    record: Mapping[str, Any]
    baseline: Mapping[str, Any]
    cpu: Mapping[str, Any]

    def earlier(self, row: Mapping[str, Any], who: str) -> float | None:
        """Return microseconds of somebody in the earlier run, scaled to this run's ceilings."""
        us = self.baseline["cells"].get(row["cell"], {}).get(who)
        ceiling = "fp16 TFLOP/s" if row["kind"] == "prefill" else "read GB/s"
        now = self.record.get("ceilings", {}).get(ceiling)
        return None if us is None or not now else float(us) * float(self.baseline["ceilings"][ceiling]) / float(now)

    def least(self, row: Mapping[str, Any], families: Iterable[str], earlier: Iterable[str]) -> float | None:
        """Return the least microseconds of some families of this run and some of the earlier one."""
        known = [best(row, family) for family in families] + [self.earlier(row, who) for who in earlier]
        return min((us for us in known if us is not None), default=None)

    def flashinfer(self, row: Mapping[str, Any]) -> float | None:
        """Return FlashInfer's microseconds, of this run if it was there."""
        now = best(row, peers.FLASHINFER)
        return self.earlier(row, "FlashInfer") if now is None and row["kind"] == "decode" else now

    def decode(self, points: Callable[[Mapping[str, Any], float | None], list[Point]]) -> tuple[Point, ...]:
        """Return the points of every decode cell, given its row and our time."""
        return tuple(p for row in of_kind(self.record, "decode") for p in points(row, best(row, ours.MINE)))

    def prefill(
        self, points: Callable[[Mapping[str, Any], float | None], list[Point]], *, context: bool | None = None
    ) -> tuple[Point, ...]:
        """Return the points of the prefill cells with or without context, given the row and our TFLOP/s."""
        rows = [r for r in of_kind(self.record, "prefill") if context in {None, not r["cell"].endswith("context 0")}]
        return tuple(p for row in rows for p in points(row, rate(row, best(row, ours.MINE))))

    def ceiling_share(self, row: Mapping[str, Any], us: float | None) -> list[Point]:
        """Return the point of a cell whose share of the read ceiling is wanted."""
        shape = row["cell"].removeprefix(f"decode {WIDE} ")
        part = share(self.record, row, us)
        if shape not in CEILING_SHARES or part is None:
            return []
        wanted = CEILING_SHARES[shape]
        return [Point(row["cell"], f"{part:.2f}", f"{wanted:.2f}", part / wanted)]

    def loop(self, record: Mapping[str, Any], where: str) -> list[Point]:
        """Return PyTorch V2 against the loop in every cell of a record."""
        found = []
        for row in of_kind(record, "decode") if record else ():
            found += at_most(f"{where} {row['cell']}", best(row, ours.V2), best(row, ours.LOOP))
        return found

    def decode_goals(self) -> list[Goal]:
        """Return the goals of decode."""
        target = [f"decode {heads}" for heads in ("16q/2kv", "4q/1kv")]

        def near(row: Mapping[str, Any], us: float | None) -> list[Point]:
            other = self.flashinfer(row)
            wanted = None if other is None else NEAR_FLASHINFER * other
            return at_most(row["cell"], us, wanted) if row["cell"].startswith(tuple(target)) else []

        def small(row: Mapping[str, Any], us: float | None) -> list[Point]:
            return at_most(row["cell"], best(row, SMALL_ROWS), None if us is None else us / OF_UNCONSTRAINED)

        def public(row: Mapping[str, Any], us: float | None) -> list[Point]:
            return at_most(row["cell"], us, self.least(row, PUBLIC_TRITON, ("public Triton",)))

        def compiled(row: Mapping[str, Any], us: float | None) -> list[Point]:
            return at_most(row["cell"], us, self.earlier(row, "vLLM 0.6.3 CUDA"))

        def eager(row: Mapping[str, Any], us: float | None) -> list[Point]:
            # Where the device is busy for as long, the host's time is hidden behind it and cannot be told.
            hidden = us is None or us > EAGER_US * HOST_BOUND
            return [] if hidden else at_most(row["cell"], best(row, ours.MINE, "eager_us"), EAGER_US)

        def stretch(row: Mapping[str, Any], us: float | None) -> list[Point]:
            return at_most(row["cell"], us, self.flashinfer(row))

        return [
            Goal("decode", "no slower than the best public Triton setting chosen for each shape", self.decode(public)),
            Goal("decode, stretch", "no slower than FlashInfer", self.decode(stretch)),
            Goal(f"decode {WIDE}", "0.92, 0.85 and 0.68 of the read ceiling", self.decode(self.ceiling_share)),
            Goal("decode, the target's shapes", "within 1.1 of FlashInfer", self.decode(near)),
            Goal("decode", "faster than vLLM 0.6.3's compiled kernels, scaled by the ceiling", self.decode(compiled)),
            Goal("batch 1 to 64", "no step above 1.5 between neighbours", tuple(self.steps())),
            Goal("one eager call", "45 µs, host time included", self.decode(eager)),
            Goal("decode rows that fit the target", "0.85 of the unconstrained rows", self.decode(small)),
        ]

    def steps(self) -> list[Point]:
        """Return the largest step of each kind of heads."""
        found = []
        for heads, by_batch in self.record.get("steps", {}).items():
            ratio, batch = report.largest_step(by_batch)
            found.append(Point(f"{heads}, at {batch}", f"{ratio:.2f}", f"{LARGEST_STEP}", LARGEST_STEP / ratio))
        return found

    def prefill_goals(self) -> list[Goal]:
        """Return the goals of prefill."""

        def fits(row: Mapping[str, Any], factor: float) -> list[Point]:
            wanted = next(v for size, v in PUBLIC_48K.items() if f" {size} " in row["cell"])
            return at_least(row["cell"], rate(row, best(row, SMALL_ROWS)), factor * wanted)

        def fast(row: Mapping[str, Any], found: float | None) -> list[Point]:
            # Side by side where it ran; the rate of products differs by more between two devices than the two kernels.
            wanted = best(row, peers.FLASHINFER) or self.earlier(row, "FlashInfer FA2")
            return at_least(row["cell"], found, rate(row, wanted))

        def fresh(row: Mapping[str, Any], found: float | None) -> list[Point]:
            return at_least(row["cell"], found, rate(row, self.earlier(row, "vLLM 0.6.3 prefix_prefill")))

        def tiled(row: Mapping[str, Any], found: float | None) -> list[Point]:
            del found
            earlier = self.baseline["cells"].get(row["cell"], {}).get("tiled PyTorch")
            wanted = None if earlier is None else TILED_FACTOR * row["flop"] / earlier / 1e6
            return at_least(row["cell"], rate(row, best(row, ours.TILED)), wanted)

        def stretch(row: Mapping[str, Any], found: float | None) -> list[Point]:
            del found
            return fits(row, STRETCH)

        def public(row: Mapping[str, Any], found: float | None) -> list[Point]:
            del found
            return fits(row, 1.0)

        small = "prefill rows that fit the target, with context"
        return [
            Goal(small, "the best public kernel that fits: 144 and 88 TFLOP/s", self.prefill(public, context=True)),
            Goal(f"{small}, stretch", "1.5 times that", self.prefill(stretch, context=True)),
            Goal("prefill with context", "FlashInfer's FA2 path", self.prefill(fast, context=True)),
            Goal("prefill without context", "vLLM 0.6.3 as it is, scaled", self.prefill(fresh, context=False)),
            Goal("tiled PyTorch prefill", "3 times what the earlier run found", self.prefill(tiled)),
        ]

    def goals(self) -> list[Goal]:
        """Return every goal."""
        loops = [*self.loop(self.record, "GPU:"), *self.loop(self.cpu, "CPU:")]
        return [
            *self.decode_goals(),
            *self.prefill_goals(),
            Goal("PyTorch V2", "faster than the eager loop", tuple(loops)),
        ]


def summary(goals: Iterable[Goal]) -> str:
    """Return how many cells of each goal are met, and which falls furthest short."""
    lines = []
    for goal in goals:
        met = sum(point.met for point in goal.points)
        worst = min(goal.points, key=lambda p: p.reached, default=None)
        where = NONE if worst is None else f"{worst.cell}: {worst.found} for {worst.wanted} ({worst.reached:.2f})"
        lines.append((goal.work, goal.wanted, f"{met} of {len(goal.points)}" if goal.points else "not measured", where))
    return report.table(
        ("work", "goal", "cells that meet it", "the cell furthest from it, or nearest to failing"), lines, words=True
    )


def details(goals: Iterable[Goal]) -> str:
    """Return every point that falls short."""
    lines = [
        (goal.work, goal.wanted, p.cell, p.found, p.wanted, f"{p.reached:.2f}")
        for goal in goals
        for p in goal.points
        if not p.met
    ]
    return report.table(("work", "goal", "cell", "found", "wanted", "reached"), lines, words=True)


def claims(record: Mapping[str, Any]) -> str:
    """Return the factors that the seeds claim, beside the measured ones."""
    decode, prefill = of_kind(record, "decode"), of_kind(record, "prefill")
    lines = []
    for row in decode:
        if row["cell"].endswith(LONG):
            graph, eager = (_factor(row, ours.LOOP, key) for key in ("us", "eager_us"))
            lines.append((row["cell"], "compiled decode 100 times the Python fallback", graph, eager))
    for row in prefill:
        graph, eager = (_factor(row, ours.TILED, key) for key in ("us", "eager_us"))
        lines.append((row["cell"], "Triton prefill 10 to 50 times PyTorch", graph, eager))
    return report.table(("cell", "claim of the seeds", "ours replayed, fallback eager", "both eager"), lines)


def _factor(row: Mapping[str, Any], other: str, key: str) -> str:
    mine, theirs = best(row, ours.MINE, key), best(row, other, "us" if key == "us" else key)
    return NONE if mine is None or theirs is None else f"{theirs / mine:.1f}"
