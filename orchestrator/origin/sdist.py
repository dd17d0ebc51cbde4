"""A pinned source distribution, from the user's cache or, the first time, from the package index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.origin.pinned import Kind, PinnedFile, cache_folder, fetch_pinned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["SDIST", "cache_folder", "fetch_sdist"]

SDIST = Kind(
    "source distribution",
    "sdist",
    (".tar.gz",),  # its one format: PEP 625
    "Correct the name, or add an index that has it: PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS.",
)


def fetch_sdist(  # noqa: PLR0913 - two of them only for messages and tests
    requirement: str,
    cache: Path,
    expected_sha256: str | None,
    offline: bool = False,  # noqa: FBT001, FBT002 - the command line's flag, handed on by name
    *,
    environment: Mapping[str, str] | None = None,
    command: str = "render",
) -> PinnedFile:
    """Return the source distribution `NAME==VERSION`, from `cache/sdist` if it is there; see `fetch_pinned`."""
    return fetch_pinned(
        SDIST, requirement, cache, expected_sha256, offline=offline, environment=environment, command=command
    )
