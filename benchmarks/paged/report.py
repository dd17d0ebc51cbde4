"""Tables in Markdown, made from a record and nothing else."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from benchmarks.paged import ours

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NONE = "-"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, words: bool = False) -> str:
    """Return a table; its columns but the first are aligned to the right, unless they hold words."""
    lines = [" | ".join(head), " | ".join(["---", *["---" if words else "--:"] * (len(head) - 1)])]
    lines += [" | ".join(str(value).replace("|", "\\|") for value in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def best(row: Mapping[str, Any], family: str, key: str = "us") -> float | None:
    """Return the least time of a family's settings in a cell, or None."""
    found = [time[key] for time in row.get("times", {}).values() if time["family"] == family and key in time]
    return min(found, default=None)


def families(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the families that were timed, in their order."""
    return list(dict.fromkeys(t["family"] for row in rows for t in row.get("times", {}).values() if "us" in t))


def short(value: float | None, digits: int = 3) -> str:
    """Return a number with few digits and no exponent."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def of_kind(record: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Return the measured cells of a kind."""
    return [row for row in record["cells"] if row.get("kind") == kind]


def share(record: Mapping[str, Any], row: Mapping[str, Any], us: float | None) -> float | None:
    """Return which part of the read ceiling a time is, counting keys and values once."""
    peak = record.get("ceilings", {}).get("read GB/s")
    return None if us is None or not peak else row["kv_bytes"] / us / 1e3 / peak


def rate(row: Mapping[str, Any], us: float | None) -> float | None:
    """Return TFLOP/s of a prefill, its causal part counted only."""
    return None if us is None else row["flop"] / us / 1e6


def line(row: Mapping[str, Any]) -> str:
    """Return a cell in one line, for who waits."""
    said = [f"{family} {short(best(row, family))}" for family in families([row])]
    return f"{row['cell']}: {', '.join(said)}"


def ceilings(record: Mapping[str, Any]) -> str:
    """Return what the device can do at most."""
    found = record["ceilings"]
    launch = found["launch us"]
    rows = [
        ("cold read", f"{found['read GB/s'] / 1e3:.2f} TB/s"),
        ("copy, bytes read and written", f"{found['copy GB/s'] / 1e3:.2f} TB/s"),
        ("fp16 matrix product", f"{found['fp16 TFLOP/s']:.0f} TFLOP/s"),
        ("empty launch in a graph", f"{launch['us']:.2f} µs"),
        ("empty launch by Python", f"{launch['eager_us']:.1f} µs"),
    ]
    return table(("ceiling", record["meta"]["name"]), rows)


def decode(record: Mapping[str, Any]) -> str:
    """Return microseconds of every decode cell; of ours also the share of the read ceiling and the eager call."""
    rows = of_kind(record, "decode")
    others = [family for family in families(rows) if family != ours.MINE]
    cold = record.get("ceilings", {}).get("read us", {})
    lines = []
    for row in rows:
        mine = best(row, ours.MINE)
        part = share(record, row, mine)
        first = [row["cell"].removeprefix("decode "), short(cold.get(str(row["kv_bytes"])))]
        own = [short(mine), NONE if part is None else f"{part:.0%}", short(best(row, ours.MINE, "eager_us"))]
        lines.append([*first, *own, *(short(best(row, family)) for family in others)])
    return table(("decode, µs", "cold read", "ours", "of the ceiling", "ours, eager", *others), lines)


def prefill(record: Mapping[str, Any]) -> str:
    """Return TFLOP/s of every prefill cell."""
    rows = of_kind(record, "prefill")
    names = families(rows)
    lines = [
        [row["cell"].removeprefix("prefill "), *(short(rate(row, best(row, name))) for name in names)] for row in rows
    ]
    return table(("prefill, TFLOP/s", *names), lines)


def percentiles(record: Mapping[str, Any]) -> str:
    """Return median, 10th and 90th percentile of ours in every cell."""
    lines = []
    for row in record["cells"]:
        time = row.get("times", {}).get(ours.MINE, {})
        if "us" in time:
            spread = f"{(time['high'] - time['low']) / time['us']:.1%}"
            lines.append([row["cell"], *(short(time[key], 4) for key in ("us", "low", "high")), spread, time["error"]])
    return table(("ours, µs", "median", "10 %", "90 %", "spread", "error"), lines)


def largest_step(by_batch: Mapping[str, float]) -> tuple[float, int]:
    """Return the largest ratio between neighbouring batch sizes, and the larger size of the two."""
    times = [(int(batch), us) for batch, us in by_batch.items()]
    ratios = [(later / us, batch) for (_, us), (batch, later) in itertools.pairwise(times)]
    return max(ratios)


def steps(record: Mapping[str, Any]) -> str:
    """Return the batch steps: some sizes, and the largest ratio of neighbours."""
    lines = []
    for heads, by_batch in record["steps"].items():
        ratio, batch = largest_step(by_batch)
        shown = [short(by_batch[str(size)]) for size in (1, 2, 4, 8, 16, 32, 64)]
        lines.append([heads, *shown, f"{ratio:.2f} at {batch}"])
    return table(("µs at batch", *map(str, (1, 2, 4, 8, 16, 32, 64)), "largest step"), lines)


def bounds(record: Mapping[str, Any]) -> str:
    """Return what a bound far above the lengths costs."""
    lines = [
        [f"{b['heads']} B{b['batch']}", *(short(b[key]) for key in ("bounded us", "exact us", "full us"))]
        for b in record["bound"]
    ]
    first = record["bound"][0]
    head = (f"length {first['real']}, bound {first['bound']}", "bound", "own length", "as long as the bound")
    return table((f"µs, {head[0]}", *head[1:]), lines)


def missing(record: Mapping[str, Any]) -> str:
    """Return who is not installed, wrong, or does not do a cell."""
    rows = [(name, why) for name, why in record["absent"].items()]
    for kind, by_name in record["checks"].items():
        for name, verdicts in by_name.items():
            rows += [(name, f"{kind}, {heads}: {v['failed']}") for heads, v in verdicts.items() if "failed" in v]
    cells: dict[tuple[str, str], list[str]] = {}
    for row in record["cells"]:
        for name, time in row.get("times", {}).items():
            if why := time.get("failed") or time.get("skipped"):
                cells.setdefault((name, why), []).append(row["cell"])
    rows += [(name, f"{', '.join(where)}: {why}") for (name, why), where in cells.items()]
    return table(("not timed", "why"), rows, words=True)


def tables(record: Mapping[str, Any]) -> list[str]:
    """Return every table that the record has data for."""
    made = [ceilings(record)] if "ceilings" in record else []
    made += [decode(record)] if of_kind(record, "decode") else []
    made += [prefill(record)] if of_kind(record, "prefill") else []
    made += [percentiles(record)] if families(record["cells"]) else []
    made += [steps(record), bounds(record)] if "steps" in record else []
    return [*made, missing(record)]
