"""A patch set with a source to compile, built for real: the compiler runs in the image, and its status counts.

The compiler is a script, since the small Debian has none; real ones are in `tests/emit/test_patchset_builds.py`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.digest import digest
from orchestrator.emit.manifest import BuildEntry, Manifest, Step
from tests.image.test_image import BASE, PROGRAM, REAL, SPELLINGS, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.image.conftest import BaseImage
    from tests.standins.base_image import Buildah

    Snapshot = Callable[[Path], dict[str, tuple[object, ...]]]

pytestmark = pytest.mark.image

COMPILER = "/usr/local/bin/stand-in"
WORKS = '#!/bin/sh\nset -e\necho "compiled for $1" > "$4"\ncat "$2" >> "$4"\n'
FAILS = '#!/bin/sh\necho half > "$4"\necho "$2: no such word" >&2\nexit 2\n'
FINAL = {**BASE, "vllm/kernel.cu": b"kernel\n"}


def lay(folder: Path, image: str, python: str, render: Callable[..., bytes]) -> Path:
    """Write the build folder of a patch set that brings a source and has it compiled."""
    entry = BuildEntry("compiled", "vllm", "kernel.cu", "kernel.so", (COMPILER, "a device"))
    steps = [Step("compiled", "applied", FINAL, frozenset({"vllm/kernel.cu"}), builds=(entry,))]
    manifest = Manifest.of("demo", python, {"vllm": SPELLINGS}, BASE, steps)
    digest_ = manifest.patchset
    values = {"image": image, "labels": {}, "interpreter": PROGRAM[0], "patchset_digest": digest_}
    files = {
        **manifest.payload(FINAL, b"{}\n"),
        "Dockerfile": render("Dockerfile.j2", **values),
        ".dockerignore": render("dockerignore.j2"),
    }
    write(folder, files, own_modes=True)
    return folder


def with_compiler(buildah: Buildah, base: str, text: str) -> str:
    """Return a base image that has the stand-in for a compiler."""
    name = f"{base}-compiler-{digest(text.encode())[:8]}"
    with buildah.container(base) as (container, root):
        path = root / COMPILER[1:]
        path.write_text(text)
        path.chmod(0o755)
        buildah("commit", "--quiet", "--disable-compression", container, name)
    return name


@pytest.fixture(scope="module")
def base(base_image: BaseImage) -> str:
    return base_image(BASE)


@pytest.fixture(scope="module")
def working(buildah: Buildah, base: str) -> str:
    """A base image whose compiler works."""
    return with_compiler(buildah, base, WORKS)


@pytest.fixture
def context(working: str, python_version: str, rendered: Callable[..., bytes], tmp_path: Path) -> Path:
    """The build folder for that image."""
    return lay(tmp_path, working, python_version, rendered)


def test_a_source_is_compiled_in_the_image_and_its_digest_is_kept_there(
    buildah: Buildah, working: str, context: Path, looked_at: Snapshot
) -> None:
    image = working
    with buildah.container(image) as (_, root):
        before = looked_at(root)
    built, _ = buildah.build(context)
    with buildah.container(built) as (container, root):
        after = looked_at(root)
        made = (root / REAL / "vllm/kernel.so").read_bytes()
        record = json.loads((root / "opt/patchset/installed.json").read_text())
        told = buildah.run_in(container, [*PROGRAM, "verify", "--json"], user="nobody")
        (root / REAL / "vllm/kernel.so").write_bytes(b"another")
        changed = buildah.run_in(container, [*PROGRAM, "verify"], user="nobody")
    assert made == b"compiled for a device\nkernel\n"
    assert [build["sha256"] for build in record["builds"]] == [digest(made)]
    assert told.returncode == 0, told.stdout + told.stderr
    assert [build["state"] for build in json.loads(told.stdout)["builds"]] == ["applied"]
    assert changed.returncode == 4
    assert "what was compiled here has" in changed.stdout
    new = {path for path in after if path not in before and not path.startswith("opt/patchset")}
    assert new == {f"{REAL}/vllm/kernel.cu", f"{REAL}/vllm/kernel.so"}, "the compiler leaves nothing else"
    assert after[f"{REAL}/vllm/kernel.so"][:3] == before[f"{REAL}/vllm/__init__.py"][:3]


def test_a_compiler_that_fails_fails_the_build(
    buildah: Buildah, base: str, python_version: str, rendered: Callable[..., bytes], tmp_path: Path
) -> None:
    image = with_compiler(buildah, base, FAILS)
    _, done = buildah.build(lay(tmp_path, image, python_version, rendered), check=False)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert f"{COMPILER} ended with status 2" in said
    assert "kernel.cu: no such word" in said


def test_a_compiler_that_the_image_does_not_have_fails_the_build(
    buildah: Buildah, base: str, python_version: str, rendered: Callable[..., bytes], tmp_path: Path
) -> None:
    _, done = buildah.build(lay(tmp_path, base, python_version, rendered), check=False)
    assert done.returncode != 0
    assert f"patchset: error: BUILD {COMPILER}: is not in this image" in done.stdout + done.stderr
