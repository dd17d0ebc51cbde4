"""Two spellings of one package root, in real images: both end right, or the build refuses and writes nothing."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.image.test_image import BASE, FINAL, PROGRAM, SPELLINGS, TOUCHED, Context
from tests.standins.base_image import unique

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.image.conftest import BaseImage
    from tests.standins.base_image import Buildah

    Change = Callable[[Path], None]

pytestmark = pytest.mark.image

COREX = "usr/local/corex-3.2.3"
SITE = "python3/dist-packages"
MODULES = sorted(path.removesuffix(".py").replace("/", ".") for path in TOUCHED)
PATCHED = sorted(TOUCHED & BASE.keys())


@dataclass(frozen=True)
class Corex:
    """The vendor's folder in the file system of an image."""

    root: Path

    @property
    def lib(self) -> Path:
        return self.root / COREX / "lib"

    @property
    def lib64(self) -> Path:
        return self.root / COREX / "lib64"

    def package(self, lib: str = "lib64") -> Path:
        return self.root / COREX / lib / SITE / "vllm"

    def mirror(self, copy: Callable[[str, str], object] = shutil.copy2) -> None:
        """Make a real folder of `lib`, with each file copied, or linked, from `lib64`."""
        self.lib.unlink()
        shutil.copytree(self.lib64, self.lib, copy_function=copy)


@pytest.fixture(scope="module")
def context(python_version: str, rendered: Callable[..., bytes]) -> Context:
    return Context(python_version, rendered)


@pytest.fixture(scope="module")
def plain(base_image: BaseImage) -> str:
    """A base image in which `lib` is a link to `lib64`."""
    return base_image(BASE)


def altered(buildah: Buildah, image: str, change: Change) -> str:
    """Return a new image: the old one after `change` of its file system."""
    name = unique()
    with buildah.container(image) as (container, root):
        change(root)
        buildah("commit", "--quiet", "--disable-compression", container, name)
    return name


# --- both end right ---


def _other_way(root: Path) -> None:
    corex = Corex(root)
    corex.lib.unlink()
    corex.lib64.rename(corex.lib)
    corex.lib64.symlink_to("lib")


def _by_absolute_links(root: Path) -> None:
    corex = Corex(root)
    corex.lib.unlink()
    corex.lib.symlink_to(f"/{COREX}/lib64")


def _package_is_a_link(root: Path) -> None:
    corex = Corex(root)
    corex.lib.unlink()
    (corex.lib / SITE).mkdir(parents=True)
    corex.package("lib").symlink_to("../../../lib64/python3/dist-packages/vllm")


def _copies(root: Path) -> None:
    Corex(root).mirror()


def _hard_links(root: Path) -> None:
    Corex(root).mirror(os.link)


def _copies_that_differ_elsewhere(root: Path) -> None:
    corex = Corex(root)
    corex.mirror()
    (corex.package("lib") / "idle.py").write_bytes(b"VALUE = 'other'\n")


def _one_spelling_alone(root: Path) -> None:
    Corex(root).lib.unlink()


def _file_link_inside(root: Path) -> None:
    package = Corex(root).package()
    (package / "sequence.py").rename(package / "_sequence.py")
    (package / "sequence.py").symlink_to("_sequence.py")


def _folder_link_inside(root: Path) -> None:
    package = Corex(root).package()
    (package / "attention").rename(package / "_attention")
    (package / "attention").symlink_to("_attention")


def _kept_aside(root: Path) -> None:
    (root / "opt/kept").mkdir()
    os.link(Corex(root).package() / "sequence.py", root / "opt/kept/sequence.py")


RIGHT: Mapping[str, Change] = {
    "lib64 is a link to lib": _other_way,
    "lib is a link by its full path": _by_absolute_links,
    "the package in lib is a link": _package_is_a_link,
    "two copies": _copies,
    "two copies of one inode": _hard_links,
    "two copies that differ where nothing is patched": _copies_that_differ_elsewhere,
    "one of the two is not there": _one_spelling_alone,
    "a file that is a link inside the package": _file_link_inside,
    "a folder that is a link inside the package": _folder_link_inside,
    "a file with another name elsewhere": _kept_aside,
}


