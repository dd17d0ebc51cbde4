"""Throw-away git repositories: real ones, by the program itself, without the settings of whoever runs the tests."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_ENVIRONMENT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_WHO = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; return what it prints."""
    environment = {**os.environ, **_ENVIRONMENT}
    done = subprocess.run(
        ["git", *_WHO, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path) -> None:
    """Make a folder a repository in which all that it holds is committed."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder)


def commit(folder: Path) -> str:
    """Commit all that a folder holds; return the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x")
    return git(folder, "rev-parse", "HEAD")
