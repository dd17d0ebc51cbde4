"""Real images without a daemon: a small Debian made once and cached, vendor-like bases on it, and a build tool.

`base_image(tree)` makes a base image that has `tree` as its installed package; `buildah` builds, runs in and looks
into images. Everything lives in one cache folder, under a lock, and all but the Debian is removed at the end.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tests.standins.base_image import DEBIAN, Buildah, ensure_debian, make_base, unique

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TEMPLATES = Path(__file__).parents[2] / "templates"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a builder where there is none, and say why; in CI a missing tool is a failure."""
    lacking = [tool for tool in ("buildah", "debootstrap") if shutil.which(tool) is None]
    if os.geteuid() != 0:
        lacking.append("root")
    if lacking and os.environ.get("CI") != "true":
        for item in items:
            if item.get_closest_marker("image"):
                item.add_marker(pytest.mark.skip(reason=f"building images needs {', '.join(lacking)}"))


@pytest.fixture(scope="session")
def buildah() -> Iterator[Buildah]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orchestrator-tests"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tool = Buildah(cache / "containers")
        tool.clean()  # what a killed run left
        ensure_debian(tool, cache)
        yield tool
        tool.clean()


class BaseImage(Protocol):
    """What the fixture `base_image` is."""

    def __call__(self, tree: Mapping[str, bytes], *, mirrored: bool = False) -> str: ...


@pytest.fixture(scope="session")
def base_image(buildah: Buildah) -> BaseImage:
    """Make a vendor-like base image that has `tree` (package path → bytes) installed, and return its name."""

    def make(tree: Mapping[str, bytes], *, mirrored: bool = False) -> str:
        return make_base(buildah, tree, unique(), mirrored=mirrored)

    return make


@pytest.fixture(scope="session")
def python_version(buildah: Buildah) -> str:
    """The major and minor version of the Python in the base images, `/usr/bin/python3`."""
    with buildah.container(DEBIAN) as (_, root):
        return str((root / "usr/bin/python3").readlink()).removeprefix("python")


def render(template: str, **values: object) -> bytes:
    """Fill in one of the shipped templates as strictly as the emitter does."""
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string((TEMPLATES / template).read_text()).render(**values).encode()


@pytest.fixture(scope="session")
def rendered() -> object:
    return render


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below `root` but times: kind and mode, owner, and a digest of the bytes or where a link leads."""
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        status = path.lstat()
        content = ""
        if stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(root))] = (oct(status.st_mode), status.st_uid, status.st_gid, content)
    return found


@pytest.fixture(scope="session")
def looked_at() -> object:
    return snapshot
