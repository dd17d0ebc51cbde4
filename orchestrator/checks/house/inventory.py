"""What the target's inventory of compiled vendor modules says of a name: is it there, what is near, its signature."""

from __future__ import annotations

import difflib
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrator.checks.view import Facts

_ALIKE = 0.6


def lacks(dotted: str, facts: Facts) -> tuple[str, str] | None:
    """Return the vendor module and the name of a dotted name that the inventory does not have, None otherwise.

    A module whose names nobody listed may have any, and every module has names between double underscores.
    """
    module, _, name = dotted.rpartition(".")
    listed = facts.vendor_modules.get(module)
    if not listed or name in listed or (name.startswith("__") and name.endswith("__")):
        return None
    inner = any(other == dotted or other.startswith(f"{dotted}.") for other in facts.vendor_modules)
    return None if inner else (module, name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, None where none is alike.

    First counts how many leading words are the same, then likeness as `difflib` has it: vendors name what belongs
    together alike from the front.
    """
    matcher = difflib.SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(name)
    best: tuple[int, float, str] | None = None
    for other in sorted(set(known)):
        matcher.set_seq1(other)
        ratio = matcher.ratio()
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name.split("_"), other.split("_"), strict=False))
        )
        if ratio >= _ALIKE and (best is None or (same, ratio) > best[:2]):
            best = (same, ratio, other)
    return best[2] if best else None


def vendor_help(name: str, module: str, facts: Facts) -> str:
    """Return what to do about a name that a vendor module does not have."""
    listed = facts.vendor_modules.get(module, ())
    near = nearest(name, listed)
    signature = facts.vendor_signatures.get(module, {}).get(near or "", "")
    said = f"did you mean '{near}'?" if near else f"known: {', '.join(sorted(listed))}."
    takes = f" It is {near}{signature}." if near and signature else ""
    return f"{said}{takes} The target lists what `{module}` has under `vendor_modules`."
