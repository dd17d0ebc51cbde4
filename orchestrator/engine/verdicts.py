"""Judge checks, and keep a verdict for as long as nothing changes that it was seen by."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from orchestrator.checks.view import Reads, View

if TYPE_CHECKING:
    from orchestrator.checks.base import Check
    from orchestrator.checks.verdict import Verdict
    from orchestrator.core.tree import Tree


class Verdicts:
    """The verdicts of a run by check, each with what its judge read."""

    def __init__(self) -> None:
        self._known: dict[int, list[tuple[Check, Reads, Tree | None, Verdict]]] = {}

    def judge(self, check: Check, view: View) -> Verdict:
        """Return the verdict on `view`: a former one, where all that it rests on is the same, else a new one."""
        known = self._known.setdefault(id(check), [])
        for _, reads, tree, verdict in known:
            if _unchanged(reads, tree, view):
                return verdict
        noted = dataclasses.replace(view, reads=Reads())
        verdict = check.judge(noted)
        known.append((check, noted.reads, view.tree if noted.reads.everything else None, verdict))
        return verdict


def _unchanged(reads: Reads, tree: Tree | None, view: View) -> bool:
    """Tell whether all that a judge read is the same; `tree` is given where that was everything."""
    if tree is not None and not view.tree.holds_the_same(tree):
        return False
    return all(view.content(path) is content for path, content in reads.files.items())
