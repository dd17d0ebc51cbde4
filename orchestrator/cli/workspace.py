"""What lies around the stages: the folder, and what git knows of it, read for the findings about both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.steps import Stopped, workspace_files
from orchestrator.core.diagnostics import ExitCode, Rejected, errors

if TYPE_CHECKING:
    from orchestrator.cli.options import Request
    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.plan import Plan
    from orchestrator.origin.workspace import WorkspaceFiles


def workspace_findings(plan: Plan, request: Request) -> tuple[Diagnostic, ...]:
    """Return the warnings and notes about the workspace; stop (invalid) with all findings where one is an error."""
    from orchestrator.engine.workspace import Folder, judge_workspace
    from orchestrator.origin import git
    from orchestrator.origin.listing import listing

    reader = workspace_files(request)
    trees = [path for _, _, path in (tree.partition("=") for tree in request.trees)]
    files, whole = listing(reader.root, [Path(path) for path in trees if path != "-"])
    folder = Folder(
        files,
        lambda path: _read(reader, path),
        lambda path: real_path(reader.root, path),
        git.tracked(reader.root),
        lambda paths: git.ignored(reader.root, paths),
        request.file,
        whole,
    )
    found = judge_workspace(plan, folder)
    if errors(found):
        raise Stopped(found, ExitCode.INVALID)
    return found


def _read(reader: WorkspaceFiles, path: str) -> bytes | None:
    try:
        return reader.read(path)
    except Rejected:
        return None


def real_path(root: Path, path: str) -> str:
    """Return the path of the file that a path of the workspace leads to, by links."""
    return os.path.relpath(os.path.realpath(root / path), root)
