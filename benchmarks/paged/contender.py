"""Who is measured: something that prepares itself for some data and returns the call that is timed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.paged.clock import measure
from benchmarks.paged.data import Data, error_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

TOLERANCE = 2e-3
"""Relative error against float64 above which a contender in half precision is wrong."""


class NotServed(Exception):  # noqa: N818 - a verdict about the cell, not an error
    """The contender does not do this cell."""


@dataclass(frozen=True)
class Contender:
    """One implementation, or one setting of it.

    `prepare` returns a call that takes the index of a set and returns the output; what it does before is not timed.
    `family` is what settings of one implementation share: the best of them counts. `needs` is a module that has to be
    installed. `graph` says that calls can be captured, `ragged` that lengths may differ; `gathered` that keys and
    values were made dense outside of the timing; `poison` that NaN in unused slots has to change nothing.
    """

    family: str
    prepare: Callable[[Any], Callable[[int], torch.Tensor]]
    setting: str = ""
    needs: str = ""
    graph: bool = True
    ragged: bool = True
    gathered: bool = False
    poison: bool = False

    @property
    def name(self) -> str:
        """Name of its row."""
        return f"{self.family} [{self.setting}]" if self.setting else self.family


def absence(contender: Contender) -> str:
    """Return why a contender cannot be had, or nothing."""
    if not contender.needs:
        return ""
    try:
        importlib.import_module(contender.needs)
    except Exception as error:  # noqa: BLE001 - whatever its import raises, it is not there
        return f"{contender.needs} cannot be imported: {said(error)}"
    return ""


def said(error: BaseException) -> str:
    """Return one line of what an exception says."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def tried(contender: Contender, data: Data) -> tuple[Callable[[int], torch.Tensor] | None, dict[str, Any]]:
    """Return the call, if its answer on set 0 is right, and `ok` with the error, or `failed`, or `skipped`."""
    try:
        call = contender.prepare(data)
        found = error_of(call(0), data)
    except NotServed as reason:
        return None, {"skipped": str(reason)}
    except Exception as error:  # noqa: BLE001 - a contender that breaks must not end the run
        return None, {"failed": said(error)}
    if not found < TOLERANCE:  # NaN is wrong, too
        return None, {"failed": f"wrong: relative error {found:.2g} against float64"}
    return call, {"ok": True, "error": float(f"{found:.2g}")}


def verdict(contender: Contender, data: Data) -> dict[str, Any]:
    """Return whether one call is right: `ok` with the error, or `failed`, or `skipped`."""
    return tried(contender, data)[1]


def timed(contender: Contender, data: Data, sets: int, device: str, budget_ms: float = 40.0) -> dict[str, Any]:
    """Return the time of a contender on a cell's data, if its answer on set 0 is right."""
    call, found = tried(contender, data)
    if call is None:
        return found
    try:
        time = measure(call, sets, device=device, graph=contender.graph, budget_ms=budget_ms)
    except Exception as error:  # noqa: BLE001 - what cannot be captured is timed as it is
        try:
            time = measure(call, sets, device=device, graph=False, budget_ms=budget_ms)
        except Exception as again:  # noqa: BLE001 - the same as above
            return {"failed": said(again)}
        return {**time.record(), "error": found["error"], "not captured": said(error)}
    return {**time.record(), "error": found["error"]}
