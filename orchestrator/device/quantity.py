"""What is known of a number: known, with all the values that somebody states, or unknown, with what is missing.

Arithmetic on an unknown number is unknown and names each figure that is missing; nothing is ever put in its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.spec.target import Figure

if TYPE_CHECKING:
    from orchestrator.spec.model import Scalar
    from orchestrator.spec.target import Target

Number = int | float

_SECTIONS = ("device", "model", "engine")


@dataclass(frozen=True)
class Known:
    """A number to compute with. `stated` are all values that lead to it where figures are disputed, it among them."""

    value: Number
    stated: tuple[Number, ...] = ()

    @property
    def values(self) -> tuple[Number, ...]:
        """Every value that it may have, in order; one where nothing is disputed."""
        return tuple(sorted({self.value, *self.stated}))


@dataclass(frozen=True)
class Unknown:
    """A number that cannot be had: `missing` names the figures without which it cannot."""

    missing: tuple[str, ...]


Quantity = Known | Unknown
Figures = Mapping[str, Quantity]
"""Dotted name (`device.sm_count`) → what is known of it."""


def derive(function: Callable[..., Number], *quantities: Quantity) -> Quantity:
    """Return `function` of these quantities: unknown if one of them is, disputed if one of them is."""
    missing = [name for quantity in quantities if isinstance(quantity, Unknown) for name in quantity.missing]
    if missing:
        return Unknown(tuple(dict.fromkeys(missing)))
    known = [quantity for quantity in quantities if isinstance(quantity, Known)]
    value = function(*(quantity.value for quantity in known))
    combined = {function(*chosen) for chosen in itertools.product(*(quantity.values for quantity in known))}
    return Known(value, tuple(sorted(combined)) if len(combined) > 1 else ())


def figure(figures: Figures, name: str) -> Quantity:
    """Return what is known of a figure; one that the target does not have is unknown."""
    return figures.get(name, Unknown((name,)))


def figures_of(target: Target) -> dict[str, Quantity]:
    """Return every number of a target by its dotted name; words are left out."""
    found: dict[str, Quantity] = {}
    for section in _SECTIONS:
        for key, entry in getattr(target, section).items():
            quantity = _quantity(f"{section}.{key}", entry)
            if quantity is not None:
                found[f"{section}.{key}"] = quantity
    return found


def _quantity(name: str, entry: Scalar | Figure) -> Quantity | None:
    value, stated = (entry.value, entry.values) if isinstance(entry, Figure) else (entry, [])
    if value is None:
        return Unknown((name,))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    numbers = [other for other in stated if isinstance(other, int | float) and not isinstance(other, bool)]
    return Known(value, tuple(sorted({value, *numbers})) if numbers else ())


def plain(quantity: Quantity) -> dict[str, object]:
    """Return a quantity as plain data: `value`, `values` where they disagree, or `unknown` with what is missing."""
    match quantity:
        case Unknown(missing=missing):
            return {"unknown": list(missing)}
        case Known(value=value):
            values = quantity.values
            return {"value": value, "values": list(values)} if len(values) > 1 else {"value": value}
