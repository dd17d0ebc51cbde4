"""What an attempt stands on, and what it has come to so far."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.checks.view import Sources
    from orchestrator.code.scopes import Definition
    from orchestrator.code.sites import Site
    from orchestrator.code.source import Source
    from orchestrator.core.tree import Tree
    from orchestrator.engine.lock import Chain


@dataclass
class Attempt:
    """What trying a stage gave. `present` and `pending` name its parts (edits, deployed files) by state."""

    sites: list[tuple[int, Site]] = field(default_factory=list)
    written: dict[str, bytes] = field(default_factory=dict)
    present: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    touched: set[Definition] = field(default_factory=set)
    roots: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Package roots that the stage's wheels fill, with all their files."""
    faults: list[Diagnostic] = field(default_factory=list)

    @property
    def already_applied(self) -> bool:
        """Whether every part of the stage is in the tree already."""
        return not self.pending and not self.faults and bool(self.present)


@dataclass(frozen=True)
class Ground:
    """What an attempt stands on: the tree now and before the run, parsed files, the chain, and who wrote what."""

    tree: Tree
    base: Tree
    sources: Sources
    chain: Chain | None
    writers: Mapping[Definition, str]
    targets: frozenset[str] = frozenset()
    """The files that stages of the plan edit or deploy."""

    def with_roots(self, roots: Mapping[str, Mapping[str, bytes]]) -> Ground:
        """Return the ground with wheels in place: in the tree, and in what counts as the base."""
        return dataclasses.replace(self, tree=self.tree.with_roots(roots), base=self.base.with_roots(roots))

    def source(self, path: str, written: Mapping[str, bytes]) -> Source:
        """Return a file as the attempt sees it; raise `Rejected` (E401) where it is gone."""
        raw = written.get(path, self.tree.get(path))
        if raw is None:
            raise Rejected(file_gone(path, self.tree))
        return self.sources.get(path, raw)


def file_gone(path: str, tree: Tree) -> Diagnostic:
    """Return E401 with where a file of that name is now, if anywhere."""
    name = path.rpartition("/")[2]
    same = [other for other in tree if other.rpartition("/")[2] == name]
    help_ = f"A file of that name is at {', '.join(sorted(same)[:3])}." if same else did_you_mean(path, tree)
    if help_.startswith("known:"):
        help_ = "The base has no file like it."
    return Diagnostic("E401", f"{path} is not in the tree", help=help_)
