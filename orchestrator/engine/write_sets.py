"""Write sets: two stages that write one definition, or one file as a whole, are ordered by a need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.code.scopes import FILE
from orchestrator.core.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from orchestrator.engine.outcome import Link, StageResult


def unordered_writers(
    results: Sequence[StageResult], ancestors: Mapping[str, frozenset[str]], told: Collection[tuple[str, str]] = ()
) -> Iterator[Diagnostic]:
    """Yield E510 for every pair of stages that write one definition while neither needs the other.

    `told` are pairs (first, second) of which more is said elsewhere.
    """
    written: dict[str, list[tuple[StageResult, Link]]] = {}
    for result in results:
        for link in result.links:
            written.setdefault(link.definition.file, []).append((result, link))
    for pairs in written.values():
        for i, (second, link) in enumerate(pairs):
            for first, earlier in pairs[:i]:
                if first.id == second.id or (first.id, second.id) in told:
                    continue
                if not _overlap(earlier.definition.name, link.definition.name):
                    continue
                if first.id in ancestors[second.id] or second.id in ancestors[first.id]:
                    continue
                message = (
                    f"stages '{first.id}' and '{second.id}' both write {link.definition}, and neither needs the other"
                )
                help_ = f"Add '{first.id}' to the needs of '{second.id}' or, for the order alone, to its `after`."
                yield Diagnostic("E510", message, second.planned.place, help_, stage=second.id)


def _overlap(left: str, right: str) -> bool:
    """Tell whether two writes meet: in the same definition, or one of them in the whole file."""
    return left == right or FILE in {left, right}
