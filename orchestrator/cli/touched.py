"""`plan --touched-by`: what of a pipeline a difference in git reaches."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from orchestrator.cli.steps import LOCK, Stopped, workspace_files
from orchestrator.cli.workspace import real_path
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Place, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.cli.options import Request
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.reach import Reach
    from orchestrator.engine.versions import Version
    from orchestrator.spec.target import Target


@dataclass(frozen=True)
class Touched:
    """What a difference reaches: between two commits, or a commit and the working tree (`new` is "" then)."""

    old: str
    new: str
    changed: tuple[str, ...]
    reaches: tuple[Reach, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return plain data: a record for each stage, then one for the whole."""
        whole = {
            "event": "touched-by",
            "from": self.old,
            "to": self.new or "working tree",
            "changed": list(self.changed),
            "stages": [reach.stage for reach in self.reaches if not reach.stage.startswith("(")],
            "none": not self.reaches,
        }
        return [*(reach.record() for reach in self.reaches), whole]


def touched_by(request: Request, revisions: str) -> Touched:
    """Return what the difference `revisions` reaches.

    `REV` compares a commit with the working tree, `A..B` two commits, `A...B` the common ancestor of two with the
    second. Stops (usage) without a repository and for an unknown revision, (invalid) where the pipeline cannot be read.
    """
    from orchestrator.origin import git

    root = workspace_files(request).root
    try:
        old, new = git.span(root, revisions)
        changed, reaches = _compared(request, old, new, frozenset())
    except Rejected as error:
        usage = error.diagnostics[0].code in {"E132", "E133"}
        raise Stopped(error.diagnostics, ExitCode.USAGE if usage else ExitCode.INVALID) from None
    return Touched(old, new, tuple(sorted(changed)), reaches)


def _compared(
    request: Request, old: str, new: str, around: frozenset[Path]
) -> tuple[frozenset[str], tuple[Reach, ...]]:
    """Return the paths of a workspace that changed and what they reach; `around` are the workspaces on the way here."""
    from orchestrator.engine.touched import files_below, touched
    from orchestrator.origin import git
    from orchestrator.spec.target import WorkspaceBase

    root = workspace_files(request).root
    changed = git.changed(root, old, new)
    before = _version(request, lambda path: git.content(root, old, path), strict=False)
    after = _version(request, _reader(request, root, new), strict=True)
    if not new:
        after = replace(after, real=lambda path: real_path(root, path))
    below: dict[str, str] = {}
    for origin in after.target.origins if after.target else ():
        if isinstance(origin, WorkspaceBase):
            inner = replace(request, workspace=request.workspace / origin.workspace, file="pipeline.yaml", target=None)
            if inner.workspace.resolve() not in {*around, root}:
                paths, reaches = _compared(inner, old, new, around | {root})
                changed |= {posixpath.normpath(posixpath.join(origin.workspace, path)) for path in paths}
                below |= files_below(reaches, origin.workspace)
    return changed, touched(before, after, changed, below)


def _reader(request: Request, root: Path, commit: str) -> Callable[[str], bytes | None]:
    from orchestrator.origin import git

    if commit:
        return lambda path: git.content(root, commit, path)
    files = workspace_files(request)

    def read(path: str) -> bytes | None:
        try:
            return files.read(path)
        except Rejected:
            return None

    return read


def _version(request: Request, read: Callable[[str], bytes | None], *, strict: bool) -> Version:
    """Return a version of the pipeline; with `strict` one that is not there or cannot be read is refused."""
    from orchestrator.engine.versions import Version
    from orchestrator.spec.document import read_document

    content = read(request.file)
    if content is None:
        if strict:
            message = f"'{request.file}' does not exist there"
            raise Rejected(Diagnostic("E120", message, Place(request.file), help="Name the pipeline with --file."))
        return Version({}, None, None, read)
    try:
        data = read_document(request.file, content).data
    except Rejected:
        if strict:
            raise
        data = None
    data = data if isinstance(data, dict) else {}
    listed = data.get("targets") if request.target is None else ()
    further = {
        file: _target(file, read) for file in (listed if isinstance(listed, list) else ()) if isinstance(file, str)
    }
    return Version(data, _target(request.target or data.get("target"), read), _lock(read), read, further=further)


def _target(path: object, read: Callable[[str], bytes | None]) -> Target | None:
    from orchestrator.spec.target import load_target

    def further(name: str) -> bytes:
        found = read(name)
        if found is None:
            raise KeyError(name)
        return found

    content = read(path) if isinstance(path, str) else None
    try:
        return load_target(str(path), content, further) if content is not None else None
    except Rejected:
        return None


def _lock(read: Callable[[str], bytes | None]) -> Lock | None:
    from orchestrator.engine.lock import read_lock

    content = read(LOCK)
    try:
        return read_lock(LOCK, content) if content is not None else None
    except Rejected:
        return None
