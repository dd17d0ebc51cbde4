"""What `verify` looks at: a tree, or an image without a daemon; the base to compare with; the log that may be there."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.steps import BaseTree, Stopped, base_of, lock_of, run_on
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Place, Rejected, Severity, errors
from orchestrator.core.tree import Tree

if TYPE_CHECKING:
    from orchestrator.cli.options import Request
    from orchestrator.engine.lock import Chain
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan

AUDIT = "audit.jsonl"


@dataclass(frozen=True)
class Looked:
    """The tree to judge, where it comes from (records), what is wrong with it, and the image's own log."""

    base: BaseTree
    records: tuple[dict[str, Any], ...] = ()
    faults: tuple[Diagnostic, ...] = ()
    audit: bytes | None = None


def tree_to_judge(plan: Plan, request: Request, image: str | None, which: str | None) -> Looked:
    """Return the tree of `--tree`, of `--image` or of the target's own base. Stops (usage) where it cannot be had."""
    if image is None:
        if which is not None:
            raise Stopped((_unclear("--which needs --image"),), ExitCode.USAGE)
        base = base_of(plan, request)
        return Looked(base)
    if request.trees:
        raise Stopped((_unclear("--image and --tree are both given"),), ExitCode.USAGE)
    return _from_image(plan, request, image, which)


def _unclear(message: str) -> Diagnostic:
    return Diagnostic("E134", message, help="Give one of them.")


def _from_image(plan: Plan, request: Request, image: str, which: str | None) -> Looked:
    from orchestrator.cli.wheels import wheels_of
    from orchestrator.origin.image import read_image

    source = sys.stdin.buffer if image == "-" else Path(image)
    try:
        found = read_image(source, plan.target.roots, which)
        tree = Tree({path: content for base in found.bases.values() for path, content in base.tree.items()})
        compiled = frozenset().union(*(base.compiled for base in found.bases.values()))
        name = next(iter(found.bases.values())).source
        absent = tuple(_absent(root, plan) for root in plan.target.roots if root not in found.bases)
        base = wheels_of(plan, request, BaseTree(tree, name, compiled, notices=(*found.findings, *absent)))
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.USAGE) from None
    if errors(found.findings):
        raise Stopped(found.findings, ExitCode.USAGE)
    records = tuple(
        {"event": "root", "root": root, "folders": dict(folders), "differ": list(found.differ.get(root, ()))}
        for root, folders in found.folders.items()
    )
    faults = tuple(_copies(root, paths) for root, paths in found.differ.items() if paths)
    layers = {"event": "image", "image": image, "layers_read": found.layers[0], "layers": found.layers[1]}
    return Looked(base, (layers, *records), faults, found.audit)


def _absent(root: str, plan: Plan) -> Diagnostic:
    paths = ", ".join(plan.target.roots[root])
    message = f"the image has no package root '{root}': {paths}"
    help_ = "Correct `roots:` of the target, if it lies elsewhere."
    return Diagnostic("E304", message, help=help_, severity=Severity.WARNING)


def _copies(root: str, paths: tuple[str, ...]) -> Diagnostic:
    message = f"the image has two folders for '{root}', and they differ in {len(paths)} files"
    help_ = "What is said here is about the first one. Patch both, or remove the one that is not meant."
    return Diagnostic("E312", message, notes=paths[:20], help=help_)


def run_on_base(plan: Plan, request: Request, looked: BaseTree, given: tuple[str, ...]) -> tuple[Run | None, str]:
    """Return the run on the base that a tree is compared with, and the base's name; None where no base can be had.

    `given` is what `--base` hands over, in the way of `--tree`; else the target's own origins are asked.
    """
    try:
        known = base_of(plan, replace(request, trees=given))
    except (Rejected, Stopped) as error:
        if given:
            raise
        return None, error.diagnostics[0].message
    if not given and known.tree.digest == looked.tree.digest:
        known = looked
    return run_on(plan, replace(known, wheels=looked.wheels), request, patched=False), known.name


def chains_of(made: Run | None, request: Request) -> tuple[Chain, ...]:
    """Return the images of definitions to hold a tree against: those of the run on the base, else the lock's."""
    from orchestrator.engine.lock import chain_of

    if made is not None:
        return (chain_of(made),)
    lock = lock_of(request)
    return tuple(lock.bases.values()) if lock else ()


def log_of(looked: Looked, request: Request, named: Path | None) -> tuple[str, bytes, bool] | None:
    """Return the log to compare with, if there is one: its name, its lines, and whether it must be complete.

    That is the one of `--audit`, else the image's own, else the one of `build/`. Stops (usage) where the named one
    cannot be read.
    """
    if named is None and looked.audit is not None:
        return f"/opt/patchset/{AUDIT} in the image", looked.audit, False
    path = named or request.workspace / "build"
    inner = path.name == "patchset" or path.parent.name == "patchset"
    path = path / AUDIT if path.is_dir() else path
    try:
        return str(path), path.read_bytes(), not inner
    except OSError as error:
        if named is None:
            return None
        fault = Diagnostic("E127", f"{path} cannot be read: {error.strerror}", Place(str(path)), help="Name the log.")
        raise Stopped((fault,), ExitCode.USAGE) from None
