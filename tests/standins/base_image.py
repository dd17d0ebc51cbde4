"""The stand-in base image of the default target: a small Debian with the replica installed as in the vendor's image.

    .venv/bin/python -m tests.standins.base_image

makes it with buildah and debootstrap (root, no daemon) in buildah's own storage, under the name that
`targets/corex-replica.yaml` says, so that `buildah bud build/` works on a machine without the vendor's image.
"""

from __future__ import annotations

import contextlib
import ensurepip
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.options import Request
from orchestrator.cli.steps import base_of, make_plan_for
from orchestrator.core.digest import digest_data
from tests.wheels import installed, unzipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SUITE = "bookworm"
REMOVED = ["var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man", "debootstrap"]
# What a build tool mounts over while it runs something: there from the start, so that no build makes them.
MOUNTED = ["etc/hosts", "etc/resolv.conf"]
RECIPE = digest_data(["debootstrap", "minbase", "python3", SUITE, REMOVED, MOUNTED])[:12]
DEBIAN = f"localhost/orchestrator-tests/debian:{RECIPE}"
PACKAGES = "usr/local/corex-3.2.3/lib64/python3/dist-packages"


@dataclass(frozen=True)
class Buildah:
    """The build tool, with a storage of its own or, without `store`, with the user's."""

    store: Path | None = None

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        own = ["--root", str(self.store / "root"), "--runroot", str(self.store / "run")] if self.store else []
        storage = ["--storage-driver", "vfs", *own]
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
    """Return a name that no image has."""
    return f"localhost/orchestrator-tests/run:{uuid.uuid4().hex}"


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


PIP = "usr/lib/python3/dist-packages"
OLDER = {
    "transformers/__init__.py": b'__version__ = "4.51.3"\n',
    "transformers/gone.py": b"",
    "transformers/models/__init__.py": b"",
}
"""A stand-in for the release that the vendor's image has: a patch set replaces it by a real one."""


def make_base(
    tool: Buildah, tree: Mapping[str, bytes], name: str, *, mirrored: bool = False, older: str = "4.51.3"
) -> str:
    """Make a vendor-like base image that has `tree` (package path → bytes) installed, and return its name.

    As in the vendor's image, `/usr/local/corex` is a link to the folder with the version. `lib` is a link to `lib64`,
    or, mirrored, a folder with the same files. Modes and owners are deliberately not all alike. pip and `transformers`,
    a stand-in of the version `older`, are where Debian's Python has such things.
    """
    with tool.container(DEBIAN) as (container, root):
        corex = root / "usr/local/corex-3.2.3"
        install_package(root / PACKAGES, tree)
        install_package(root / site_of(root), installed("transformers", older, OLDER))
        install_package(root / PIP, bundled_pip())
        if mirrored:
            install_package(corex / "lib/python3/dist-packages", tree)
        else:
            (corex / "lib").symlink_to("lib64")
        (root / "usr/local/corex").symlink_to("/usr/local/corex-3.2.3")
        tool("commit", "--quiet", "--disable-compression", container, name)
    return name


def site_of(root: Path) -> str:
    """Return where pip installs for the Python of a Debian, relative to its root."""
    return f"usr/local/lib/{(root / 'usr/bin/python3').readlink().name}/dist-packages"


def bundled_pip() -> dict[str, bytes]:
    """Return the files of the pip that this Python brings along for its virtual environments."""
    folders = (Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels"))
    found = [wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))]
    assert found, "this Python has no pip for virtual environments: install its `venv` package"
    return unzipped(found[0].read_bytes())


def ensure_debian(tool: Buildah, scratch: Path) -> None:
    """Make the Debian unless the storage has it; `scratch` is where it is put together."""
    if DEBIAN not in tool("images", "--format", "{{.Name}}:{{.Tag}}").stdout.splitlines():
        make_debian(tool, scratch / f"{SUITE}-{RECIPE}")


def install_package(folder: Path, tree: Mapping[str, bytes]) -> None:
    """Write a package as an image has it: modes and owners are deliberately not all alike."""
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


def main() -> int:
    """Make the image that the default target names; 0 if it is there."""
    request = Request(workspace=Path(__file__).parents[2], command="base_image")
    plan = make_plan_for(request)
    tool = Buildah()
    with tempfile.TemporaryDirectory() as scratch:
        ensure_debian(tool, Path(scratch))
    name = make_base(tool, base_of(plan, request).tree, plan.target.image.reference)
    sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
