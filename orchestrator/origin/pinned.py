"""One pinned file of a package, from the user's cache or, the first time, from the package index."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity
from orchestrator.core.digest import digest
from orchestrator.origin.pip_settings import index_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EQUALITY = frozenset({"==", "==="})


@dataclass(frozen=True)
class Kind:
    """A kind of file that an index has: what it is called, its folder in the cache, the ends of its names.

    A name in the cache has the first of `endings`, whichever of them the index has.
    """

    words: str
    folder: str
    endings: tuple[str, ...]
    advice: str
    """What to do where no index has such a file."""


@dataclass(frozen=True)
class PinnedFile:
    """A verified file: where it lies, its sha256, where it came from; `notices` are warnings on the way."""

    path: Path
    sha256: str
    url: str
    notices: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class _Slot:
    """The place of one version in the cache: the file, and beside it what is known of it."""

    kind: Kind
    name: str
    version: Version
    path: Path

    @property
    def sidecar(self) -> Path:
        """The file that holds sha256 and address of the file."""
        return self.path.with_name(f"{self.path.name}.json")

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return ORCHESTRATOR_CACHE, or `orchestrator` in XDG_CACHE_HOME or in ~/.cache. The folder need not exist."""
    if own := environment.get("ORCHESTRATOR_CACHE"):
        return Path(own).expanduser().absolute()
    shared = Path(environment.get("XDG_CACHE_HOME") or "")
    if shared.is_absolute():  # the XDG specification ignores relative ones
        return shared / "orchestrator"
    if home := environment.get("HOME"):
        return Path(home, ".cache", "orchestrator")
    message = "there is no home folder to keep downloads in"
    raise Rejected(Diagnostic("E306", message, help="Set ORCHESTRATOR_CACHE to a folder."))


def fetch_pinned(  # noqa: PLR0913 - two of them only for messages and tests
    kind: Kind,
    requirement: str,
    cache: Path,
    expected_sha256: str | None,
    *,
    offline: bool,
    environment: Mapping[str, str] | None,
    command: str,
) -> PinnedFile:
    """Return the file of this kind of `NAME==VERSION`, from its folder in the cache if it is there.

    A cached file is used without any network if it has `expected_sha256` or, without that, the digest that its
    sidecar recorded. One that has not is downloaded once more, which a notice says; so the cache never changes
    its mind in silence. `command` is what the user ran, for messages. Raises `Rejected`: E301 not cached and no
    network, E302 a digest differs, E303 not pinned or not on the index, E306 the cache cannot be read or written.
    """
    slot = _slot(kind, requirement, cache)
    try:
        cached = _cached(slot, expected_sha256)
        if isinstance(cached, PinnedFile):
            return cached
        if offline:
            raise Rejected(cached or _missing(slot, command, ("the network was not asked: offline",)))
        slot.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(slot):
            cached = _cached(slot, expected_sha256)  # another process may have been faster
            if isinstance(cached, PinnedFile):
                return cached
            return _refill(slot, cached, expected_sha256, os.environ if environment is None else environment, command)
    except OSError as error:
        message = f"the cache cannot be used: {error.strerror or error}"
        place = Place(str(error.filename or slot.path))
        help_ = "Check its permissions and free space, or set ORCHESTRATOR_CACHE to another folder."
        raise Rejected(Diagnostic("E306", message, place, help=help_)) from None


def _slot(kind: Kind, requirement: str, cache: Path) -> _Slot:
    try:
        parsed = Requirement(requirement)
        (pin,) = parsed.specifier
        version = Version(pin.version)
        pinned = pin.operator in EQUALITY and not parsed.url
    except (InvalidRequirement, InvalidVersion, ValueError):
        pinned = False
    if not pinned:
        message = f"'{requirement}' does not name one version"
        raise Rejected(Diagnostic("E303", message, help="Write NAME==VERSION, for example `vllm==0.6.3`."))
    name = canonicalize_name(parsed.name).replace("-", "_")
    return _Slot(kind, parsed.name, version, cache / kind.folder / f"{name}-{version}{kind.endings[0]}")


