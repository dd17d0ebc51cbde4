"""Which layers an image has, by its manifest: in an OCI layout (folder or archive) or in what `docker save` writes."""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import re
import tarfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.origin.base import MIB, shown_name
from orchestrator.origin.headers import Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

MAX_JSON = 4 * MIB
MAX_MEMBERS = 100_000
MAX_DEPTH = 4  # an index in an index in …
_FIRST = re.compile(
    r"(\./)?(oci-layout|index\.json|manifest\.json|repositories|blobs(/.*)?|[0-9a-f]{64}(/.*|\.\w+)?)/?\Z"
)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")
_HELP = "Save the image again, whole: `docker save`, `podman save`, or `skopeo copy … oci-archive:IMAGE.tar`."
PREFERRED = "linux/amd64"


@dataclass(frozen=True)
class Blob:
    """A layer: its name, packed size and digest where known, and how to open it, `again` if more than once."""

    name: str
    size: int | None
    sha256: str | None
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    again: bool = True


class Store(Protocol):
    """Files by name."""

    def size(self, name: str) -> int | None:
        """Return the size of a file, None if there is no such file."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file that is there."""


class FolderStore:
    """A folder on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def size(self, name: str) -> int | None:
        """Return the size of a file, None if there is no such file."""
        path = self.folder / name
        return path.stat().st_size if path.is_file() else None

    def open(self, name: str) -> IO[bytes]:
        """Open a file that is there."""
        return (self.folder / name).open("rb")


class TarStore:
    """A plain tar that can be read anywhere: its members by name, links among them followed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.files: dict[str, tuple[int, int]] = {}
        self.links: dict[str, str] = {}
        stream.seek(0)
        with tarfile.open(fileobj=stream, mode="r:", errorlevel=1, tarinfo=Header) as tar:
            for number, member in enumerate(tar):
                if number >= MAX_MEMBERS or member.size < 0:
                    raise tarfile.ReadError("it has too many members for an image")
                name = posixpath.normpath(member.name)
                if member.isreg() and not member.issparse():
                    self.files[name] = (member.offset_data, member.size)
                elif member.issym():
                    self.links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
                elif member.islnk():
                    self.links[name] = posixpath.normpath(member.linkname)

    def size(self, name: str) -> int | None:
        """Return the size of a file, None if there is no such file."""
        found = self.files.get(self._real(name))
        return found[1] if found else None

    def open(self, name: str) -> IO[bytes]:
        """Open a member that is there."""
        return cast("IO[bytes]", io.BufferedReader(_Part(self.stream, *self.files[self._real(name)]), MIB))

    def _real(self, name: str) -> str:
        name = posixpath.normpath(name)
        for _ in range(8):
            if name in self.files or name not in self.links:
                break
            name = self.links[name]
        return name


class _Part(io.RawIOBase):
    """A part of a file, read forward."""

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        super().__init__()
        self._stream, self._at, self._end = stream, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever io hands over
        self._stream.seek(self._at)
        part = self._stream.read(min(len(buffer), self._end - self._at))
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def looks_packed(head: bytes) -> bool:
    """Tell from its first block whether a tar is an archive of layers: else it is a file system."""
    try:
        name = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape").name
    except tarfile.HeaderError:
        return False
    return bool(_FIRST.match(name))


def layers_of(store: Store, which: str | None, shown: str) -> list[Blob]:
    """Return the layers of the image in `store`, the oldest first; raise `Rejected` (E304) where that cannot be told.

    `which` picks one of several: a tag, a platform or the beginning of a digest. Without it the one for linux/amd64 is
    taken.
    """
    try:
        if store.size("index.json") is not None:
            return _oci(store, which, shown)
        if store.size("manifest.json") is not None:
            return _docker(store, which, shown)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"{shown}: its manifest cannot be read: {error or type(error).__name__}"
        raise Rejected(Diagnostic("E304", message, help=_HELP)) from None
    help_ = f"{_HELP} A folder with an unpacked package is `--tree ROOT=FOLDER`."
    raise Rejected(Diagnostic("E304", f"{shown} has neither index.json nor manifest.json", help=help_))


