"""Wheels in a run: the package that a wheel brings takes the place of the tree's, and later stages edit that."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from orchestrator.core.diagnostics import Place
    from orchestrator.core.tree import Tree
    from orchestrator.engine.plan import Plan, PlannedStage


@dataclass(frozen=True)
class Wheel:
    """A wheel that was read: its file, and what it puts into package roots (root → path in the tree → bytes)."""

    name: str
    version: str
    file: str
    content: bytes
    roots: Mapping[str, Mapping[str, bytes]]

    @property
    def sha256(self) -> str:
        """The digest of the whole file."""
        return digest(self.content)


@dataclass(frozen=True)
class PlannedWheel:
    """A wheel that a stage asks for. `wheel` is there once it has been fetched."""

    name: str
    version: str
    source: str | None
    replaces: str | None
    place: Place
    wheel: Wheel | None = None

    @property
    def requirement(self) -> str:
        """What it is called in messages and in the lock: NAME==VERSION."""
        return f"{self.name}=={self.version}"

    @property
    def key(self) -> str:
        """The distribution, in the spelling that two names of one distribution share."""
        return canonicalize_name(self.name)


def planned_wheels(plan: Plan) -> Iterator[PlannedWheel]:
    """Yield every wheel of a stage that is enabled."""
    for stage in plan.stages:
        if stage.stage.enabled:
            yield from stage.wheels


def with_wheels(plan: Plan, fetched: Mapping[str, Wheel]) -> Plan:
    """Return the plan with its wheels in place; `fetched` is distribution → wheel.

    Raises `Rejected` (E310) for one that brings no package root of the target: what it does could not be seen
    in any tree.
    """
    faults = []
    stages = []
    for stage in plan.stages:
        wheels = tuple(dataclasses.replace(w, wheel=fetched.get(w.key)) for w in stage.wheels)
        faults += [_no_root(w, w.wheel, plan, stage) for w in wheels if w.wheel and not w.wheel.roots]
        stages.append(dataclasses.replace(stage, wheels=wheels))
    if faults:
        raise Rejected(faults)
    return dataclasses.replace(plan, stages=tuple(stages))


def _no_root(planned: PlannedWheel, wheel: Wheel, plan: Plan, stage: PlannedStage) -> Diagnostic:
    message = f"{wheel.file} brings no package that is a package root of target '{plan.target.name}'"
    help_ = f"Declare its package under `roots` of the target, beside {', '.join(plan.target.roots)}."
    return Diagnostic("E310", message, planned.place, help_, stage=stage.id)


@dataclass
class Laid:
    """What laying a stage's wheels over a tree gives; `roots` are those whose content changes."""

    roots: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    present: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    faults: list[Diagnostic] = field(default_factory=list)


def lay(stage: PlannedStage, tree: Tree, writers: Mapping[str, str], targets: Collection[str]) -> Laid:
    """Return what the stage's wheels do to `tree`.

    A wheel is there already where its roots hold what it brings, but for the files that stages edit or deploy
    (`targets`): those say themselves what state they are in. `writers` is file → the stage that wrote it; a wheel
    goes into the image before any edit, so an edit that came first would be lost (E419).
    """
    laid = Laid()
    for planned in stage.wheels:
        name = f"wheel {planned.requirement}"
        wheel = planned.wheel
        if wheel is None:
            raise AssertionError(f"{name} is fetched before a run")
        if all(_holds(tree, root, files, targets) for root, files in wheel.roots.items()):
            laid.present.append(name)
            continue
        early = sorted(file for file in writers if file.partition("/")[0] in wheel.roots)
        if early:
            laid.faults.append(_too_late(planned, early[0], writers[early[0]]))
        laid.pending.append(name)
        laid.roots.update(wheel.roots)
    return laid


def _holds(tree: Tree, root: str, files: Mapping[str, bytes], targets: Collection[str]) -> bool:
    """Tell whether a root of the tree holds the wheel's files, `targets` aside."""
    here = {path for path in tree if path.partition("/")[0] == root}
    differ = {path for path in here | files.keys() if tree.get(path) != files.get(path)}
    return bool(here) and differ <= set(targets)


def _too_late(planned: PlannedWheel, file: str, writer: str) -> Diagnostic:
    message = f"stage '{writer}' wrote {file} before this wheel replaces its package"
    help_ = f"Wheels go into the image first: add this stage to the needs of '{writer}'."
    return Diagnostic("E419", message, planned.place, help_)


def brought_by(stage: PlannedStage) -> frozenset[str]:
    """Return the files that a stage's wheels put into package roots."""
    wheels = (planned.wheel for planned in stage.wheels)
    return frozenset(path for wheel in wheels if wheel is not None for files in wheel.roots.values() for path in files)


def edited_files(stages: Iterable[PlannedStage]) -> frozenset[str]:
    """Return the files that stages edit, deploy or have compiled."""
    return frozenset(
        path
        for stage in stages
        for path in (
            *(e.edit.file for e in stage.edits),
            *(d.to for d in stage.deploys),
            *(c.to for c in stage.compiles),
        )
    )