def _cached(slot: _Slot, expected: str | None) -> PinnedFile | Diagnostic | None:
    """Return the file if it is the right one, an E302 if it is another, None if there is none."""
    try:
        found = digest(slot.path.read_bytes())
    except FileNotFoundError:
        return None
    known = _recorded(slot)
    wanted = expected or known.get("sha256", found)  # put there by hand: nothing to hold it against but the lock
    if found == wanted:
        return PinnedFile(slot.path, found, known.get("url", slot.path.absolute().as_uri()))
    return _mismatch(slot, "the cached file", wanted, found, f"Delete {slot.path} and run again with network.")


def _recorded(slot: _Slot) -> dict[str, str]:
    try:
        known = json.loads(slot.sidecar.read_bytes())
        return {key: str(known[key]) for key in ("sha256", "url")}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        return {"sha256": "unknown: the record beside it is damaged"}


def _refill(
    slot: _Slot, damaged: Diagnostic | None, expected: str | None, environment: Mapping[str, str], command: str
) -> PinnedFile:
    """Download, verify, then put the record and the file in place, each by one rename."""
    # Only a first run needs it, and it brings an HTTP client.
    from orchestrator.origin.index import download  # noqa: PLC0415 - a cached run need not pay for it

    recorded = _recorded(slot).get("sha256", "") if damaged else ""
    wanted = expected or (recorded if re.fullmatch("[0-9a-f]{64}", recorded) else None)
    prefix = f".{slot.path.name}-"
    for left in slot.path.parent.glob(f"{prefix}*"):  # of a process that was killed: we hold the lock
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=slot.path.parent, prefix=prefix) as folder:
        try:
            path, url = download(slot.kind, slot.name, slot.version, Path(folder), index_settings(environment), wanted)
        except Rejected as rejected:
            raise Rejected(
                [*filter(None, [damaged]), *(_explained(d, slot, command) for d in rejected.diagnostics)]
            ) from None
        found = digest(path.read_bytes())
        if wanted and found != wanted:
            help_ = "Find out which of the two is right; if the new one is, correct the digest where it is pinned."
            raise Rejected([*filter(None, [damaged]), _mismatch(slot, f"what {url} delivers", wanted, found, help_)])
        record = Path(folder, "record")
        record.write_text(json.dumps({"sha256": found, "url": url}) + "\n", encoding="utf-8")
        record.replace(slot.sidecar)  # first: a record without a file is harmless, the reverse is not
        path.replace(slot.path)
    return PinnedFile(slot.path, found, url, _notices(damaged))


def _notices(damaged: Diagnostic | None) -> tuple[Diagnostic, ...]:
    if damaged is None:
        return ()
    help_ = "Nothing to do; if it comes back, look at the disk, or at who writes into the cache."
    message = f"{damaged.message}; it was downloaded again and is right now"
    return (dataclasses.replace(damaged, message=message, help=help_, severity=Severity.WARNING),)


@contextlib.contextmanager
def _locked(slot: _Slot) -> Iterator[None]:
    """Let one process at a time fill a slot; the system releases the lock of one that dies."""
    with slot.path.with_name(f"{slot.path.name}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _mismatch(slot: _Slot, what: str, wanted: str, found: str, help_: str) -> Diagnostic:
    notes = (f"expected sha256 {wanted}", f"found    sha256 {found}")
    message = f"{what} is not the {slot} that is expected"
    return Diagnostic("E302", message, Place(str(slot.path)), notes=notes, help=help_)


def _missing(slot: _Slot, command: str, notes: tuple[str, ...]) -> Diagnostic:
    message = f"`{command}` needs the {slot.kind.words} {slot}, and it is not in the cache"
    help_ = f"Run `{command}` once with network, or put the file at {slot.path}."
    return Diagnostic("E301", message, notes=notes, help=help_)


def _explained(diagnostic: Diagnostic, slot: _Slot, command: str) -> Diagnostic:
    """Say what the failed download was for and what else would do."""
    if diagnostic.code != "E301":
        return diagnostic
    help_ = " ".join(filter(None, [diagnostic.help, _missing(slot, command, ()).help]))
    message = f"`{command}` needs the {slot.kind.words} {slot}: {diagnostic.message}"
    return dataclasses.replace(diagnostic, message=message, help=help_)
