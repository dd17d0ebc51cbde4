"""The emitted build folder, built for real: what is in the image afterwards, and what is not."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from orchestrator.emit.manifest import Manifest, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.image.conftest import BaseImage
    from tests.standins.base_image import Buildah

    Snapshot = Callable[[Path], dict[str, tuple[object, ...]]]

pytestmark = pytest.mark.image

SPELLINGS = [
    "/usr/local/corex/lib64/python3/dist-packages/vllm",
    "/usr/local/corex/lib/python3/dist-packages/vllm",
]
REAL = "usr/local/corex-3.2.3/lib64/python3/dist-packages"
MIRROR = "usr/local/corex-3.2.3/lib/python3/dist-packages"
BASE = {
    "vllm/__init__.py": b"",
    "vllm/idle.py": b"VALUE = 'old'\n",
    "vllm/sequence.py": b"VALUE = 'old'\r\n",
    "vllm/attention/__init__.py": b"",
    "vllm/attention/paged.py": b"VALUE = 'old'\n",
}
FINAL = {
    **BASE,
    "vllm/sequence.py": b"VALUE = 'new'\r\n",
    "vllm/attention/paged.py": b"VALUE = 'new'\n",
    "vllm/attention/kernel.py": b"VALUE = 'new'\n",
    "vllm/kernels/fresh.py": b"VALUE = 'new'\n",
}
TOUCHED = frozenset(path for path in FINAL if FINAL[path] != BASE.get(path))
PROGRAM = ["/usr/bin/python3", "/opt/patchset/patchset.py"]


@pytest.fixture(scope="module")
def linked(base_image: BaseImage) -> str:
    return base_image(BASE)


@pytest.fixture(scope="module")
def before(buildah: Buildah, linked: str, looked_at: Snapshot) -> dict[str, tuple[object, ...]]:
    """Everything in the base image."""
    with buildah.container(linked) as (_, root):
        return looked_at(root)


@pytest.fixture(scope="module")
def mirrored(base_image: BaseImage) -> str:
    return base_image(BASE, mirrored=True)


@dataclass(frozen=True)
class Context:
    """Lays a build folder for a base image."""

    python: str
    render: Callable[..., bytes]

    def lay(self, folder: Path, image: str, *, own_modes: bool = True) -> Path:
        steps = [
            Step("sequence", "Applied", FINAL, frozenset({"vllm/sequence.py"})),
            Step("attention", "Applied", FINAL, TOUCHED - {"vllm/sequence.py"}),
        ]
        manifest = Manifest.of("demo", self.python, {"vllm": SPELLINGS}, BASE, steps)
        dockerfile = self.render(
            "Dockerfile.j2",
            image=image,
            labels={"demo.note": 'costs $5, "quoted"'},
            interpreter="/usr/bin/python3",
            patchset_digest=manifest.patchset,
        )
        files = {
            **manifest.payload(FINAL, b'{"event":"demo"}\n'),
            "Dockerfile": dockerfile,
            ".dockerignore": self.render("dockerignore.j2"),
            "report.md": b"must stay outside",
        }
        write(folder, files, own_modes=own_modes)
        return folder


def write(folder: Path, files: Mapping[str, bytes], *, own_modes: bool) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    if own_modes:
        for entry in folder.rglob("*"):
            entry.chmod(0o755 if entry.is_dir() else 0o644)


@pytest.fixture(scope="module")
def context(python_version: str, rendered: Callable[..., bytes]) -> Context:
    return Context(python_version, rendered)


@pytest.fixture(scope="module")
def built(buildah: Buildah, context: Context, linked: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return buildah.build(context.lay(tmp_path_factory.mktemp("build"), linked))[0]


def assert_only_the_patch_set_differs(
    before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]], *roots: str
) -> None:
    def ours(path: str) -> bool:
        below = next((path.removeprefix(f"{root}/") for root in roots if path.startswith(f"{root}/")), "")
        return below in TOUCHED or below == "vllm/kernels" or "__pycache__" in below or path.startswith("opt/patchset")

    outside = {path: what for path, what in after.items() if not ours(path)}
    assert outside == {path: what for path, what in before.items() if not ours(path)}
    for root in roots:
        for path in TOUCHED & BASE.keys():
            assert after[f"{root}/{path}"][:3] == before[f"{root}/{path}"][:3], "mode and owner of what is patched"
            assert after[f"{root}/{path}"] != before[f"{root}/{path}"]
        assert after[f"{root}/vllm/attention/kernel.py"][:3] == before[f"{root}/vllm/attention/__init__.py"][:3]
        assert after[f"{root}/vllm/kernels"] == before[f"{root}/vllm"], "a new folder is like the one above it"


def test_the_image_says_that_every_stage_is_applied(buildah: Buildah, built: str) -> None:
    with buildah.container(built) as (container, _):
        told = buildah.run_in(container, [*PROGRAM, "verify", "--json"], user="nobody")
        assert told.returncode == 0, told.stdout + told.stderr
        report = json.loads(told.stdout)
        assert {stage["id"]: stage["state"] for stage in report["stages"]} == {
            "sequence": "applied",
            "attention": "applied",
        }
        assert report["roots"] == [{"root": "vllm", "real": f"/{REAL}/vllm", "spellings": SPELLINGS}]


def test_both_spellings_run_the_patched_code(buildah: Buildah, built: str) -> None:
    modules = [path.removesuffix(".py").replace("/", ".") for path in sorted(TOUCHED)]
    code = f"import importlib; print({{importlib.import_module(m).VALUE for m in {modules}}})"
    with buildah.container(built) as (container, _):
        for spelling in SPELLINGS:
            where = f"import sys; sys.path.insert(0, {spelling.removesuffix('/vllm')!r}); "
            told = buildah.run_in(container, ["/usr/bin/python3", "-c", where + code])
            assert told.stdout.strip() == "{'new'}", told.stderr


def test_the_image_carries_the_patch_set_digest_the_labels_and_the_log(buildah: Buildah, built: str) -> None:
    told = json.loads(buildah("inspect", "--type", "image", built).stdout)
    labels = told["Docker"]["config"]["Labels"]
    with buildah.container(built) as (_, root):
        manifest = json.loads((root / "opt/patchset/manifest.json").read_bytes())
        assert (root / "opt/patchset/audit.jsonl").read_bytes() == b'{"event":"demo"}\n'
        assert not list(root.rglob("report.md")), "what the whitelist leaves out does not travel"
    assert labels["orchestrator.patchset.digest"] == f"sha256:{manifest['patchset']}"
    assert labels["demo.note"] == 'costs $5, "quoted"'


@pytest.fixture(params=["set", "set, under umask 077", "left to umask 077"])
def folder(request: pytest.FixtureRequest, context: Context, linked: str, tmp_path: Path) -> Path:
    """A build folder whose modes are the emitter's, or those that a careful user's checkout gives it."""
    previous = os.umask(0o022 if request.param == "set" else 0o077)
    try:
        return context.lay(tmp_path / "build", linked, own_modes=request.param.startswith("set"))
    finally:
        os.umask(previous)


def test_links_modes_owners_and_all_other_files_are_as_before(
    buildah: Buildah, before: dict[str, tuple[object, ...]], folder: Path, looked_at: Snapshot
) -> None:
    image, _ = buildah.build(folder)
    with buildah.container(image) as (_, root):
        after = looked_at(root)
        assert str((root / "usr/local/corex").readlink()) == "/usr/local/corex-3.2.3"
        assert str((root / "usr/local/corex-3.2.3/lib").readlink()) == "lib64"
    assert_only_the_patch_set_differs(before, after, REAL)


def test_a_mirrored_layout_is_patched_in_both_places(
    buildah: Buildah, context: Context, mirrored: str, tmp_path: Path, looked_at: Snapshot
) -> None:
    image, _ = buildah.build(context.lay(tmp_path, mirrored))
    with buildah.container(mirrored) as (_, root):
        before = looked_at(root)
    with buildah.container(image) as (container, root):
        after = looked_at(root)
        assert buildah.run_in(container, [*PROGRAM, "verify"]).returncode == 0
        (root / MIRROR / "vllm/sequence.py").write_bytes(b"VALUE = 'own'\n")
        told = buildah.run_in(container, [*PROGRAM, "verify"])
        assert told.returncode == 4
        assert f"/{MIRROR}/vllm/sequence.py" in told.stdout
        assert f"/{REAL}/vllm/sequence.py" not in told.stdout
    assert_only_the_patch_set_differs(before, after, REAL, MIRROR)


def test_one_altered_byte_in_the_base_fails_the_build_and_writes_nothing(
    buildah: Buildah, context: Context, base_image: BaseImage, tmp_path: Path, looked_at: Snapshot
) -> None:
    other = base_image({**BASE, "vllm/attention/paged.py": b"VALUE = 'odd'\n"})
    folder = context.lay(tmp_path, other)
    _, done = buildah.build(folder, check=False)
    assert done.returncode != 0
    assert f"patchset: error: CHANGED /{REAL}/vllm/attention/paged.py" in done.stdout + done.stderr
    with buildah.container(other) as (container, root):
        buildah("copy", "--quiet", container, str(folder / "patchset"), "/opt/patchset")
        before = looked_at(root)
        assert buildah.run_in(container, [*PROGRAM, "install"]).returncode == 1
        assert looked_at(root) == before
