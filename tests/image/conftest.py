"""Real images without a daemon: a small Debian made once and cached, vendor-like bases on it, and a build tool.

`base_image(tree)` makes a base image that has `tree` as its installed package; `buildah` builds, runs in and looks
into images. Everything lives in one cache folder, under a lock, and all but the Debian is removed at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orchestrator.core.digest import digest_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SUITE = "bookworm"
REMOVED = ["var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man", "debootstrap"]
# What a build tool mounts over while it runs something: there from the start, so that no build makes them.
MOUNTED = ["etc/hosts", "etc/resolv.conf"]
RECIPE = digest_data(["debootstrap", "minbase", "python3", SUITE, REMOVED, MOUNTED])[:12]
DEBIAN = f"localhost/orchestrator-tests/debian:{RECIPE}"
PACKAGES = "usr/local/corex-3.2.3/lib64/python3/dist-packages"
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


@dataclass(frozen=True)
class Buildah:
    """The build tool with a storage of its own."""

    store: Path

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        storage = ["--storage-driver", "vfs", "--root", str(self.store / "root"), "--runroot", str(self.store / "run")]
        done = subprocess.run(
            ["buildah", *storage, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
        )
        assert done.returncode == 0 or not check, f"buildah {arguments}:\n{done.stdout}{done.stderr}"
        return done

    def build(self, context: Path, *, check: bool = True) -> tuple[str, subprocess.CompletedProcess[str]]:
        """Build the Dockerfile of `context` and return the new image with what the build said."""
        name = unique()
        done = self("bud", "--no-cache", "--force-rm", "--format", "docker", "-t", name, str(context), check=check)
        return name, done

    @contextlib.contextmanager
    def container(self, image: str) -> Iterator[tuple[str, Path]]:
        """Give a container of `image` and the folder where its file system lies."""
        name = self("from", "--pull-never", image).stdout.strip()
        try:
            yield name, Path(self("mount", name).stdout.strip())
        finally:
            self("rm", name)

    def run_in(self, container: str, command: Sequence[str], *, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run `command` in a container; its exit code is the result's."""
        return self("run", "--user", user, container, "--", *command, check=False)

    def clean(self) -> None:
        """Remove every container, and every image but the Debian."""
        self("rm", "--all")
        for line in self("images", "--format", "{{.ID}} {{.Name}}:{{.Tag}}").stdout.splitlines():
            identifier, name = line.split()
            if name != DEBIAN:
                self("rmi", "--force", identifier)


def unique() -> str:
    return f"localhost/orchestrator-tests/run:{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def buildah() -> Iterator[Buildah]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orchestrator-tests"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tool = Buildah(cache / "containers")
        tool.clean()  # what a killed run left
        if DEBIAN not in tool("images", "--format", "{{.Name}}:{{.Tag}}").stdout.splitlines():
            make_debian(tool, cache / f"{SUITE}-{RECIPE}")
        yield tool
        tool.clean()


def make_debian(tool: Buildah, folder: Path) -> None:
    """Make the smallest Debian with a Python and keep it as an image; `folder` is where it is put together."""
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=python3", SUITE, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    for name in REMOVED:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in MOUNTED:
        (folder / name).write_bytes(b"")
    container = tool("from", "scratch").stdout.strip()
    tool("add", "--quiet", container, str(folder), "/")
    tool("commit", "--quiet", "--rm", "--disable-compression", container, DEBIAN)
    shutil.rmtree(folder)


class BaseImage(Protocol):
    """What the fixture `base_image` is."""

    def __call__(self, tree: Mapping[str, bytes], *, mirrored: bool = False) -> str: ...


@pytest.fixture(scope="session")
def base_image(buildah: Buildah) -> BaseImage:
    """Make a vendor-like base image that has `tree` (package path → bytes) installed, and return its name.

    As in the vendor's image, `/usr/local/corex` is a link to the folder with the version. `lib` is a link to `lib64`,
    or, mirrored, a folder with the same files. Modes and owners are deliberately not all alike.
    """

    def make(tree: Mapping[str, bytes], *, mirrored: bool = False) -> str:
        name = unique()
        with buildah.container(DEBIAN) as (container, root):
            corex = root / "usr/local/corex-3.2.3"
            install_package(root / PACKAGES, tree)
            if mirrored:
                install_package(corex / "lib/python3/dist-packages", tree)
            else:
                (corex / "lib").symlink_to("lib64")
            (root / "usr/local/corex").symlink_to("/usr/local/corex-3.2.3")
            buildah("commit", "--quiet", "--disable-compression", container, name)
        return name

    return make


def install_package(folder: Path, tree: Mapping[str, bytes]) -> None:
    for path, content in sorted(tree.items()):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if path.endswith("paged.py") else 0o644)
        os.chown(target, 1000, 1001)
    for parent in folder.rglob("*"):
        if parent.is_dir():
            parent.chmod(0o775)
            os.chown(parent, 1000, 1001)


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
