"""The bases that a pipeline is bumped to: where they come from, and judging one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from orchestrator.cli.steps import (
    BaseTree,
    Stopped,
    base_of,
    deeply,
    facts_on,
    inner_request,
    lock_of,
    make_plan_for,
    origin_exit,
    sdist_tree,
    together,
    tree_of,
)
from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity
from orchestrator.core.tree import Tree
from orchestrator.spec.target import SdistBase, SuppliedBase, WorkspaceBase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.cli.options import Request
    from orchestrator.engine.bump.fates import BaseFate, Part, StageFate
    from orchestrator.engine.bump.judge import Judged
    from orchestrator.engine.bump.reference import Reference
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.plan import Plan


@dataclass(frozen=True)
class Wanted:
    """One base to judge: a release (`NAME==VERSION`), a tree (`ROOT=PATH`) or an image."""

    name: str
    release: str = ""
    tree: str = ""
    image: str = ""
    which: str | None = None
    missing: tuple[Diagnostic, ...] = ()
    """Why there is no source of it."""


@dataclass(frozen=True)
class Prepared:
    """A workspace, ready to be judged on any base: plan, lock, wheels, and the run on its own base where it has one."""

    request: Request
    plan: Plan
    lock: Lock | None
    outfit: BaseTree
    """The wheels of the stages, over no tree."""
    reference: Reference | None
    own: BaseTree | None
    inner: Mapping[str, Prepared] = field(default_factory=dict)
    """Folder → the workspace that makes a part of the base."""
    notices: tuple[Diagnostic, ...] = ()


def prepare(request: Request, base: tuple[str, ...] = ()) -> Prepared:
    """Return a workspace with the run on its own base, or on the one that `base` hands over (`ROOT=PATH`).

    A base that cannot be had is a warning: what changed in it cannot be shown then. Stops where the pipeline is
    invalid, or a wheel of a stage cannot be had.
    """
    from orchestrator.engine.bump.reference import make_reference
    from orchestrator.engine.wheels import with_wheels

    plan = make_plan_for(request)
    inner = {
        origin.workspace: prepare(inner_request(request, origin.workspace))
        for origin in plan.target.origins
        if isinstance(origin, WorkspaceBase)
    }
    outfit = base_of(plan, request, lambda *_: BaseTree(Tree(), ""))
    try:
        plan = with_wheels(plan, outfit.wheels)
    except Rejected as error:
        raise Stopped(error.diagnostics, origin_exit(error.diagnostics)) from None
    lock = lock_of(request)
    bare = Prepared(request, plan, lock, outfit, None, None, inner)
    try:
        own = tree_of(plan, replace(request, trees=base)) if base else own_tree(bare)
    except (Rejected, Stopped) as error:
        if base:
            raise
        return replace(bare, notices=tuple(_unknown(d) for d in error.diagnostics[:1]))
    dressed = plan_on(bare, own)
    plain = {path: content for each in inner.values() if each.own for path, content in each.own.tree.items()}
    reference = deeply(lambda: make_reference(dressed, own.tree, lock, Tree(plain) if inner else None))
    return replace(bare, reference=reference, own=own)


def _unknown(found: Diagnostic) -> Diagnostic:
    message = f"the pipeline's own base is not known, so what changed in it is not shown: {found.message}"
    help_ = f"Hand it over with --base ROOT=PATH. {found.help}".strip()
    return replace(found, message=message, help=help_, severity=Severity.WARNING)


def plan_on(prepared: Prepared, base: BaseTree) -> Plan:
    """Return the prepared plan with what a base, and the wheels of the stages, add to its facts."""
    compiled = base.compiled | prepared.outfit.compiled
    return replace(prepared.plan, facts=facts_on(prepared.plan, replace(base, compiled=compiled)))


# --- trees ---


def own_tree(prepared: Prepared) -> BaseTree:
    """Return the base that the pipeline was made for, from the target's origins."""
    parts = []
    for origin in prepared.plan.target.origins:
        match origin:
            case SdistBase():
                parts.append(sdist_tree(prepared.plan, origin, prepared.request))
            case WorkspaceBase(workspace=folder):
                inner = prepared.inner[folder]
                if inner.reference is None or inner.own is None:
                    raise Rejected(inner.notices)
                parts.append(_made(inner, inner.own, inner.reference.made, prepared))
            case SuppliedBase(supplied=how):
                message = f"target '{prepared.plan.target.name}' has no base that can be fetched"
                raise Rejected(Diagnostic("E308", message, help=how))
    return together(parts)


def _made(inner: Prepared, base: BaseTree, made: Tree, outer: Prepared) -> BaseTree:
    roots = outer.plan.target.roots
    tree = Tree({path: content for path, content in made.items() if path.partition("/")[0] in roots})
    return replace(base, tree=tree, name=f"{inner.plan.name} on {base.name}")


