"""The default target, rendered and built for real on the stand-in base image."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli.app import run_app
from orchestrator.cli.options import Request
from orchestrator.cli.steps import base_of, make_plan_for, run_on
from tests.standins.base_image import PACKAGES, make_base, site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.standins.base_image import Buildah

    Snapshot = Callable[[Path], dict[str, tuple[object, ...]]]

ROOT = Path(__file__).parents[2]
REFERENCE = "localhost/corex-replica:0.6.3"
PROGRAM = ["/usr/bin/python3", "/opt/patchset/patchset.py"]
STAGES = [
    "baseline-patch-ops",
    "triton-tuning-deployed",
    "triton-enable",
    "v2-kernel-deploy",
    "decode-threshold",
    "transformers-pin",
    "qwen3-5-config",
]


VERSION = "import importlib.metadata as metadata; print(metadata.version('transformers'))"
PROGRAMS = ("usr/local/bin/transformers", "usr/local/bin/transformers-cli")
"""What the wheel brings beside its package."""


def place_of(file: Path, site: str) -> str:
    """Return where a file of the overlay goes in the image."""
    return f"{site if file.parts[0] == 'transformers' else PACKAGES}/{file}"


@pytest.fixture(scope="module")
def replica() -> Mapping[str, bytes]:
    """The base tree of the default target."""
    request = Request(workspace=ROOT, command="test")
    return base_of(make_plan_for(request), request).tree


@pytest.fixture(scope="module")
def rendered_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`build/` of the default target, written under a careful user's umask."""
    folder = tmp_path_factory.mktemp("rendered") / "build"
    previous = os.umask(0o077)
    try:
        assert run_app(["render", "-C", str(ROOT), "--output", str(folder)]) == 0
    finally:
        os.umask(previous)
    return folder


def test_the_emitted_dockerfile_passes_hadolint(rendered_build: Path) -> None:
    done = subprocess.run(
        ["hadolint", "--no-color", str(rendered_build / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_two_renders_under_two_umasks_are_the_same_bytes_and_modes(rendered_build: Path, tmp_path: Path) -> None:
    other = tmp_path / "build"
    previous = os.umask(0o002)
    try:
        assert run_app(["render", "-C", str(ROOT), "--output", str(other)]) == 0
    finally:
        os.umask(previous)

    def content(folder: Path) -> dict[str, tuple[str, bytes]]:
        return {
            str(path.relative_to(folder)): (oct(path.stat().st_mode), path.read_bytes() if path.is_file() else b"")
            for path in folder.rglob("*")
        }

    first, second = content(rendered_build), content(other)
    logs = [found.pop("audit.jsonl")[1].splitlines() for found in (first, second)]
    assert first == second
    assert logs[0][:-1] == logs[1][:-1], "only the run record may differ"


def test_the_patches_apply_with_git_and_give_the_same_bytes(rendered_build: Path, tmp_path: Path) -> None:
    request = Request(workspace=ROOT, command="test")
    plan = make_plan_for(request)
    originals = run_on(plan, base_of(plan, request), request).installed
    for path, content in originals.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for patch in sorted((rendered_build / "patches").iterdir()):
        subprocess.run(["git", "apply", "--whitespace=nowarn", str(patch)], cwd=tmp_path, check=True)
    overlay = rendered_build / "patchset/overlay"
    written = {str(p.relative_to(overlay)): p.read_bytes() for p in overlay.rglob("*") if p.is_file()}
    assert {path: (tmp_path / path).read_bytes() for path in written} == written


@pytest.mark.image
def test_the_rendered_image_builds_and_says_that_all_is_applied(
    buildah: Buildah, rendered_build: Path, replica: Mapping[str, bytes], looked_at: Snapshot, tmp_path: Path
) -> None:
    make_base(buildah, replica, REFERENCE)
    image, _ = buildah.build(rendered_build)
    with buildah.container(REFERENCE) as (_, root):
        before = looked_at(root)
    with buildah.container(image) as (container, root):
        told = buildah.run_in(container, [*PROGRAM, "verify", "--json"], user="nobody")
        after = looked_at(root)
        overlay = rendered_build / "patchset/overlay"
        site = site_of(root)
        patched = {place_of(file.relative_to(overlay), site): file for file in overlay.rglob("*.py")}
        for place, file in patched.items():
            assert (root / place).read_bytes() == file.read_bytes()
        assert not (root / site / "transformers/gone.py").exists(), "the older release is gone"
        asked = buildah.run_in(container, ["/usr/bin/python3", "-c", VERSION])
    assert told.returncode == 0, told.stdout + told.stderr
    states = {stage["id"]: stage["state"] for stage in json.loads(told.stdout)["stages"]}
    assert {id_: states[id_] for id_ in STAGES} == dict.fromkeys(STAGES, "applied")

    assert asked.stdout.split() == ["4.55.3"], asked.stderr
    [wheel] = json.loads(told.stdout)["wheels"]
    assert (wheel["name"], wheel["installed"], wheel["state"]) == ("transformers", "4.55.3", "applied")

    new_folders = {str(parent) for path in patched for parent in Path(path).parents} - before.keys()

    def outside(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
        return {
            path: what
            for path, what in found.items()
            if path not in patched
            and path not in new_folders
            and "__pycache__" not in path
            and not path.startswith(("opt/patchset", f"{site}/transformers", *PROGRAMS))
        }

    assert outside(after) == outside(before), "links, modes and all other files are as before"

    buildah("push", "--quiet", image, f"oci-archive:{tmp_path / 'saved.tar'}")
    assert run_app(["verify", "-C", str(ROOT), "--image", str(tmp_path / "saved.tar")]) == 0, "code and log say so too"


@pytest.mark.image
def test_another_release_in_the_image_fails_the_build_and_names_it(
    buildah: Buildah, rendered_build: Path, replica: Mapping[str, bytes]
) -> None:
    make_base(buildah, replica, REFERENCE, older="4.40.0")
    _, done = buildah.build(rendered_build, check=False)
    assert done.returncode != 0
    said = "patchset: error: WHEEL transformers: is 4.40.0, the patch set replaces 4.51.3"
    assert said in done.stdout + done.stderr


@pytest.mark.image
def test_one_altered_byte_of_an_original_fails_the_build_and_names_the_file(
    buildah: Buildah, rendered_build: Path, replica: Mapping[str, bytes]
) -> None:
    path = "vllm/attention/ops/paged_attn.py"
    altered = replica[path].replace(b"# Run PagedAttention V1.", b"# Run PagedAttention V1!")
    assert altered != replica[path]
    make_base(buildah, {**replica, path: altered}, REFERENCE)
    _, done = buildah.build(rendered_build, check=False)
    assert done.returncode != 0
    assert f"patchset: error: CHANGED /{PACKAGES}/{path}" in done.stdout + done.stderr
