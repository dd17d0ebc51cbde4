"""The table of a rank's memory for people, made from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

USES = (
    ("weights", "weights"),
    ("activation", "activation"),
    ("kv_cache", "KV cache"),
    ("graphs", "graphs"),
    ("reserve", "reserve"),
)
GIGABYTE = 10**9


def memory_tables(records: Iterable[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield a table for each memory record: uses in GB, then tokens and sequences by each accounting."""
    for record in records:
        if record.get("event") == "memory" and "rows" in record:
            yield _table(record)


def memory_notes(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the sentences below the table: what is not known, which accounting is in effect, what graphs cover."""
    for record in records:
        if record.get("event") != "memory":
            continue
        if "rows" not in record:
            yield f"memory of a rank: unknown, for want of {', '.join(record['unknown'])}"
            continue
        layers = {cache["accounting"]: quantity(cache["layers"]) for cache in record["rows"][0]["caches"]}
        shown = ", ".join(f"{name}: {count}" for name, count in layers.items())
        yield f"KV cache is counted for {record['accounting']} ({shown}); activation is all of the peak but the weights"
        yield graphs_in_words(record["graphs"])
        missing = sorted(set(_missing(record)))
        if missing:
            yield f"unknown, for want of {', '.join(missing)}"


def _table(record: Mapping[str, Any]) -> Table:
    title = f"memory of a rank, GB; context {record['context_tokens']:,}, {record['ranks']} ranks"
    table = Table(show_edge=False, pad_edge=False, header_style="bold", title=title, title_justify="left")
    table.add_column("share")
    table.add_column("batched", justify="right", no_wrap=True)
    for _, name in USES:
        table.add_column(name, justify="right", no_wrap=True)
    for cache in record["rows"][0]["caches"]:
        table.add_column(f"tokens, {cache['accounting']}", justify="right")
        table.add_column("seqs", justify="right", no_wrap=True)
    table.add_column("")
    for row in record["rows"]:
        cells = [str(row["utilisation"]), f"{row['batched_tokens']:,}"]
        cells += [gigabytes(row[use]) for use, _ in USES]
        for cache in row["caches"]:
            cells += [tokens_cell(cache), quantity(cache["sequences"])]
        remark = "refused" if row["refused"] else "chosen" if row["chosen"] else ""
        table.add_row(*cells, Text(remark, style="bold red" if row["refused"] else "green"))
    return table


def gigabytes(known: Mapping[str, Any]) -> str:
    """Return bytes in GB, a range where they are disputed, `unknown` where they are."""
    if "unknown" in known:
        return "unknown"
    values = known.get("values") or [known["value"]]
    return "-".join(f"{value / GIGABYTE:.1f}" for value in dict.fromkeys((min(values), max(values))))


def quantity(known: Mapping[str, Any]) -> str:
    """Return a count, a range where it is disputed, `unknown` where it is."""
    if "unknown" in known:
        return "unknown"
    values = known.get("values") or [known["value"]]
    return "-".join(f"{value:,}" for value in dict.fromkeys((min(values), max(values))))


def tokens_cell(cache: Mapping[str, Any]) -> str:
    """Return the tokens of a cache and how they are known; for a fit, what its largest residual is worth."""
    shown = quantity(cache["tokens"])
    if cache["basis"] != "fitted" or "unknown" in cache["tokens_spread"]:
        return shown if cache["basis"] == "unknown" else f"{shown} {cache['basis']}"
    return f"{shown} ±{quantity(cache['tokens_spread'])}"


def graphs_in_words(graphs: Mapping[str, Any]) -> str:
    """Return which decode steps run from CUDA graphs."""
    if graphs["eager"]:
        by = f" ({graphs['by']})" if graphs["by"] else ""
        return f"no CUDA graphs: eager mode{by}"
    if "unknown" in graphs:
        return f"CUDA graphs: lengths unknown, for want of {', '.join(graphs['unknown'])}"
    batches = graphs["batches"]
    return (
        f"CUDA graphs of {len(batches)} batch sizes up to {batches[-1]}, for lengths up to {graphs['longest_tokens']:,}"
    )


def _missing(data: object) -> Iterator[str]:
    """Yield the names of all missing figures in a record."""
    if isinstance(data, dict):
        yield from (str(name) for name in data.get("unknown", ()))
        for value in data.values():
            yield from _missing(value)
    elif isinstance(data, list):
        for item in data:
            yield from _missing(item)
