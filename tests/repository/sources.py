"""The repository's own files, as version control sees them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def files(*suffixes: str) -> list[Path]:
    """Return the files of the repository that end so, new ones too, ignored ones not; all of them without suffixes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    found = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in found if path.is_file() and (not suffixes or path.name.endswith(suffixes))]


def name(path: Path) -> str:
    """Return a file's name in the repository."""
    return path.relative_to(ROOT).as_posix()
