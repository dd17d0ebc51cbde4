"""Package folders out of an image, without a daemon. Nothing is unpacked but what is read; nothing is executed.

It may be an OCI layout, an archive of one, what `docker save` writes, or a tar of the whole file system such as
`docker export` writes.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity
from orchestrator.origin.base import DEFAULT_LIMITS, MIB, Base, Harvest, Limits, shown_name
from orchestrator.origin.headers import MAX_HEADER, Header
from orchestrator.origin.layers import FOLDER, SPECIAL, File, Folder, Layer, Layers, Link, Wanted, plain_name
from orchestrator.origin.packed import Blob, FolderStore, TarStore, layers_of, looks_packed
from orchestrator.origin.stream import Counted, TooLarge
from orchestrator.origin.unpacking import DAMAGED, unpacker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

GIB = 2**30
MAX_LAYER = 128 * GIB
MAX_RATIO = 300  # honest layers are a tenth of it; gzip cannot pass 1,032
PATCHSET, AUDIT = "opt/patchset", "audit.jsonl"
_ROUNDS = 3
_HELP = "Give an OCI layout or archive, what `docker save` writes, or pipe `docker export CONTAINER` into `--image -`."


@dataclass(frozen=True)
class InImage:
    """What an image has of the package roots.

    `bases` is root → its tree; `folders` is root → each spelling that exists → the real folder; `differ` names, for a
    root with two folders, the files in which they differ. `audit` is the log in /opt/patchset. `layers` is
    how many were read, and how many there are.
    """

    bases: Mapping[str, Base]
    folders: Mapping[str, Mapping[str, str]]
    differ: Mapping[str, tuple[str, ...]]
    audit: bytes | None
    layers: tuple[int, int]
    findings: tuple[Diagnostic, ...] = ()


def read_image(
    archive: Path | IO[bytes],
    roots: Mapping[str, Iterable[str]],
    which: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> InImage:
    """Read package roots (name → the absolute paths it may have) out of an image.

    `which` picks one of several images: a tag, a platform or the beginning of a digest. Raises `Rejected` with E304 if
    the image is damaged, unsafe or too large, lacks every root, or holds several images and none is picked.
    """
    shown = f"image {archive}" if isinstance(archive, Path) else "the image on stdin"
    spellings = {root: tuple(path.strip("/") for path in paths) for root, paths in roots.items()}
    try:
        if not isinstance(archive, Path):
            return _from_stream(archive, shown, spellings, which, limits)
        if archive.is_dir():
            return _from_layers(layers_of(FolderStore(archive), which, shown), shown, spellings, limits)
        with archive.open("rb") as stream:
            return _from_file(stream, shown, spellings, which, limits)
    except TooLarge as error:
        help_ = "Is this the right image? An honest layer does not unpack to so much."
        raise Rejected(Diagnostic("E304", f"{shown} has a layer of more than {error} bytes", help=help_)) from None
    except DAMAGED as error:
        what = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        raise Rejected(Diagnostic("E304", f"{shown} is damaged or no image: {what}", help=_HELP)) from None


def _from_stream(  # noqa: PLR0913, PLR0917 - what `read_image` was given, and the size where it is known
    stream: IO[bytes],
    shown: str,
    spellings: Mapping[str, tuple[str, ...]],
    which: str | None,
    limits: Limits,
    size: int | None = None,
) -> InImage:
    """Read what can be read once: a file system front to back; an archive of layers goes to disk first."""
    ahead = Counted(stream)
    unpack = unpacker(ahead.peek(tarfile.BLOCKSIZE))
    plain = ahead if unpack is None else Counted(unpack(cast("IO[bytes]", ahead)), _bound(size))
    if not looks_packed(plain.peek(tarfile.BLOCKSIZE)):
        return _from_layers([_whole(cast("IO[bytes]", plain))], shown, spellings, limits)
    with tempfile.TemporaryFile() as copy:
        while part := plain.read(MIB):
            copy.write(part)
        ahead.drain()
        return _from_layers(layers_of(TarStore(copy), which, shown), shown, spellings, limits)


def _from_file(
    stream: IO[bytes], shown: str, spellings: Mapping[str, tuple[str, ...]], which: str | None, limits: Limits
) -> InImage:
    head = stream.read(tarfile.BLOCKSIZE)
    stream.seek(0)
    if unpack := unpacker(head):
        packed = looks_packed(unpack(stream).read(tarfile.BLOCKSIZE))
        stream.seek(0)
        if packed:  # layers are read out of order, so it is unpacked first
            return _from_stream(stream, shown, spellings, which, limits, os.fstat(stream.fileno()).st_size)
    elif looks_packed(head):
        return _from_layers(layers_of(TarStore(stream), which, shown), shown, spellings, limits)
    return _from_layers([_whole(stream, again=True)], shown, spellings, limits)


def _whole(stream: IO[bytes], *, again: bool = False) -> Blob:
    """Return a tar of a whole file system as the only layer."""

    def open_() -> AbstractContextManager[IO[bytes]]:
        if again:
            stream.seek(0)
        return contextlib.nullcontext(stream)

    return Blob("the file system", None, None, open_, again=again)


def _from_layers(blobs: list[Blob], shown: str, spellings: Mapping[str, tuple[str, ...]], limits: Limits) -> InImage:
    """Read the layers, newest first; once more with a wider net where a link leads to what was not kept."""
    names = frozenset(path.rpartition("/")[2] for paths in spellings.values() for path in paths)
    wanted = Wanted(names, frozenset({f"{PATCHSET}/{AUDIT}"}), limits)
    for number in range(_ROUNDS):
        layers, count = _read(blobs, wanted, spellings)
        look = _Look(layers, spellings, wanted)
        found = look.image(shown, (count, len(blobs)))
        again = all(blob.again for blob in blobs) and number < _ROUNDS - 1
        if not look.missing:
            return found
        if not again:
            break
        wanted = Wanted(wanted.names, wanted.paths | look.missing, limits)
    first = min(look.missing)
    message = f"{shown}: a package has a link to /{shown_name(first)}, which is read only from a file, not from a pipe"
    raise Rejected(Diagnostic("E304", message, help="Write the image to a file, and name that."))


def _read(blobs: list[Blob], wanted: Wanted, spellings: Mapping[str, tuple[str, ...]]) -> tuple[Layers, int]:
    layers = Layers()
    paths = [path for paths in spellings.values() for path in paths]
    count = 0
    for blob in reversed(blobs):
        layers.add(_layer(blob, wanted))
        count += 1
        if all(layers.settled(path) for path in paths):
            break
    layers.rehome()
    return layers, count


def _layer(blob: Blob, wanted: Wanted) -> Layer:
    """Read one layer, front to back, and hold it against its digest."""
    with blob.open() as stream:
        return _layer_of(Counted(stream), blob, wanted)


def _bound(packed: int | None) -> int:
    """Return how many bytes may come out of something packed of that size."""
    return MAX_LAYER if packed is None else min(MAX_LAYER, max(GIB, MAX_RATIO * packed))


def _layer_of(raw: Counted, blob: Blob, wanted: Wanted) -> Layer:
    head = raw.peek(tarfile.BLOCKSIZE)
    unpack = unpacker(head)
    plain = raw if unpack is None else Counted(unpack(cast("IO[bytes]", raw)), _bound(blob.size))
    layer = Layer(wanted)
    with tarfile.open(fileobj=cast("IO[bytes]", plain), mode="r|", errorlevel=1, tarinfo=Header) as tar:
        for member in tar:
            _take(tar, member, layer)
            layer.bounded()
            tar.members = []  # type: ignore[attr-defined] # tarfile would remember every header
        end = tar.offset
    plain.drain()
    if plain.last_nonzero > end or plain.count < end + tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f"{blob.name} is cut off or broken in the middle")
    raw.drain()
    if blob.sha256 is not None and raw.sha256 != blob.sha256:
        raise tarfile.ReadError(f"{blob.name} is not what its digest says")
    return layer


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, layer: Layer) -> None:
    name = plain_name(member.name)
    if not name or layer.marks(name):
        return
    if member.isdir():
        layer.entries[name] = FOLDER
    elif member.issym():
        layer.entries[name] = Link(member.linkname[:MAX_HEADER])
    elif member.islnk():
        layer.hard_link(name, plain_name(member.linkname.lstrip("/")))
    elif not member.isreg():
        layer.entries[name] = SPECIAL
    elif layer.wanted.reads(name, member.size):
        layer.file(name, member.size, cast("IO[bytes]", tar.extractfile(member)).read())
    else:
        layer.file(name, member.size, None)


@dataclass
class _Look:
    """Reads the package roots out of the merged layers; `missing` are names whose contents were not kept."""

    layers: Layers
    spellings: Mapping[str, tuple[str, ...]]
    wanted: Wanted
    missing: set[str] = field(default_factory=set)

    def image(self, shown: str, count: tuple[int, int]) -> InImage:
        """Return what is there; raise `Rejected` (E304) where no root is."""
        bases: dict[str, Base] = {}
        folders: dict[str, dict[str, str]] = {}
        differ: dict[str, tuple[str, ...]] = {}
        findings: list[Diagnostic] = []
        for root, paths in self.spellings.items():
            real = {path: r for path in paths if (r := self.layers.resolve(path)) and self.layers.is_folder(r)}
            folders[root] = {f"/{path}": f"/{r}" for path, r in real.items()}
            found = [self.harvest(folder, root) for folder in dict.fromkeys(real.values())]
            if found:
                where = f"{shown}, {', '.join(dict.fromkeys(folders[root].values()))}"
                bases[root] = found[0].base(where, None)
                findings += [finding for harvest in found for finding in harvest.findings]
            differ[root] = tuple(sorted({p for other in found[1:] for p in _different(found[0].files, other.files)}))
        if not bases:
            tried = tuple(f"/{path}" for paths in self.spellings.values() for path in paths)
            message = f"{shown} has none of the package roots of the target"
            help_ = "Correct `roots:` of the target, or name the right image."
            raise Rejected(Diagnostic("E304", message, notes=("looked for:", *tried), help=help_))
        return InImage(bases, folders, differ, self.audit(), count, tuple(findings))

    def audit(self) -> bytes | None:
        """Return the log that the image brings."""
        entry = self.layers.entries.get(self.layers.resolve(f"{PATCHSET}/{AUDIT}") or "")
        return entry.content if isinstance(entry, File) else None

    def harvest(self, real: str, root: str) -> Harvest:
        """Return the files of a real folder as the tree `root/...`."""
        if f"{real}/x" not in self.wanted:
            self.missing.add(real)
        harvest = Harvest(self.wanted.limits)
        self.folder(real, root, (), harvest)
        return harvest

    def folder(self, real: str, shown: str, above: tuple[str, ...], harvest: Harvest) -> None:
        """Read a folder; links are followed wherever they lead in the image."""
        if harvest.enters(real, shown, above):
            for name in self.layers.inside(real):
                self.entry(name, f"{shown}/{name.rpartition('/')[2]}", (*above, real), harvest)

    def entry(self, name: str, shown: str, above: tuple[str, ...], harvest: Harvest) -> None:
        """Read one entry of a folder: descend, follow, keep or name it."""
        real = self.layers.resolve(name)
        entry = self.layers.entries.get(real) if real is not None else None
        if real is not None and (isinstance(entry, Folder) or (entry is None and self.layers.inside(real))):
            self.folder(real, shown, above, harvest)
        elif isinstance(entry, File):
            if harvest.wants(shown, entry.size):
                if entry.content is None:
                    self.missing.add(entry.name)
                harvest.keep(shown, entry.content or b"")
        elif entry is None:
            harvest.findings.append(_dangling(shown))
        else:
            harvest.left_out.add(shown)


def _different(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> set[str]:
    return {path for path in {*one, *other} if one.get(path) != other.get(path)}


def _dangling(shown: str) -> Diagnostic:
    message = "this link points to nothing, so it is left out"
    return Diagnostic("E306", message, Place(shown_name(shown)), help="Remove it.", severity=Severity.WARNING)
