"""Two cells of a matrix, built for real from what `docker-bake.json` says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.workspaces import HEAD, TARGET, Workspace, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from tests.image.conftest import BaseImage
    from tests.standins.base_image import Buildah

pytestmark = pytest.mark.image

SPELLING = "/usr/local/corex/lib64/python3/dist-packages/pkg"
CELLS = ["plain_default", "mirrored_fast"]
LIMITS = {"plain_default": 8, "mirrored_fast": 16}


@pytest.fixture(scope="module")
def build(base_image: BaseImage, python_version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matrix of two base images and two settings."""
    further = "target: target.yaml\ntargets: [mirrored.yaml]\nvariants: {fast: {limit: 16}}\n"
    workspace = Workspace.at(tmp_path_factory.mktemp("matrix"), head=replaced(HEAD, "target: target.yaml\n", further))
    tree = workspace.tree()
    for name, mirrored in (("plain", False), ("mirrored", True)):
        text = TARGET.replace("name: box", f"name: {name}").replace(
            "example.org/box:1", base_image(tree, mirrored=mirrored)
        )
        text = text.replace('python: "3.11"', f'python: "{python_version}"').replace("/opt/lib/pkg", SPELLING)
        workspace.write("target.yaml" if name == "plain" else f"{name}.yaml", text)
    ended = workspace.run("render", "--matrix")
    assert ended.code == 0, ended.err
    return workspace.folder / "build"


@pytest.fixture(scope="module")
def targets(build: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((build / "docker-bake.json").read_text())["target"]
    return found


def test_the_file_names_four_images(targets: dict[str, dict[str, Any]]) -> None:
    assert sorted(targets) == ["mirrored_default", "mirrored_fast", "plain_default", "plain_fast"]


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_built_by_what_the_bake_file_says(
    buildah: Buildah, build: Path, targets: dict[str, dict[str, Any]], cell: str
) -> None:
    target = targets[cell]
    context = build / target["context"]
    arguments = [part for tag in target["tags"] for part in ("-t", f"localhost/orchestrator-tests/{tag}")]
    arguments += [part for name, value in target["labels"].items() for part in ("--label", f"{name}={value}")]
    arguments += [part for name, value in target["args"].items() for part in ("--build-arg", f"{name}={value}")]
    buildah(
        "bud",
        "--no-cache",
        "--force-rm",
        "--format",
        "docker",
        "-f",
        str(context / target["dockerfile"]),
        *arguments,
        str(context),
    )
    image = f"localhost/orchestrator-tests/{target['tags'][0]}"
    labels = json.loads(buildah("inspect", "--type", "image", image).stdout)["Docker"]["config"]["Labels"]
    assert labels.items() >= target["labels"].items()
    with buildah.container(image) as (container, root):
        package = root / SPELLING.replace("corex/", "corex-3.2.3/").lstrip("/")
        assert f"LIMIT = {LIMITS[cell]}\n" in (package / "a.py").read_text()
        done = buildah.run_in(container, ["/usr/bin/python3", "/opt/patchset/patchset.py", "verify"])
        assert done.returncode == 0, done.stdout + done.stderr
