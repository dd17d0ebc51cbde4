"""The DAG as text for other programs: Mermaid and Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def mermaid(records: Sequence[dict[str, Any]]) -> str:
    """Return a Mermaid flowchart of stage records."""
    lines = ["flowchart LR"]
    for i, record in enumerate(records):
        lines.append(f'  s{i}["{record["stage"]}<br/>{record["outcome"]}"]')
    lines += [f"  s{a} --> s{b}" for a, b in _edges(records)]
    return "\n".join(lines) + "\n"


def dot(records: Sequence[dict[str, Any]]) -> str:
    """Return a Graphviz digraph of stage records."""
    lines = ["digraph pipeline {", "  rankdir=LR;", "  node [shape=box];"]
    for i, record in enumerate(records):
        lines.append(f'  s{i} [label="{record["stage"]}\\n{record["outcome"]}"];')
    lines += [f"  s{a} -> s{b};" for a, b in _edges(records)]
    return "\n".join([*lines, "}"]) + "\n"


def _edges(records: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    number = {record["stage"]: i for i, record in enumerate(records)}
    return [(number[need], number[record["stage"]]) for record in records for need in record["needs"]]
