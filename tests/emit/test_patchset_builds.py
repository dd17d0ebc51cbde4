"""The installer has sources compiled in the image: by a real compiler, whole or not at all, its result written down."""

from __future__ import annotations

import ctypes
import json
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.digest import digest
from orchestrator.emit import patchset
from orchestrator.emit.manifest import BuildEntry, Manifest, Step
from tests.emit.test_patchset import BASE, LAYOUTS, ROOTS, Scene, lay_linked, python, snapshot, version_of, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["python"]

SOURCE = b'#include "seven.h"\nextern "C" int answer() { return SEVEN; }\n'
FINAL = {**BASE, "vllm/ops/seven.h": b"#define SEVEN 7\n", "vllm/ops/answer.cpp": SOURCE}
FILES = frozenset(FINAL) - frozenset(BASE)
LIBRARY = "vllm/ops/answer.so"
OPTIONS = ("-shared", "-fPIC")


def compiler() -> str:
    found = shutil.which("g++")
    assert found, "the tests of compiling need g++"
    return found


def lay(
    python: str, folder: Path, *, command: tuple[str, ...] = (), layout: Callable[[Path], None] = lay_linked
) -> Scene:
    image, context = folder / "image", folder / "context"
    image.mkdir(exist_ok=True)
    layout(image)
    write(context, manifest(python, command).payload(FINAL, b"{}\n"))
    return Scene(python, image, context / "patchset")


def manifest(python: str, command: tuple[str, ...] = (), *, to: str = "ops/answer.so") -> Manifest:
    entry = BuildEntry("compiled", "vllm", "ops/answer.cpp", to, command or (compiler(), *OPTIONS))
    steps = [Step("compiled", "applied", FINAL, FILES, builds=(entry,)), Step("other", "skipped", FINAL, frozenset())]
    return Manifest.of("demo", version_of(python) or "", ROOTS, BASE, steps)


def script(folder: Path, text: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_source_is_compiled_in_every_real_folder_and_its_result_runs(
    python: str, tmp_path: Path, layout: Callable[[Path], None]
) -> None:
    scene = lay(python, tmp_path, layout=layout)
    done = scene.run("install")
    assert done.returncode == 0, done.stderr
    for root in scene.roots:
        library = root / "ops/answer.so"
        assert ctypes.CDLL(str(library)).answer() == 7
        assert f"compiled {library}, sha256 {digest(library.read_bytes())}" in done.stdout
        assert stat.S_IMODE(library.stat().st_mode) == stat.S_IMODE((root / "__init__.py").stat().st_mode)
    assert not [path for path in scene.image.rglob("*") if path.name.endswith((patchset.NEW, patchset.OLD))]


def test_its_digest_is_written_down_and_told_since_nobody_could_pin_it(python: str, tmp_path: Path) -> None:
    scene = lay(python, tmp_path)
    assert scene.run("install").returncode == 0
    library = scene.roots[0] / "ops/answer.so"
    sha256 = digest(library.read_bytes())
    record = json.loads((scene.program / "installed.json").read_text())
    assert record["builds"] == [{"real": str(library), "sha256": sha256}]
    assert sha256 not in (scene.program / "manifest.json").read_text()
    report = scene.report(0)
    assert report["ok"]
    assert report["builds"] == [
        {"name": LIBRARY, "real": str(library), "state": "applied", "sha256": sha256, "why": ""}
    ]
    assert f"applied    {library}: compiled here, sha256 {sha256}" in scene.run("verify").stdout


def test_a_second_install_compiles_nothing(python: str, tmp_path: Path) -> None:
    scene = lay(python, tmp_path)
    assert scene.run("install").returncode == 0
    before = snapshot(scene.image), snapshot(scene.program)
    done = scene.run("install")
    assert done.returncode == 0
    assert "already applied, nothing written" in done.stdout
    assert (snapshot(scene.image), snapshot(scene.program)) == before


def test_before_an_install_verify_says_that_it_is_not_compiled(python: str, tmp_path: Path) -> None:
    scene = lay(python, tmp_path)
    report = scene.report(4)
    assert [build["state"] for build in report["builds"]] == ["original"]
    assert "is not compiled yet" in scene.run("verify").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo answer.cpp:2: no such word >&2; exit 3", "ended with status 3: answer.cpp:2: no such word"),
        ("echo half > $5; kill -9 $$", "ended with status -9"),
        ("exit 0", "made no answer.so"),
    ],
    ids=["a fault", "killed half-way", "no output"],
)
def test_a_compiler_that_fails_fails_the_install_and_everything_is_as_before(
    python: str, tmp_path: Path, text: str, said: str
) -> None:
    scene = lay(python, tmp_path, command=(script(tmp_path, text), *OPTIONS))
    before = snapshot(scene.image, times=False), snapshot(scene.program)
    done = scene.run("install")
    assert done.returncode == 1
    assert said in done.stderr
    assert "patchset: error: BUILD" in done.stderr
    assert "or switch stage compiled off" in done.stderr
    assert (snapshot(scene.image, times=False), snapshot(scene.program)) == before


