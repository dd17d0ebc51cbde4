"""Does a written folder hold what its audit says?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Place
from orchestrator.core.digest import canonical_json, digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_HELP = "The folder was changed after it was written: render again."


def folder_faults(folder: Path, records: Sequence[Mapping[str, Any]]) -> list[Diagnostic]:
    """Return E614 for every file of a folder that is not what the records of its whole log say, and for every other."""
    wanted = next((dict(r["emitted"]) for r in records if r["event"] == "patchset" and "emitted" in r), {})
    inner = "".join(f"{canonical_json(record)}\n" for record in records if record["event"] != "run")
    wanted["patchset/audit.jsonl"] = digest(inner.encode())
    found = [fault for name, sha256 in sorted(wanted.items()) if (fault := _differs(folder, name, sha256))]
    known = {*wanted, "audit.jsonl"}
    others = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir())
    return [
        *found,
        *(
            Diagnostic("E614", f"{name} is not in the audit", Place(name), help=_HELP)
            for name in others
            if name not in known
        ),
    ]


def _differs(folder: Path, name: str, sha256: str) -> Diagnostic | None:
    try:
        found = digest((folder / name).read_bytes())
    except OSError as error:
        return Diagnostic("E614", f"{name} cannot be read: {error.strerror}", Place(name), help=_HELP)
    if found != sha256:
        return Diagnostic("E614", f"{name} is not the file that the audit names", Place(name), help=_HELP)
    return None
