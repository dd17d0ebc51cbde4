"""E506: a package's `__init__.py` runs before all that is in the package, so a write to one has to be declared."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.house.world import World
    from orchestrator.checks.view import View


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each package of the base tree whose `__init__.py` is touched; `waive` declares it."""
    view = world.view
    for path in sorted(touched):
        file = PurePosixPath(path)
        # A package that the run brings along as a whole has nothing to hide from.
        if file.name == "__init__.py" and str(file.parent) in view.base.folders:
            package = ".".join(file.parent.parts)
            change = "changes" if path in view.base else "adds"
            message = f"the run {change} the `__init__.py` of the package `{package}`"
            help_ = (
                "It runs before all else in the package: patch the module that is meant, or declare it in the stage: "
                f"`waive: [{{rule: E506, about: {package}, because: …}}]`."
            )
            yield Diagnostic("E506", message, Place(path, _first_change(view, path), 1), help=help_)


def _first_change(view: View, path: str) -> int:
    """Return the number of the first line that differs from the base."""
    before = view.base.get(path, b"").splitlines()
    after = view.tree.get(path, b"").splitlines()
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    return min(same + 1, max(1, len(after)))
