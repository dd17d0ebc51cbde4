"""What git knows of a folder, asked of the program itself. Nothing is written, no program of a configuration is run."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECONDS = 30
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.quotePath=false")
_NO_REPOSITORY = 128
WORKING_TREE = ""
"""In place of a commit: the files as they lie in the folder."""


@dataclass(frozen=True)
class _Answer:
    status: int
    out: bytes
    said: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset(os.fsdecode(name) for name in self.out.split(b"\0") if name)


def _ask(folder: Path, *arguments: str, given: bytes = b"") -> _Answer:
    """Run git in a folder; a git that is not there or does not end answers as one without a repository."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        child = subprocess.run(  # noqa: S603 - git by its name; what a user wrote stands behind --end-of-options
            [*_GIT, *arguments],
            cwd=folder,
            env=environment,
            input=given,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return _Answer(_NO_REPOSITORY, b"", "there is no program `git`")
    except (OSError, ValueError) as error:
        return _Answer(_NO_REPOSITORY, b"", str(error))
    except subprocess.TimeoutExpired:
        return _Answer(_NO_REPOSITORY, b"", f"git did not answer within {SECONDS} s")
    lines = child.stderr.decode("utf-8", errors="replace").strip().splitlines()
    return _Answer(child.returncode, child.stdout, lines[0].removeprefix("fatal: ") if lines else "")


def tracked(folder: Path) -> frozenset[str] | None:
    """Return the files below a folder that git tracks, by path from it; None without git or a repository."""
    answer = _ask(folder, "ls-files", "-z", "--cached")
    return None if answer.status else answer.names


def ignored(folder: Path, paths: Sequence[str]) -> frozenset[str]:
    """Return those of `paths` that git ignores and does not track; none without git or a repository."""
    if not paths:
        return frozenset()
    given = b"\0".join(os.fsencode(path) for path in paths)
    return _ask(folder, "check-ignore", "-z", "--stdin", given=given).names


def left_out(folder: Path) -> frozenset[str]:
    """Return what git ignores below a folder, folders as a whole; nothing without git or a repository."""
    arguments = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    return frozenset(name.rstrip("/") for name in _ask(folder, *arguments).names)


def span(folder: Path, revisions: str) -> tuple[str, str]:
    """Return the two commits that `REV`, `A..B` or `A...B` means; the second is `WORKING_TREE` for `REV` alone.

    Raises `Rejected`: E132 without git or a repository, E133 for what is no revision of it.
    """
    if _ask(folder, "rev-parse", "--is-inside-work-tree").out.strip() != b"true":
        said = _ask(folder, "rev-parse", "--show-toplevel").said or "git has no working tree here"
        help_ = "Run this in a checkout; without one there is nothing to compare with."
        raise Rejected(Diagnostic("E132", f"git cannot be asked about {folder}: {said}", help=help_))
    first, dots, last = revisions.partition("...") if "..." in revisions else revisions.partition("..")
    if not dots:
        return _commit(folder, first), WORKING_TREE
    old, new = _commit(folder, first or "HEAD"), _commit(folder, last or "HEAD")
    if dots == "...":
        base = _ask(folder, "merge-base", old, new)
        if base.status:
            message = f"{first or 'HEAD'} and {last or 'HEAD'} have no common ancestor"
            raise Rejected(Diagnostic("E133", message, help="Name them with two dots: A..B."))
        old = base.out.decode().strip()
    return old, new


def _commit(folder: Path, revision: str) -> str:
    answer = _ask(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if answer.status or not answer.out.strip():
        message = f"'{revision}' is no commit of this repository"
        help_ = "Name a commit, a branch or a tag; a shallow clone has only the newest commits."
        raise Rejected(Diagnostic("E133", message, help=help_))
    return answer.out.decode().strip()


def changed(folder: Path, old: str, new: str) -> frozenset[str]:
    """Return the files below a folder that differ between two commits, by path from it.

    With `WORKING_TREE` as the second, files that git neither tracks nor ignores count as new. A file that was moved
    is there under both names. Raises `Rejected` (E132) where git fails.
    """
    options = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--relative")
    answer = _ask(folder, "diff", *options, old, *([new] if new else []), "--", ".")
    if answer.status:
        message = f"git cannot compare {old[:12]} with {new[:12] or 'the working tree'}: {answer.said}"
        raise Rejected(Diagnostic("E132", message, help="Try the same `git diff` by hand."))
    if new:
        return answer.names
    return answer.names | _ask(folder, "ls-files", "-z", "--others", "--exclude-standard").names


def content(folder: Path, commit: str, path: str) -> bytes | None:
    """Return a file, named by its path from a folder, as it is in a commit; None where the commit has none."""
    answer = _ask(folder, "cat-file", "blob", f"{commit}:./{path}")
    return None if answer.status else answer.out