def test_a_compiler_that_is_not_there_or_no_program_is_named(running: Scene, tmp_path: Path) -> None:
    scene = lay(running.python, tmp_path / "absent", command=("/nowhere/nvcc",))
    assert "BUILD /nowhere/nvcc: is not in this image" in scene.refuse()
    plain = tmp_path / "plain"
    plain.write_text("no program")
    scene = lay(running.python, tmp_path / "plain text", command=(str(plain),))
    before = snapshot(scene.image, times=False)
    done = scene.run("install")
    assert done.returncode == 1
    assert f"BUILD {plain}: " in done.stderr
    assert snapshot(scene.image, times=False) == before


@pytest.fixture
def running(tmp_path: Path) -> Scene:
    import sys  # noqa: PLC0415 - beside its only use

    for name in ("absent", "plain text"):
        (tmp_path / name).mkdir()
    return lay(sys.executable, tmp_path)


def test_a_file_that_stands_in_its_place_is_refused(running: Scene) -> None:
    (running.roots[0] / "ops/answer.so").write_bytes(b"somebody's")
    assert "nothing was compiled here" in running.refuse()


def test_a_result_that_changed_later_or_went_away_is_said(running: Scene) -> None:
    assert running.run("install").returncode == 0
    library = running.roots[0] / "ops/answer.so"
    content = library.read_bytes()
    library.write_bytes(content + b"\0")
    report = running.report(4)
    assert [build["state"] for build in report["builds"]] == ["changed"]
    assert {stage["id"]: stage["state"] for stage in report["stages"]}["compiled"] == "changed"
    assert "what was compiled here has" in running.refuse()
    library.unlink()
    assert running.report(4)["builds"][0]["why"] == "was compiled and is gone"
    done = running.run("install")
    assert done.returncode == 0
    assert library.read_bytes() == content, "one compiler makes the same bytes of the same source"


def test_a_link_out_of_the_root_is_refused(running: Scene, tmp_path: Path) -> None:
    (running.roots[0] / "ops/answer.so").symlink_to(tmp_path / "outside.so")
    assert "leads out of the root" in running.refuse()
    assert not (tmp_path / "outside.so").exists()


def test_what_an_older_patch_set_compiled_is_not_taken_for_this_one_s(running: Scene, tmp_path: Path) -> None:
    assert running.run("install").returncode == 0
    other = tmp_path / "context"
    write(other, manifest(running.python, (compiler(), *OPTIONS, "-O1")).payload(FINAL, b"{}\n"))
    assert "nothing was compiled here" in running.refuse()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (BuildEntry("compiled", "vllm", "ops/answer.cpp", "../answer.so", ("/c",)), "not a plain path"),
        (BuildEntry("compiled", "vllm", "sequence.py", "ops/answer.so", ("/c",)), "does not write"),
        (BuildEntry("other", "vllm", "ops/answer.cpp", "ops/answer.so", ("/c",)), "does not write"),
        (BuildEntry("compiled", "vllm", "ops/answer.cpp", "ops/seven.h", ("/c",)), "written twice"),
        (BuildEntry("compiled", "vllm", "ops/answer.cpp", "ops/answer.so", ("c++",)), "absolute path"),
        (BuildEntry("compiled", "vllm", "ops/answer.cpp", "ops/answer.so", ()), "absolute path"),
    ],
)
def test_a_manifest_that_cannot_be_followed_is_not_made(entry: BuildEntry, said: str) -> None:
    steps = [Step("compiled", "applied", FINAL, FILES, builds=(entry,)), Step("other", "skipped", FINAL, frozenset())]
    with pytest.raises(ValueError, match=said):
        Manifest.of("demo", "3.11", ROOTS, BASE, steps)