@dataclass(frozen=True)
class _Image:
    """One image of several: its manifest's digest, platform and tags."""

    digest: str
    platform: str
    tags: tuple[str, ...]
    descriptor: dict[str, Any]

    def is_called(self, which: str) -> bool:
        return which in self.tags or which == self.platform or self.digest.removeprefix("sha256:").startswith(which)

    def __str__(self) -> str:
        return " ".join([*self.tags, self.platform, self.digest.removeprefix("sha256:")[:12]]).strip()


def _oci(store: Store, which: str | None, shown: str) -> list[Blob]:
    index = _json(store, "index.json")
    image = _chosen(list(_images(store, index, (), 0)), which, shown)
    manifest = _json(store, _path(image.descriptor), image.digest)
    return [_blob(store, _path(layer), layer["digest"], shown) for layer in manifest["layers"]]


def _images(store: Store, index: dict[str, Any], tags: tuple[str, ...], depth: int) -> Iterator[_Image]:
    if depth > MAX_DEPTH:
        raise ValueError("indexes are nested too deep")
    for entry in index["manifests"]:
        notes = entry.get("annotations") or {}
        names = tuple(
            str(notes[key])
            for key in ("org.opencontainers.image.ref.name", "io.containerd.image.name")
            if notes.get(key)
        )
        if notes.get("vnd.docker.reference.type"):
            continue  # an attestation, no image
        if store.size(_path(entry)) is None:
            continue  # another platform, which was not saved
        found = _json(store, _path(entry), entry["digest"])
        if "manifests" in found:
            yield from _images(store, found, names or tags, depth + 1)
        else:
            yield _Image(entry["digest"], _platform(store, entry, found), names or tags, entry)


def _platform(store: Store, entry: dict[str, Any], manifest: dict[str, Any]) -> str:
    platform = entry.get("platform")
    if not platform:
        config = manifest.get("config") or {}
        platform = _json(store, _path(config)) if config and store.size(_path(config)) is not None else {}
    return "/".join(str(platform[key]) for key in ("os", "architecture", "variant") if platform.get(key))


def _docker(store: Store, which: str | None, shown: str) -> list[Blob]:
    images = [
        _Image(str(entry["Config"]), "", tuple(entry.get("RepoTags") or ()), entry)
        for entry in cast("list[dict[str, Any]]", _json(store, "manifest.json"))
    ]
    image = _chosen(images, which, shown)
    return [_blob(store, str(name), None, shown) for name in image.descriptor["Layers"]]


def _chosen(images: list[_Image], which: str | None, shown: str) -> _Image:
    """Return the one image that is meant."""
    found = list({image.digest: image for image in images}.values())
    if which is not None:
        found = [image for image in images if image.is_called(which)]
        found = list({image.digest: image for image in found}.values())
    if len(found) > 1:
        preferred = [image for image in found if image.platform == PREFERRED]
        found = preferred if len(preferred) == 1 else found
    if len(found) == 1:
        return found[0]
    notes = tuple(str(image) for image in (found or images)[:20])
    message = f"{shown} holds {len(images)} images" if found or which is None else f"{shown} has no image '{which}'"
    help_ = "Say which with `--which`: a tag, a platform such as linux/amd64, or the beginning of a digest."
    raise Rejected(Diagnostic("E304", message, notes=notes, help=help_))


def _path(descriptor: dict[str, Any]) -> str:
    found = _DIGEST.match(descriptor["digest"])
    if found is None:
        raise ValueError(f"'{shown_name(str(descriptor['digest']))}' is no sha256 digest")
    return f"blobs/sha256/{found.group(1)}"


def _blob(store: Store, name: str, digest: str | None, shown: str) -> Blob:
    size = store.size(name)
    if size is None or posixpath.isabs(name) or ".." in name.split("/"):
        message = f"{shown} lacks the layer {shown_name(name)}"
        raise Rejected(Diagnostic("E304", message, Place(shown_name(name)), help=_HELP))
    return Blob(name, size, digest.removeprefix("sha256:") if digest else None, lambda: store.open(name))


def _json(store: Store, name: str, digest: str | None = None) -> Any:  # noqa: ANN401 - JSON of any shape
    size = store.size(name)
    if size is None or size > MAX_JSON:
        raise ValueError(f"{name} is missing" if size is None else f"{name} is too large")
    with store.open(name) as stream:
        content = stream.read()
    if digest is not None and f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        raise ValueError(f"{name} is not what its digest says")
    return json.loads(content)
