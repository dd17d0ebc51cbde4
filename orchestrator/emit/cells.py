"""What the cells of generated documents hold: quantities in words, tables, paragraphs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from orchestrator.device.quantity import Known, Quantity, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WIDTH = 118


def prose(text: str) -> list[str]:
    """Return a paragraph as lines."""
    return textwrap.wrap(text, WIDTH)


def scaled(quantity: Quantity, unit: float) -> str:
    """Return a quantity in a unit, every value of it; what is missing where it is unknown."""
    match quantity:
        case Unknown(missing=missing):
            return f"*unknown* ({', '.join(missing)})" if missing else "*unknown*"
        case Known():
            return " or ".join(f"{value / unit:,.1f}" for value in quantity.values)


def unscaled(quantity: Quantity) -> str:
    """Return a whole quantity, every value of it."""
    if isinstance(quantity, Unknown):
        return "*unknown*"
    return " or ".join(f"{value:,.0f}" for value in quantity.values)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
