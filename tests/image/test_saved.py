"""Images that a real tool saved, in every format, read without it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from orchestrator.origin.image import read_image
from tests.standins.base_image import PACKAGES, Buildah, unique

if TYPE_CHECKING:
    from pathlib import Path

    from tests.image.conftest import BaseImage

pytestmark = pytest.mark.image

ROOTS = {
    "vllm": [
        "/usr/local/corex/lib64/python3/dist-packages/vllm",
        "/usr/local/corex/lib/python3/dist-packages/vllm",
    ]
}
BASE = {
    "vllm/__init__.py": b"",
    "vllm/gone.py": b"VALUE = 'old'\n",
    "vllm/sequence.py": b"VALUE = 'old'\r\n",
    "vllm/folder/__init__.py": b"",
    "vllm/folder/old.py": b"VALUE = 'old'\n",
}
FINAL = {
    "vllm/__init__.py": b"",
    "vllm/sequence.py": b"VALUE = 'new'\r\n",
    "vllm/linked.py": b"VALUE = 'new'\r\n",
    "vllm/hard.py": b"VALUE = 'new'\r\n",
    "vllm/folder/new.py": b"VALUE = 'new'\n",
}


@pytest.fixture(scope="module")
def patched(buildah: Buildah, base_image: BaseImage) -> str:
    """An image with a layer over the base that changes, removes, links and replaces a whole folder."""
    name = unique()
    with buildah.container(base_image(BASE)) as (container, root):
        package = root / PACKAGES / "vllm"
        (package / "gone.py").unlink()
        (package / "sequence.py").write_bytes(FINAL["vllm/sequence.py"])
        (package / "linked.py").symlink_to("sequence.py")
        (package / "hard.py").hardlink_to(package / "sequence.py")
        for file in (package / "folder").iterdir():
            file.unlink()
        (package / "folder").rmdir()
        (package / "folder").mkdir()
        (package / "folder" / "new.py").write_bytes(FINAL["vllm/folder/new.py"])
        buildah("commit", "--quiet", container, name)
    return name


@pytest.mark.parametrize("form", ["oci-archive", "docker-archive", "oci"])
def test_a_saved_image_holds_what_a_container_of_it_shows(
    buildah: Buildah, patched: str, tmp_path: Path, form: str
) -> None:
    saved = tmp_path / "saved"
    buildah("push", "--quiet", patched, f"{form}:{saved}" + (":box:1" if form == "docker-archive" else ""))
    found = read_image(saved, ROOTS)
    assert dict(found.bases["vllm"].tree) == FINAL
    assert set(found.folders["vllm"].values()) == {f"/{PACKAGES}/vllm"}
    assert found.differ["vllm"] == ()


def test_an_exported_file_system_is_read_from_a_pipe(buildah: Buildah, patched: str) -> None:
    with buildah.container(patched) as (_, root):
        command = ["tar", "-C", str(root), "-c", "usr/local", "opt"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            found = read_image(child.stdout, ROOTS)
    assert child.returncode == 0
    assert dict(found.bases["vllm"].tree) == FINAL
