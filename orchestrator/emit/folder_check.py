"""Does a written folder hold what its audit says?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Place
from orchestrator.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_HELP = "The folder was changed after it was written: render again."


def folder_faults(folder: Path, records: Sequence[Mapping[str, Any]]) -> list[Diagnostic]:
    """Return E614 for every artefact, overlay file or manifest that is not what the audit's records say."""
    return [*_artefacts(folder, records), *_overlay(folder, records), *_manifest(folder, records)]


def _artefacts(folder: Path, records: Sequence[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    for record in records:
        if record["event"] == "artefact":
            yield from _differs(folder, record["name"], record["sha256"])


def _overlay(folder: Path, records: Sequence[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    final: dict[str, str] = {}
    for record in records:
        if record["event"] == "stage":
            final.update({file["path"]: file["after"] for file in record["files"]})
    root = folder / "patchset" / "overlay"
    for path, sha256 in sorted(final.items()):
        yield from _differs(folder, f"patchset/overlay/{path}", sha256)
    for file in sorted(root.rglob("*")) if root.is_dir() else ():
        path = file.relative_to(root).as_posix()
        if file.is_file() and path not in final:
            yield Diagnostic("E614", f"patchset/overlay/{path} is in no stage's record", help=_HELP)


def _differs(folder: Path, name: str, sha256: str) -> Iterator[Diagnostic]:
    try:
        found = digest((folder / name).read_bytes())
    except OSError as error:
        yield Diagnostic("E614", f"{name} cannot be read: {error.strerror}", Place(name), help=_HELP)
        return
    if found != sha256:
        yield Diagnostic("E614", f"{name} is not the file that the audit names", Place(name), help=_HELP)


def _manifest(folder: Path, records: Sequence[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    wanted = next((r["patchset_digest"] for r in records if r["event"] == "patchset"), None)
    name = "patchset/manifest.json"
    try:
        found = json.loads((folder / name).read_bytes())["patchset"]
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if found != wanted:
        yield Diagnostic("E614", f"{name} belongs to another patch set than the audit", Place(name), help=_HELP)
