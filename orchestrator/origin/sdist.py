"""A pinned source distribution, from the user's cache or, the first time, from the package index."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.origin.pinned import Kind, PinnedFile, cache_folder, fetch_pinned
from orchestrator.origin.pip_settings import index_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["SDIST", "cache_folder", "fetch_sdist", "releases"]

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


def releases(
    name: str, cache: Path, *, offline: bool = False, environment: Mapping[str, str] | None = None
) -> dict[Version, bool]:
    """Return the releases of a package on the index → whether there is a source distribution; offline, the cache's.

    Raises `Rejected`: E301 no source answers, or offline and nothing is cached; E303 no source has the package.
    """
    if not offline:
        from orchestrator.origin.index import listed  # noqa: PLC0415 - it brings an HTTP client

        return listed(SDIST, name, index_settings(os.environ if environment is None else environment))
    stem = canonicalize_name(name).replace("-", "_")
    found = {}
    for path in cache.glob(f"{SDIST.folder}/{stem}-*{SDIST.endings[0]}"):
        try:
            found[Version(path.name.removeprefix(f"{stem}-").removesuffix(SDIST.endings[0]))] = True
        except InvalidVersion:
            continue
    if not found:
        message = f"no {SDIST.words} of {name} is in the cache, and the network was not asked: offline"
        raise Rejected(Diagnostic("E301", message, help="Run once with network, or name a tree by --tree."))
    return found
