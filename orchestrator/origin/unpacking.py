"""What unpacks a stream of bytes, told from how it begins: gzip, bzip2, xz or zstd."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import tarfile
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    zstd.ZstdError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    RuntimeError,  # zipfile says so of encrypted members
)
_MAGIC: tuple[tuple[bytes, Callable[[IO[bytes]], object]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"\x28\xb5\x2f\xfd", zstd.open),
)


def unpacker(head: bytes) -> Callable[[IO[bytes]], IO[bytes]] | None:
    """Return what unpacks a stream that begins with `head`, None where it is not packed."""
    found = next((open_ for magic, open_ in _MAGIC if head.startswith(magic)), None)
    return cast("Callable[[IO[bytes]], IO[bytes]] | None", found)
