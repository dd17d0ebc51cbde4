"""Digests: sha256 of bytes, of files' names and contents together, and of plain data."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def digest(content: bytes) -> str:
    """Return the sha256 of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_files(files: Iterable[tuple[str, bytes]]) -> str:
    """Return one digest over (path, content) pairs, whatever order they come in."""
    total = hashlib.sha256()
    for path, content in sorted(files):
        total.update(f"{digest(content)}  {path}\n".encode())
    return total.hexdigest()


def canonical_json(data: Any) -> str:  # noqa: ANN401 - plain data of any shape
    """Return `data` as JSON in the one spelling that digests are taken of: sorted keys, no blanks."""
    return json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def digest_data(data: Any) -> str:  # noqa: ANN401 - plain data of any shape
    """Return the digest of plain data (dicts, lists, strings, numbers)."""
    return digest(canonical_json(data).encode())
