"""Does a written folder hold what its audit says?"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Place
from orchestrator.core.digest import canonical_json, digest
from orchestrator.emit.audit import audit_faults, read_audit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_HELP = "The folder was changed after it was written: render again."


def folder_faults(folder: Path, records: Sequence[Mapping[str, Any]]) -> list[Diagnostic]:
    """Return E614 for every file of a folder that is not what the records of its whole log say, and for every other."""
    wanted = next((dict(r["emitted"]) for r in records if r["event"] == "patchset" and "emitted" in r), {})
    inner = "".join(f"{canonical_json(record)}\n" for record in records if record["event"] != "run")
    wanted["patchset/audit.jsonl"] = digest(inner.encode())
    return [*_changed(folder, wanted), *_strays(folder, wanted)]


def matrix_faults(folder: Path, records: Sequence[Mapping[str, Any]]) -> list[Diagnostic]:
    """Return what is wrong with the folder of a matrix whose whole log has these records, cell by cell.

    Each cell has its own log, which must be whole, be the one that the matrix's log names, and fit its files.
    """
    cells = [record for record in records if record["event"] == "cell"]
    wanted = next((dict(record["emitted"]) for record in records if record["event"] == "matrix"), {})
    inside = [fault for cell in cells for fault in _cell_faults(folder, cell)]
    below = tuple(f"{cell['folder']}/" for cell in cells)
    return [*_changed(folder, wanted), *inside, *_strays(folder, wanted, below)]


def _changed(folder: Path, wanted: Mapping[str, str]) -> list[Diagnostic]:
    return [fault for name, sha256 in sorted(wanted.items()) if (fault := _differs(folder, name, sha256))]


def _strays(folder: Path, wanted: Mapping[str, str], below: tuple[str, ...] = ()) -> Iterator[Diagnostic]:
    """Yield E614 for every file that the log does not name; what is `below` other folders has logs of its own."""
    known = {*wanted, "audit.jsonl"}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_dir() and name not in known and not name.startswith(below):
            yield Diagnostic("E614", f"{name} is not in the audit", Place(name), help=_HELP)


def _cell_faults(folder: Path, record: Mapping[str, Any]) -> list[Diagnostic]:
    log = f"{record['folder']}/audit.jsonl"
    inner = f"{record['folder']}/patchset/audit.jsonl"
    fault = _differs(folder, inner, record["log"])
    try:
        content = (folder / log).read_bytes()
    except OSError as error:
        return [Diagnostic("E614", f"{log} cannot be read: {error.strerror}", Place(log), help=_HELP)]
    found = audit_faults(log, content)
    if found or fault:
        return [*found, *([fault] if fault else [])]
    return [
        dataclasses.replace(each, message=f"{record['folder']}/{each.message}", place=None)
        for each in folder_faults(folder / record["folder"], read_audit(content))
    ]


def _differs(folder: Path, name: str, sha256: str) -> Diagnostic | None:
    try:
        found = digest((folder / name).read_bytes())
    except OSError as error:
        return Diagnostic("E614", f"{name} cannot be read: {error.strerror}", Place(name), help=_HELP)
    if found != sha256:
        return Diagnostic("E614", f"{name} is not the file that the audit names", Place(name), help=_HELP)
    return None