@pytest.mark.parametrize("change", RIGHT.values(), ids=RIGHT)
def test_every_spelling_that_is_there_runs_the_patched_code(
    buildah: Buildah, context: Context, plain: str, tmp_path: Path, change: Change
) -> None:
    base = altered(buildah, plain, change)
    image, _ = buildah.build(context.lay(tmp_path, base))
    code = f"import importlib; print({{importlib.import_module(m).VALUE for m in {MODULES}}})"
    with buildah.container(base) as (_, before), buildah.container(image) as (container, root):
        links = {path for path in _all(before / COREX) if path.is_symlink()}
        assert {p.relative_to(root) for p in _all(root / COREX) if p.is_symlink()} == {
            p.relative_to(before) for p in links
        }
        verified = buildah.run_in(container, [*PROGRAM, "verify", "--json"])
        assert verified.returncode == 0, verified.stdout + verified.stderr
        spellings = [spelling for spelling in SPELLINGS if _is_there(root, spelling)]
        assert {s for known in json.loads(verified.stdout)["roots"] for s in known["spellings"]} == set(spellings)
        for spelling in spellings:
            where = f"import sys; sys.path.insert(0, {spelling.removesuffix('/vllm')!r}); "
            told = buildah.run_in(container, ["/usr/bin/python3", "-c", where + code])
            assert told.stdout.strip() == "{'new'}", told.stderr
        kept = root / "opt/kept/sequence.py"
        assert not kept.exists() or kept.read_bytes() == BASE["vllm/sequence.py"], "another name keeps its bytes"


def _all(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def _is_there(root: Path, spelling: str) -> bool:
    """Tell whether a path of the image is there; its links are followed inside of the image."""
    path = root
    parts = list(Path(spelling).parts[1:])
    while parts:
        step = path / parts.pop(0)
        if step.is_symlink():
            target = step.readlink()
            parts = [*target.parts[1 if target.is_absolute() else 0 :], *parts]
            path = root if target.is_absolute() else path
        elif step.name == "..":
            path = path.parent
        else:
            path = step
    return path.exists()


# --- the build refuses ---


def _copies_that_differ(root: Path) -> None:
    corex = Corex(root)
    corex.mirror()
    (corex.package("lib") / PATCHED[0].removeprefix("vllm/")).write_bytes(b"VALUE = 'other'\n")


def _copy_that_lacks_a_file(root: Path) -> None:
    corex = Corex(root)
    corex.mirror()
    (corex.package("lib") / PATCHED[0].removeprefix("vllm/")).unlink()


def _copy_that_is_patched_already(root: Path) -> None:
    corex = Corex(root)
    corex.mirror()
    for path in TOUCHED:
        target = corex.package("lib") / path.removeprefix("vllm/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(FINAL[path])


def _link_that_leaves_the_package(root: Path) -> None:
    package = Corex(root).package()
    (package / "sequence.py").rename(root / "opt/sequence.py")
    (package / "sequence.py").symlink_to("/opt/sequence.py")


def _two_names_of_one_file(root: Path) -> None:
    package = Corex(root).package()
    (package / "attention/paged.py").unlink()
    (package / "attention/paged.py").symlink_to("../sequence.py")


REFUSED: Mapping[str, tuple[Change, str]] = {
    "two copies that differ": (_copies_that_differ, "CHANGED"),
    "a copy that lacks a file": (_copy_that_lacks_a_file, "MISSING"),
    "a copy that is patched already": (_copy_that_is_patched_already, "MIXED"),
    "a link that leaves the package": (_link_that_leaves_the_package, "UNSAFE"),
    "two names of one file that want different bytes": (_two_names_of_one_file, "CHANGED"),
}


@pytest.mark.parametrize(("change", "code"), REFUSED.values(), ids=REFUSED)
def test_roots_that_cannot_both_end_right_fail_the_build(  # noqa: PLR0913, PLR0917 - fixtures
    buildah: Buildah, context: Context, plain: str, tmp_path: Path, change: Change, code: str
) -> None:
    base = altered(buildah, plain, change)
    _, done = buildah.build(context.lay(tmp_path, base), check=False)
    assert done.returncode != 0
    assert f"patchset: error: {code} " in done.stdout + done.stderr
