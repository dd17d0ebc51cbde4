"""Tiny wheels, made on the spot with all that a real one has: METADATA, WHEEL and a RECORD with digests."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EPOCH = (1980, 1, 1, 0, 0, 0)


def wheel_file(name: str, version: str, tag: str = "py3-none-any") -> str:
    """Return the file name of a wheel."""
    return f"{name}-{version}-{tag}.whl"


def wheel(
    name: str, version: str, files: Mapping[str, bytes], *, requires: str = "", tag: str = "py3-none-any"
) -> bytes:
    """Return a wheel with these files (path in site-packages → bytes), the same bytes each time."""
    members = {**files, **_facts(name, version, requires, tag)}
    record = f"{name}-{version}.dist-info/RECORD"
    members[record] = _record(members, record)
    return zipped(members)


def installed(name: str, version: str, files: Mapping[str, bytes], *, requires: str = "") -> dict[str, bytes]:
    """Return a distribution as an installer leaves it: path in site-packages → bytes."""
    members = {**files, **_facts(name, version, requires, "py3-none-any")}
    members[f"{name}-{version}.dist-info/INSTALLER"] = b"pip\n"
    record = f"{name}-{version}.dist-info/RECORD"
    return {**members, record: _record(members, record)}


def zipped(members: Mapping[str, bytes]) -> bytes:
    """Return a zip archive of these members in this order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(zipfile.ZipInfo(path, EPOCH), content)
    return packed.getvalue()


def unzipped(content: bytes) -> dict[str, bytes]:
    """Return the members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {path: archive.read(path) for path in archive.namelist()}


def _facts(name: str, version: str, requires: str, tag: str) -> dict[str, bytes]:
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    return {
        f"{name}-{version}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        ).encode(),
        f"{name}-{version}.dist-info/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
        ).encode(),
    }


def _record(members: Mapping[str, bytes], record: str) -> bytes:
    lines = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in members.items()]
    return "\n".join([*lines, f"{record},,", ""]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
