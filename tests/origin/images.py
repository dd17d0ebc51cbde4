"""Images made by hand: layers, and the archives and folders that hold them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Member = bytes | tuple[bytes, str]
"""Content, or the type of another member and its link target."""
FOLDER: Member = (tarfile.DIRTYPE, "")


def link(target: str) -> Member:
    return tarfile.SYMTYPE, target


def hard(target: str) -> Member:
    return tarfile.LNKTYPE, target


def layer(members: Mapping[str, Member] | Sequence[tuple[str, Member]], mode: str = "w") -> bytes:
    """Return the tar of a layer, or of any other tree of files; a pair is a member of another type and its target."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload] # the mode is a parameter
        for name, content in members.items() if hasattr(members, "items") else members:
            member = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                member.type, member.linkname = content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def blob_name(content: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def descriptor(content: bytes, **more: object) -> dict[str, Any]:
    return {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content), **more}


def oci(layers: Sequence[bytes], *, packed: bool = True, platform: str = "amd64", tag: str = "") -> dict[str, bytes]:
    """Return the files of an OCI layout with one image."""
    blobs = [gzip.compress(content) if packed else content for content in layers]
    config = json.dumps({"os": "linux", "architecture": platform}).encode()
    manifest = json.dumps({"config": descriptor(config), "layers": [descriptor(blob) for blob in blobs]}).encode()
    notes = {"annotations": {"org.opencontainers.image.ref.name": tag}} if tag else {}
    index = json.dumps({"manifests": [descriptor(manifest, **notes)]}).encode()
    files = {blob_name(content): content for content in (*blobs, config, manifest)}
    return {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index, **files}


def several(*layouts: dict[str, bytes]) -> dict[str, bytes]:
    """Return one OCI layout with the images of several."""
    entries = [entry for files in layouts for entry in json.loads(files["index.json"])["manifests"]]
    files = {name: content for files in layouts for name, content in files.items()}
    return {**files, "index.json": json.dumps({"manifests": entries}).encode()}


def docker_save(layers: Sequence[bytes]) -> bytes:
    """Return what older `docker save` writes: the manifest behind the layers, a repeated layer as a link."""
    names = [f"{number:064x}/layer.tar" for number in range(len(layers))]
    members: dict[str, Member] = {}
    for number, (name, content) in enumerate(zip(names, layers, strict=True)):
        first = layers.index(content)
        members[name] = content if first == number else link(f"../{names[first]}")
    entry = {"Config": "config.json", "RepoTags": ["box:1"], "Layers": names}
    return layer({**members, "manifest.json": json.dumps([entry]).encode()})


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder and return it."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
