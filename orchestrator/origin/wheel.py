"""A wheel: from the workspace's `wheels/` folder, else from cache or index. Nothing is built, nothing installed.

What a wheel is made of stands in PEP 427 and in the specification "Recording installed projects".
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, errors
from orchestrator.core.digest import digest
from orchestrator.origin.archive import read_package
from orchestrator.origin.pinned import Kind, PinnedFile, fetch_pinned
from orchestrator.origin.unpacking import DAMAGED
from orchestrator.spec.pins import wheel_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from orchestrator.origin.workspace import WorkspaceFiles

FOLDER = "wheels"
"""The folder of the workspace that is looked into first."""
MAX_BYTES = 512 * 2**20
MAX_UNPACKED = 2 * 2**30
WHEEL = Kind(
    "pure-Python wheel",
    "wheel",
    ("-py3-none-any.whl", "-py2.py3-none-any.whl"),
    f"Nothing is built here: put a wheel that fits the image into {FOLDER}/, and name it with `source:`.",
)


@dataclass(frozen=True)
class WheelFile:
    """A verified wheel: its bytes, what it is, and the files of its packages that belong into a tree.

    `packages` is package name → path in the tree → bytes; it has only the packages that were asked for.
    """

    name: str
    version: str
    file: str
    content: bytes
    packages: Mapping[str, Mapping[str, bytes]]
    compiled: frozenset[str] = frozenset()
    notices: tuple[Diagnostic, ...] = ()

    @property
    def sha256(self) -> str:
        """The digest of the whole file."""
        return digest(self.content)


def find_in_workspace(files: WorkspaceFiles, name: str, version: str) -> str | None:
    """Return the path of the wheel NAME==VERSION in `wheels/`, None without one; raise `Rejected` (E311) if several."""
    found = []
    for path in files.names(FOLDER, ".whl"):
        try:
            own, stated = wheel_name(path)
        except Rejected:
            continue  # `unclaimed` names it
        if (own, Version(stated)) == (canonicalize_name(name), Version(version)):
            found.append(path)
    if len(found) > 1:
        message = f"there are {len(found)} wheels of {name}=={version}: {', '.join(found)}"
        raise Rejected(Diagnostic("E311", message, help="Say which one with `source:`, or remove the others."))
    return found[0] if found else None


def unclaimed(files: WorkspaceFiles, claimed: Collection[str]) -> tuple[Diagnostic, ...]:
    """Return E311 for every wheel in `wheels/` that is not among `claimed`: it would be taken for installed."""
    help_ = "Remove it, or name it under `wheels:` of a stage."
    return tuple(
        Diagnostic("E311", f"{path} is named by no stage", Place(path), help=help_)
        for path in files.names(FOLDER, ".whl")
        if path not in claimed
    )


def wheel_of_workspace(
    files: WorkspaceFiles, path: str, expected_sha256: str | None, packages: Collection[str]
) -> WheelFile:
    """Return a wheel file of the workspace; raise `Rejected`, E302 if it is not the one that is expected."""
    content = files.read(path, MAX_BYTES)
    found = digest(content)
    if expected_sha256 and found != expected_sha256:
        notes = (f"expected sha256 {expected_sha256}", f"found    sha256 {found}")
        help_ = "If it was changed on purpose, bless it with `orchestrator lock`; else restore it."
        raise Rejected(Diagnostic("E302", f"{path} is not the wheel in the lock", Place(path), help_, notes))
    return read_wheel(PurePosixPath(path).name, content, packages)


def wheel_of_index(  # noqa: PLR0913 - two of them only for messages and tests
    requirement: str,
    cache: Path,
    expected_sha256: str | None,
    packages: Collection[str],
    *,
    offline: bool = False,
    environment: Mapping[str, str] | None = None,
    command: str = "render",
) -> WheelFile:
    """Return the pure-Python wheel of `NAME==VERSION`, from `cache/wheel` if it is there; see `fetch_pinned`."""
    pinned: PinnedFile = fetch_pinned(
        WHEEL, requirement, cache, expected_sha256, offline=offline, environment=environment, command=command
    )
    return read_wheel(pinned.path.name, pinned.path.read_bytes(), packages, pinned.notices)


def read_wheel(file: str, content: bytes, packages: Collection[str], notices: tuple[Diagnostic, ...] = ()) -> WheelFile:
    """Return what a wheel is and holds of `packages`, byte for byte.

    Its list of files, RECORD, must name every file with its digest: pip does not look at these, and a wheel that was
    changed by hand would be installed all the same. Raises `Rejected`: E304 damaged, E310 not a wheel that can be
    used, E305 and E306 as for any archive.
    """
    name, version = wheel_name(file)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _is_sane(archive, file)
            stated = _metadata(archive, file)
            faults = _record_faults(archive, file)
            tops = {entry.partition("/")[0] for entry in archive.namelist()}
        own = (canonicalize_name(stated[0]), Version(stated[1]))
    except (*DAMAGED, csv.Error) as error:
        message = f"{file} is damaged or no wheel: {error or type(error).__name__}"
        raise Rejected(Diagnostic("E304", message, help="Get it anew.")) from None
    if own != (canonicalize_name(name), Version(version)):
        message = f"{file} says inside that it is {stated[0]}=={stated[1]}"
        raise Rejected(Diagnostic("E310", message, help="Give the file the name that it was built with."))
    if faults:
        help_ = "Build the wheel anew: its RECORD must name every file with its digest."
        raise Rejected(Diagnostic("E310", f"{file} is not what its own RECORD says", notes=faults, help=help_))
    held: dict[str, Mapping[str, bytes]] = {}
    compiled: frozenset[str] = frozenset()
    found: list[Diagnostic] = list(notices)
    for package in sorted(tops & set(packages)):
        base, findings = read_package(io.BytesIO(content), package, package)
        held[package] = dict(base.tree)
        compiled |= base.compiled
        found.extend(findings)
    if errors(found):
        raise Rejected(found)
    return WheelFile(stated[0], stated[1], file, content, held, compiled, tuple(found))


_ORDINARY = (0, stat.S_IFREG)  # 0: the tool that made it noted no kind


def _is_sane(archive: zipfile.ZipFile, file: str) -> None:
    size = sum(info.file_size for info in archive.infolist())
    if size > MAX_UNPACKED:
        raise zipfile.BadZipFile(f"it unpacks to {size:,} bytes")
    bad = [n for n in archive.namelist() if n.startswith("/") or ".." in PurePosixPath(n).parts or "\\" in n]
    if bad:
        raise zipfile.BadZipFile(f"{bad[0]!r} names a place outside of {file}")
    kinds = {info.filename: stat.S_IFMT(info.external_attr >> 16) for info in archive.infolist() if not info.is_dir()}
    special = [name for name, kind in kinds.items() if kind not in _ORDINARY]
    if special:
        raise zipfile.BadZipFile(f"{special[0]!r} is not an ordinary file")


def _metadata(archive: zipfile.ZipFile, file: str) -> tuple[str, str]:
    headers = HeaderParser().parsestr(archive.read(_inside(archive, file, "METADATA")).decode("utf-8"))
    name, version = headers.get("Name"), headers.get("Version")
    if not name or not version:
        raise zipfile.BadZipFile("its METADATA has no name or no version")
    return str(name), str(version)


def _inside(archive: zipfile.ZipFile, file: str, name: str) -> str:
    found = [n for n in archive.namelist() if n.count("/") == 1 and n.endswith(f".dist-info/{name}")]
    if len(found) != 1:
        raise zipfile.BadZipFile(f"{file} has {len(found)} files {name}")
    return found[0]


def _record_faults(archive: zipfile.ZipFile, file: str) -> tuple[str, ...]:
    """Return how the files of a wheel differ from its RECORD, a line each, the first ten."""
    record = _inside(archive, file, "RECORD")
    rows = {row[0]: row[1] for row in csv.reader(io.StringIO(archive.read(record).decode("utf-8"))) if len(row) > 1}
    unsigned = {record, f"{record}.jws", f"{record}.p7s"}
    names = [info.filename for info in archive.infolist() if not info.is_dir() and info.filename not in unsigned]
    faults = [f"{name} is in the RECORD, but not there" for name in sorted(set(rows) - set(names) - unsigned)]
    if len(set(names)) < len(names):
        faults.append("a file is there twice")
    for name in names:
        algorithm, _, value = rows.get(name, "").partition("=")
        if algorithm not in {"sha256", "sha384", "sha512"}:
            faults.append(f"{name} has no digest in the RECORD")
            continue
        content = archive.read(name)
        if len(content) != archive.getinfo(name).file_size:
            faults.append(f"{name} has another size than the archive's list says")
        made = hashlib.new(algorithm, content).digest()
        if base64.urlsafe_b64encode(made).decode().rstrip("=") != value.rstrip("="):
            faults.append(f"{name} has another digest than in the RECORD")
    return tuple(faults[:10])