def released(prepared: Prepared, release: str) -> tuple[BaseTree, tuple[StageFate, ...]]:
    """Return the base with a release of one of its packages, and what became of the workspaces that make it."""
    name, _, version = release.partition("==")
    parts: list[BaseTree] = []
    fates: list[StageFate] = []
    for origin in prepared.plan.target.origins:
        match origin:
            case SdistBase():
                own = canonicalize_name(origin.sdist.partition("==")[0]) == canonicalize_name(name)
                taken = origin.model_copy(update={"sdist": f"{name}=={version}"}) if own else origin
                parts.append(sdist_tree(prepared.plan, taken, prepared.request))
            case WorkspaceBase(workspace=folder):
                inner = prepared.inner[folder]
                base, below = released(inner, release)
                judged = judge_on(inner, base, _lost(inner, below))
                fates += [*below, *(_of_workspace(folder, inner, stage) for stage in judged.fate.stages)]
                parts.append(_made(inner, base, judged.tree, prepared))
            case SuppliedBase():
                root = canonicalize_name(name).replace("-", "_")
                taken = SdistBase(sdist=f"{name}=={version}", package=root)
                parts.append(sdist_tree(prepared.plan, taken, prepared.request))
    return together(parts), tuple(fates)


def _of_workspace(folder: str, inner: Prepared, stage: StageFate) -> StageFate:
    """Return the verdict on a stage of a workspace that makes the base, called and placed from outside."""

    def placed(part: Part) -> Part:
        if part.place is None:
            return part
        return replace(part, place=replace(part.place, file=f"{folder}/{part.place.file}"))

    return replace(stage, stage=f"{inner.plan.name}/{stage.stage}", parts=tuple(map(placed, stage.parts)))


def projects(prepared: Prepared) -> frozenset[str]:
    """Return the names of the packages of which another release can be taken."""
    found: set[str] = set()
    for origin in prepared.plan.target.origins:
        match origin:
            case SdistBase(sdist=requirement):
                found.add(canonicalize_name(requirement.partition("==")[0]))
            case WorkspaceBase(workspace=folder):
                found |= projects(prepared.inner[folder])
            case SuppliedBase():
                found |= {canonicalize_name(root) for root in prepared.plan.target.roots}
    return frozenset(found)


# --- one base ---


def judge_wanted(prepared: Prepared, wanted: Wanted) -> BaseFate:
    """Return what becomes of the pipeline on one base. What cannot be had is in the answer; nothing is raised."""
    from orchestrator.engine.bump.fates import BaseFate
    from orchestrator.engine.run import no_collection

    started = time.monotonic()
    if wanted.missing:
        return BaseFate(wanted.name, wanted.release.partition("==")[2], missing=wanted.missing)
    with no_collection():
        try:
            base, below = _tree(prepared, wanted)
        except (Rejected, Stopped) as error:
            return BaseFate(wanted.name, wanted.release.partition("==")[2], missing=error.diagnostics)
        found = judge_on(prepared, replace(base, name=wanted.name), _lost(prepared, below)).fate
    notices = tuple(notice for notice in base.notices if notice.severity is not Severity.NOTE)
    return replace(
        found,
        stages=(*below, *found.stages),
        findings=(*notices, *found.findings),
        seconds=time.monotonic() - started,
    )


def _tree(prepared: Prepared, wanted: Wanted) -> tuple[BaseTree, tuple[StageFate, ...]]:
    if wanted.release:
        return released(prepared, wanted.release)
    if wanted.image:
        from orchestrator.cli.looked import tree_to_judge

        return tree_to_judge(prepared.plan, prepared.request, wanted.image, wanted.which).base, ()
    return tree_of(prepared.plan, replace(prepared.request, trees=(wanted.tree,))), ()


def judge_on(prepared: Prepared, base: BaseTree, lost: Mapping[str, str] | None = None) -> Judged:
    """Return what becomes of a prepared pipeline on a base that is there; `lost` is what is missing of it."""
    from orchestrator.engine.bump.judge import Base, judge

    plan = plan_on(prepared, base)
    given = Base(base.name, base.tree, lost or {})
    return deeply(lambda: judge(plan, given, prepared.lock, prepared.reference))


def _lost(prepared: Prepared, below: tuple[StageFate, ...]) -> dict[str, str]:
    """Return the files that stages of the workspaces which make the base could not write: file → which, and why."""
    from orchestrator.engine.bump.fates import APPLIES

    fates = {stage.stage: stage.fate for stage in below if stage.fate not in APPLIES}
    lost: dict[str, str] = {}
    for inner in prepared.inner.values():
        for id_, result in inner.reference.results.items() if inner.reference else ():
            name = f"{inner.plan.name}/{id_}"
            if name in fates:
                lost.update(dict.fromkeys(result.after, f"{name} writes, which is {fates[name]}"))
    return lost
