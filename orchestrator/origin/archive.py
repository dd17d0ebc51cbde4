"""A base tree from an archive: tar, compressed or not, or zip; a file or a stream. Nothing is unpacked to disk.

An archive is read once, front to back, so that the output of `docker run … tar -c` can be piped in.
"""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, cast

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.origin.base import DEFAULT_LIMITS, Base, Limits
from orchestrator.origin.headers import Header
from orchestrator.origin.members import Contents, pick
from orchestrator.origin.stream import Counted, TooLarge
from orchestrator.origin.unpacking import DAMAGED, unpacker

MAX_MEMBERS = 250_000  # a hundred times what a package has
MAX_TARGET = 4096  # bytes of a link's target, as Linux limits them


def read_package(
    archive: Path | IO[bytes], package: str, root: str, limits: Limits = DEFAULT_LIMITS
) -> tuple[Base, tuple[Diagnostic, ...]]:
    """Read the package folder `package` out of an archive into a tree `root/...`, byte for byte.

    The folder may lie at any depth; the shallowest that is a package counts. Links are followed inside it. Findings,
    one per file: E305 for a link that leaves it, E306 for a name or link that cannot be read. Raises `Rejected` with
    E304 if the archive is damaged, unsafe, too large or lacks the package.
    """
    if not isinstance(archive, Path):
        return _read(archive, "the archive on stdin", package, root, limits)
    try:
        with archive.open("rb") as stream:
            return _read(stream, f"archive {archive}", package, root, limits)
    except OSError as error:
        message, help_ = f"the archive cannot be read: {error.strerror or error}", "Check the path and its permissions."
        raise Rejected(Diagnostic("E304", message, Place(str(archive)), help=help_)) from None


def _read(
    stream: IO[bytes], source: str, package: str, root: str, limits: Limits
) -> tuple[Base, tuple[Diagnostic, ...]]:
    raw = Counted(stream)
    contents = Contents(PurePosixPath(package).parts, limits)
    try:
        head = raw.peek(512)
        if head.startswith(b"PK"):
            _read_zip(raw, contents, limits)
        else:
            _read_tar(raw, head, contents, limits)
        raw.drain()
    except TooLarge as error:
        help_ = "Pack only the sources, for example with `tar --exclude='*.so' -c`, or name the unpacked folder."
        raise Rejected(Diagnostic("E304", f"{source} unpacks to more than {error} bytes", help=help_)) from None
    except DAMAGED as error:
        message = f"{source} is damaged or no archive: {error or type(error).__name__}"
        help_ = "Give a whole tar, tar.gz, tar.bz2, tar.xz, tar.zst or zip; of a pipe, see what its maker says."
        raise Rejected(Diagnostic("E304", message, help=help_)) from None
    harvest = pick(contents, package, root, source)
    return harvest.base(source, raw.sha256), tuple(harvest.findings)


def _read_tar(raw: Counted, head: bytes, contents: Contents, limits: Limits) -> None:
    unpack = unpacker(head)
    # A plain tar is as large as it looks. A compressed one may not be, so what comes out of it is bounded.
    plain = raw if unpack is None else Counted(unpack(cast("IO[bytes]", raw)), limits.unpacked)
    if not any(plain.peek(512)):
        raise tarfile.ReadError("it is empty")
    with tarfile.open(fileobj=cast("IO[bytes]", plain), mode="r|", errorlevel=1, tarinfo=Header) as tar:
        for number, member in enumerate(tar):
            tar.members = []  # type: ignore[attr-defined] # tarfile would remember every header
            if number >= MAX_MEMBERS:
                raise tarfile.ReadError(f"it has more than {MAX_MEMBERS:,} members")
            if member.issym():
                contents.link(member.name, member.linkname)
            elif member.islnk():
                contents.hard_link(member.name, member.linkname)
            elif member.isreg():
                if contents.wants(member.name, member.size):
                    contents.file(member.name, cast("IO[bytes]", tar.extractfile(member)).read())
            elif not member.isdir():
                contents.special(member.name)
        end = tar.offset
    plain.drain()
    # tarfile takes a bad header, or none, for the end. The real end is at least one block of zeros and nothing else.
    if plain.last_nonzero > end or plain.count < end + tarfile.BLOCKSIZE:
        raise tarfile.ReadError("it is cut off or broken in the middle")


def _read_zip(raw: Counted, contents: Contents, limits: Limits) -> None:
    data = raw.read(limits.unpacked + 1)
    if len(data) > limits.unpacked:
        raise TooLarge(f"{limits.unpacked:,}")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if len(archive.infolist()) > MAX_MEMBERS:
            raise zipfile.BadZipFile(f"it has more than {MAX_MEMBERS:,} members")
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if info.is_dir():
                continue
            if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:  # others unpack without bound
                raise zipfile.BadZipFile("it is packed with a rare method")
            if stat.S_ISLNK(mode):
                contents.link(info.filename, archive.read(info).decode() if info.file_size <= MAX_TARGET else "/")
            elif contents.wants(info.filename, info.file_size):
                contents.file(info.filename, archive.read(info))
