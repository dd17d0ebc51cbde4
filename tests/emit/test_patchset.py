"""The installer as it runs in an image: a child process, on every Python found here that it promises to run on."""

from __future__ import annotations

import ast
import errno
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.digest import digest
from orchestrator.emit import patchset
from orchestrator.emit.manifest import Manifest, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOTS = {
    "vllm": [
        "/usr/local/corex/lib64/python3/dist-packages/vllm",
        "/usr/local/corex/lib/python3/dist-packages/vllm",
    ]
}
BASE = {
    "vllm/__init__.py": b"",
    "vllm/idle.py": b"VALUE = 'old'\n",
    "vllm/sequence.py": b"VALUE = 'old'\n",
    "vllm/ops/__init__.py": b"",
    "vllm/ops/paged.py": b"VALUE = 'old'\n",
    "vllm/ops/tuning.h": b"#define N 8\n",
}
FIRST = {**BASE, "vllm/sequence.py": b"VALUE = 'new'\n", "vllm/ops/paged.py": b"VALUE = 'mid'\n"}
FINAL = {
    **FIRST,
    "vllm/ops/paged.py": b"VALUE = 'new'  # and longer\n",
    "vllm/ops/tuning.h": b"#define N 4\n",
    "vllm/ops/kernel.py": b"VALUE = 'new'\n",
    "vllm/kernels/deep/fresh.py": b"VALUE = 'new'\n",
}
TOUCHED = sorted(path for path in FINAL if FINAL[path] != BASE.get(path))
ORIGINALS = [path for path in TOUCHED if path in BASE]
MODULES = [path.removesuffix(".py").replace("/", ".") for path in TOUCHED if path.endswith(".py")]

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root: owners, mounts")


# ------------------------------------------------------------------------------------------------ the scene


def version_of(python: str) -> str | None:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def find_python(version: str) -> str | None:
    on_path = shutil.which(f"python{version}")
    elsewhere = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for candidate in [*([on_path] if on_path else []), *map(str, elsewhere)]:
        if version_of(candidate) == version:
            return candidate
    return None


@pytest.fixture(scope="module", params=["running", "3.8", "3.10"])
def python(request: pytest.FixtureRequest) -> str:
    found = sys.executable if request.param == "running" else find_python(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} on PATH or in ~/.pyenv")
    return found


@dataclass(frozen=True)
class Scene:
    """A base tree below a prefix, a patch set beside it, and the interpreter that applies it."""

    python: str
    image: Path
    program: Path

    @property
    def spellings(self) -> list[Path]:
        return [path for path in (Path(f"{self.image}{spelling}") for spelling in ROOTS["vllm"]) if path.exists()]

    @property
    def roots(self) -> list[Path]:
        return sorted({path.resolve() for path in self.spellings})

    def file(self, package_path: str, root: int = 0) -> Path:
        return self.roots[root] / package_path.removeprefix("vllm/")

    def run(self, *arguments: str, umask: int = 0o022, user: int | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.python, str(self.program / "patchset.py"), *arguments, "--prefix", str(self.image)],
            capture_output=True,
            text=True,
            check=False,
            umask=umask,
            user=user,
            env={"PATH": os.defpath},
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def install(self, **options: Any) -> None:  # noqa: ANN401 - handed on
        done = self.run("install", **options)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""

    def refuse(self, *arguments: str, code: int = 1, **options: Any) -> str:  # noqa: ANN401 - handed on
        """Run a command that must be refused and must leave every byte, mode, owner and time as it was."""
        before = snapshot(self.image), snapshot(self.program)
        done = self.run(*(arguments or ("install",)), **options)
        assert done.returncode == code, done.stdout + done.stderr
        assert (snapshot(self.image), snapshot(self.program)) == before
        assert all(line.startswith("patchset: error: ") and "; " in line for line in done.stderr.splitlines())
        return done.stderr

    def report(self, code: int) -> dict[str, Any]:
        before = snapshot(self.image), snapshot(self.program)
        done = self.run("verify", "--json")
        assert done.returncode == code, done.stderr
        assert (snapshot(self.image), snapshot(self.program)) == before, "verify wrote something"
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def value_of(self, module: str, spelling: Path) -> str:
        code = f"import {module} as m; print(m.VALUE)"
        done = subprocess.run(
            [self.python, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": os.defpath, "PYTHONPATH": str(spelling.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        return done.stdout.strip()


def snapshot(top: Path, *, times: bool = True) -> dict[str, tuple[object, ...]]:
    """Everything below `top`: kind and mode, owner, inode, time, and the bytes or where a link leads."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        content: object = None
        if stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        time = status.st_mtime_ns if times or not stat.S_ISDIR(status.st_mode) else 0
        found[str(path.relative_to(top))] = (
            status.st_mode, status.st_uid, status.st_gid, status.st_ino, time, content,
        )  # fmt: skip
    return found


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def manifest_for(python: str, base: Mapping[str, bytes] = BASE, final: Mapping[str, bytes] = FINAL) -> Manifest:
    version = version_of(python)
    assert version
    return Manifest.of(
        "demo",
        version,
        ROOTS,
        base,
        [
            Step("first", "Applied", FIRST, frozenset({"vllm/sequence.py", "vllm/ops/paged.py"})),
            Step("second", "Applied", final, frozenset(TOUCHED) - {"vllm/sequence.py"}),
            Step("third", "Skipped", final, frozenset()),
        ],
    )


def lay_linked(image: Path) -> None:
    """The usual layout: one real folder, `corex` and `lib` are links."""
    write(image / "usr/local/corex-3.2.3/lib64/python3/dist-packages", BASE)
    (image / "usr/local/corex").symlink_to("corex-3.2.3")
    (image / "usr/local/corex-3.2.3/lib").symlink_to("lib64")


def lay_single(image: Path) -> None:
    write(image / "usr/local/corex/lib64/python3/dist-packages", BASE)


def lay_mirrored(image: Path) -> None:
    write(image / "usr/local/corex/lib64/python3/dist-packages", BASE)
    write(image / "usr/local/corex/lib/python3/dist-packages", BASE)


def lay_hard_linked_mirror(image: Path) -> None:
    lay_single(image)
    corex = image / "usr/local/corex"
    shutil.copytree(corex / "lib64", corex / "lib", copy_function=os.link)


LAYOUTS = [lay_linked, lay_single, lay_mirrored, lay_hard_linked_mirror]


def build(
    python: str, folder: Path, lay: Callable[[Path], None] = lay_linked, **manifest: Mapping[str, bytes]
) -> Scene:
    image, context = folder / "image", folder / "context"
    image.mkdir()
    lay(image)
    final = manifest.get("final", FINAL)
    write(context, manifest_for(python, **manifest).payload(final, b'{"event":"demo"}\n'))
    return Scene(python, image, context / "patchset")


@pytest.fixture
def scene(python: str, tmp_path: Path) -> Scene:
    return build(python, tmp_path)


@pytest.fixture
def running(tmp_path: Path) -> Scene:
    """For what no Python version could change."""
    return build(sys.executable, tmp_path)


# ------------------------------------------------------------------------------------------------ what install does


@pytest.mark.parametrize("lay", LAYOUTS)
def test_every_spelling_of_every_layout_runs_the_patched_code(
    python: str, tmp_path: Path, lay: Callable[[Path], None]
) -> None:
    scene = build(python, tmp_path, lay)
    links = {path: path.readlink() for path in scene.image.rglob("*") if path.is_symlink()}
    scene.install()
    for spelling in scene.spellings:
        for path in TOUCHED:
            assert (spelling / path.removeprefix("vllm/")).read_bytes() == FINAL[path]
        assert {scene.value_of(module, spelling) for module in MODULES} == {"new"}
    assert {path: path.readlink() for path in scene.image.rglob("*") if path.is_symlink()} == links
    report = scene.report(0)
    assert report["ok"]
    assert {root["real"] for root in report["roots"]} == {str(root) for root in scene.roots}


def test_nothing_outside_the_patch_set_changes_but_times_of_folders(scene: Scene) -> None:
    before = snapshot(scene.image, times=False)
    scene.install()
    after = snapshot(scene.image, times=False)
    touched = {str(scene.file(path).relative_to(scene.image)) for path in TOUCHED}
    assert {path: what for path, what in before.items() if after[path] != what}.keys() <= touched
    new = {path for path in after.keys() - before.keys() if "__pycache__" not in path}
    below = "usr/local/corex-3.2.3/lib64/python3/dist-packages/vllm/"
    assert new == {below + path for path in ("kernels", "kernels/deep", "kernels/deep/fresh.py", "ops/kernel.py")}


def test_the_log_stays_and_the_record_names_the_real_roots(scene: Scene) -> None:
    scene.install()
    assert (scene.program / "audit.jsonl").read_bytes() == b'{"event":"demo"}\n'
    record = json.loads((scene.program / "installed.json").read_bytes())
    assert record["roots"] == [
        {"root": "vllm", "real": str(scene.roots[0]), "spellings": [f"{scene.image}{path}" for path in ROOTS["vllm"]]}
    ]
    assert record["files"] == sorted(str(scene.file(path)) for path in TOUCHED)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755, 0o4755])
def test_modes_are_kept_and_given_to_new_files_whatever_the_umask(running: Scene, mode: int) -> None:
    for path in (*ORIGINALS, "vllm/ops/__init__.py"):
        running.file(path).chmod(mode)
    running.roots[0].chmod(0o2751)
    running.install(umask=0o077)
    assert {stat.S_IMODE(running.file(path).stat().st_mode) for path in ORIGINALS} == {mode}
    assert stat.S_IMODE(running.file("vllm/ops/kernel.py").stat().st_mode) == mode, "like __init__.py beside it"
    assert stat.S_IMODE(running.file("vllm/kernels/deep/fresh.py").stat().st_mode) == 0o644, "nothing beside it"
    for folder in ("vllm/kernels", "vllm/kernels/deep", "vllm/__pycache__"):
        assert stat.S_IMODE(running.file(folder).stat().st_mode) == 0o2751, "like the folder above"
    [compiled] = running.file("vllm/__pycache__").glob("sequence.*.pyc")
    assert stat.S_IMODE(compiled.stat().st_mode) == mode


@needs_root
def test_owners_are_kept_and_given_to_what_is_new(running: Scene) -> None:
    for path in running.image.rglob("*"):
        os.chown(path, 1234, 4321, follow_symlinks=False)
    running.install()
    owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in running.image.rglob("*")}
    assert owners == {(1234, 4321)}


def test_extended_attributes_are_kept(running: Scene) -> None:
    target = running.file("vllm/sequence.py")
    try:
        os.setxattr(target, "user.origin", b"vendor")
    except OSError:
        pytest.skip("this file system has no user attributes")
    running.install()
    assert os.getxattr(target, "user.origin") == b"vendor"


def test_another_name_of_the_same_file_keeps_the_original_bytes(scene: Scene) -> None:
    other = scene.image / "elsewhere.py"
    other.hardlink_to(scene.file("vllm/sequence.py"))
    scene.install()
    assert other.read_bytes() == BASE["vllm/sequence.py"]
    assert scene.file("vllm/sequence.py").read_bytes() == FINAL["vllm/sequence.py"]


def test_a_link_inside_the_root_stays_a_link_and_the_real_file_is_written(scene: Scene) -> None:
    link = scene.file("vllm/sequence.py")
    real = link.with_name("_sequence.py")
    link.rename(real)
    link.symlink_to(real.name)
    scene.install()
    assert link.is_symlink()
    assert real.read_bytes() == FINAL["vllm/sequence.py"]
    assert scene.value_of("vllm.sequence", scene.spellings[0]) == "new"


@pytest.mark.parametrize(
    "content",
    [
        b"VALUE = 'new'\r\nX = 1\r\n", b"VALUE = 'new'  \n\n \t", b"# coding: latin-1\nVALUE = 'new' #\xe9\n",
        b"VALUE = 'new'\n\x0c#",
    ],
    ids=["carriage returns", "blank tail", "latin-1", "form feed"],
)  # fmt: skip
def test_bytes_arrive_untouched(python: str, tmp_path: Path, content: bytes) -> None:
    scene = build(python, tmp_path, final={**FINAL, "vllm/ops/paged.py": content})
    scene.install()
    assert scene.file("vllm/ops/paged.py").read_bytes() == content


# ------------------------------------------------------------------------------------------------ bytecode


def compile_in(scene: Scene, source: Path, mode: str, target: Path) -> None:
    code = (
        "import py_compile, sys\n"
        "mode = getattr(py_compile.PycInvalidationMode, sys.argv[3])\n"
        "py_compile.compile(sys.argv[1], sys.argv[2], doraise=True, invalidation_mode=mode)\n"
    )
    subprocess.run([scene.python, "-c", code, str(source), str(target), mode], check=True)


@pytest.mark.parametrize("mode", ["TIMESTAMP", "UNCHECKED_HASH"])
def test_stale_bytecode_of_the_same_size_and_time_is_not_run(scene: Scene, mode: str) -> None:
    tag = subprocess.check_output(
        [scene.python, "-c", "import sys; print(sys.implementation.cache_tag)"], text=True
    ).strip()
    source = scene.file("vllm/sequence.py")
    time = source.stat().st_mtime_ns
    cache = source.parent / "__pycache__"
    stale = [cache / f"sequence.{tag}.pyc", cache / f"sequence.{tag}.opt-1.pyc", source.with_suffix(".pyc")]
    for target in stale:
        compile_in(scene, source, mode, target)
    other = cache / "sequence_other.cpython-39.pyc"
    other.write_bytes(b"of another module")
    scene.install()
    os.utime(source, ns=(time, time))
    assert scene.value_of("vllm.sequence", scene.spellings[0]) == "new"
    left = {path.name for path in cache.iterdir()}
    assert left == {stale[0].name, other.name}
    assert not stale[2].exists()
    assert stale[0].read_bytes()[4:8] == b"\3\0\0\0", "a checked hash"


def test_the_new_bytecode_is_checked_against_the_source_at_every_import(scene: Scene) -> None:
    scene.install()
    source = scene.file("vllm/sequence.py")
    time = source.stat().st_mtime_ns
    source.write_bytes(b"VALUE = 'own'\n")
    os.utime(source, ns=(time, time))
    assert scene.value_of("vllm.sequence", scene.spellings[0]) == "own"


def test_stale_bytecode_beside_patched_source_is_renewed_by_a_second_install(scene: Scene) -> None:
    scene.install()
    source = scene.file("vllm/sequence.py")
    [compiled] = (source.parent / "__pycache__").glob("sequence.*.pyc")
    old = scene.image / "old.py"
    old.write_bytes(BASE["vllm/sequence.py"])
    compile_in(scene, old, "UNCHECKED_HASH", compiled)
    assert scene.value_of("vllm.sequence", scene.spellings[0]) == "old"
    scene.install()
    assert scene.value_of("vllm.sequence", scene.spellings[0]) == "new"


def test_only_touched_files_are_compiled(scene: Scene) -> None:
    scene.install()
    stems = {path.name.split(".")[0] for path in scene.image.rglob("*.pyc")}
    assert stems == {Path(path).stem for path in TOUCHED if path.endswith(".py")}


def test_code_that_does_not_compile_here_is_refused_before_anything_is_written(python: str, tmp_path: Path) -> None:
    scene = build(python, tmp_path, final={**FINAL, "vllm/ops/kernel.py": b"def broken(:\n"})
    before = snapshot(scene.image, times=False)
    done = scene.run("install")
    assert done.returncode == 1
    assert "COMPILE" in done.stderr
    assert "kernel.py" in done.stderr
    assert snapshot(scene.image, times=False) == before


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("path", ORIGINALS)
@pytest.mark.parametrize("root", [0, 1])
def test_one_altered_byte_in_either_mirror_refuses_everything_and_names_the_file(
    tmp_path: Path, path: str, root: int
) -> None:
    scene = build(sys.executable, tmp_path, lay_mirrored)
    altered = scene.file(path, root)
    altered.write_bytes(BASE[path][:-1] + b" ")
    said = scene.refuse()
    assert said.count("CHANGED") == len(said.splitlines()) == 1
    assert f"{altered}: has sha256 {digest(altered.read_bytes())}, the original has {digest(BASE[path])}" in said


def test_all_differences_are_named_at_once(scene: Scene) -> None:
    scene.file("vllm/sequence.py").write_bytes(b"other")
    scene.file("vllm/ops/paged.py").unlink()
    scene.file("vllm/ops/kernel.py").write_bytes(b"in the way")
    said = scene.refuse().splitlines()
    assert sorted(line.split()[2] for line in said) == ["CHANGED", "CHANGED", "MISSING"]
    for name in ("sequence.py", "paged.py", "kernel.py"):
        assert any(name in line for line in said)


def _link_file_out(scene: Scene, outside: Path) -> None:
    scene.file("vllm/sequence.py").rename(outside / "sequence.py")
    scene.file("vllm/sequence.py").symlink_to(outside / "sequence.py")


def _link_folder_out(scene: Scene, outside: Path) -> None:
    scene.file("vllm/ops").rename(outside / "ops")
    scene.file("vllm/ops").symlink_to(outside / "ops")


def _link_new_folder_out(scene: Scene, outside: Path) -> None:
    scene.file("vllm/kernels").symlink_to(outside)


def _link_cache_out(scene: Scene, outside: Path) -> None:
    scene.file("vllm/__pycache__").symlink_to(outside)


def _link_to_nothing(scene: Scene, outside: Path) -> None:
    del outside
    scene.file("vllm/ops/kernel.py").symlink_to("nothing.py")


def _link_in_a_circle(scene: Scene, outside: Path) -> None:
    del outside
    scene.file("vllm/sequence.py").unlink()
    scene.file("vllm/sequence.py").symlink_to("sequence.py")


def _pipe(scene: Scene, outside: Path) -> None:
    del outside
    scene.file("vllm/sequence.py").unlink()
    os.mkfifo(scene.file("vllm/sequence.py"))


def _folder(scene: Scene, outside: Path) -> None:
    del outside
    scene.file("vllm/ops/kernel.py").mkdir()


def _file_as_folder(scene: Scene, outside: Path) -> None:
    del outside
    scene.file("vllm/kernels").write_bytes(b"")


SPOILED = {
    _link_file_out: "UNSAFE vllm/sequence.py: leads out of the root",
    _link_folder_out: "UNSAFE vllm/ops/tuning.h: leads out of the root",
    _link_new_folder_out: "UNSAFE vllm/kernels/deep/fresh.py: leads out of the root",
    _link_cache_out: "UNSAFE vllm/__pycache__: leads out of the root",
    _link_to_nothing: "UNSAFE vllm/ops/kernel.py: is a link to nothing",
    _link_in_a_circle: "UNREADABLE vllm/sequence.py: ",
    _pipe: "UNREADABLE vllm/sequence.py: is not a regular file",
    _folder: "UNREADABLE vllm/ops/kernel.py: is not a regular file",
    _file_as_folder: "UNREADABLE vllm/kernels/deep/fresh.py: Not a directory",
}


@pytest.mark.parametrize(("spoil", "expected"), SPOILED.items())
def test_what_is_no_regular_file_inside_the_root_is_refused(
    scene: Scene, tmp_path: Path, spoil: Callable[[Scene, Path], None], expected: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    spoil(scene, outside)
    before = snapshot(outside)
    assert expected in scene.refuse().replace(f"{scene.roots[0].parent}/", "")
    assert snapshot(outside) == before


def test_a_second_install_changes_no_byte_mode_time_or_inode(scene: Scene) -> None:
    scene.install()
    before = snapshot(scene.image), snapshot(scene.program)
    done = scene.run("install", umask=0o077)
    assert done.returncode == 0
    assert "already applied" in done.stdout
    assert (snapshot(scene.image), snapshot(scene.program)) == before


@pytest.mark.parametrize("applied", TOUCHED)
def test_a_half_applied_tree_is_refused_with_the_list(running: Scene, applied: str) -> None:
    write(running.roots[0].parent, {applied: FINAL[applied]})
    said = running.refuse()
    assert said.count("MIXED") == len(TOUCHED)
    assert f"{running.file(applied)}: is applied" in said


def test_a_file_between_two_stages_is_refused(running: Scene) -> None:
    write(running.roots[0].parent, {"vllm/ops/paged.py": FIRST["vllm/ops/paged.py"]})
    assert f"{running.file('vllm/ops/paged.py')}: is partly while others are not" in running.refuse()


def test_a_mirror_that_is_patched_alone_is_refused(tmp_path: Path) -> None:
    scene = build(sys.executable, tmp_path, lay_mirrored)
    write(scene.roots[1].parent, {path: FINAL[path] for path in TOUCHED})
    assert scene.refuse().count("MIXED") == 2 * len(TOUCHED)


def test_two_names_of_one_real_file_with_different_contents_are_refused(running: Scene) -> None:
    running.file("vllm/ops/paged.py").unlink()
    running.file("vllm/ops/paged.py").symlink_to("../sequence.py")
    assert "CONFLICT" in running.refuse()


def test_two_names_of_one_real_file_with_the_same_contents_are_one(running: Scene) -> None:
    running.file("vllm/ops/kernel.py").symlink_to("../kernels/deep/fresh.py")
    assert "a link to nothing" in running.refuse()
    running.file("vllm/ops/kernel.py").unlink()
    running.file("vllm/kernels").mkdir()
    running.file("vllm/kernels/deep").symlink_to("../ops")
    running.install()
    assert running.file("vllm/ops/fresh.py").read_bytes() == FINAL["vllm/kernels/deep/fresh.py"]


def test_another_python_version_is_refused(running: Scene) -> None:
    other = replace(manifest_for(sys.executable), python="3.7")
    (running.program / "manifest.json").write_bytes(other.to_bytes())
    assert "the patch set is for 3.7" in running.refuse()


def test_a_package_that_is_nowhere_is_refused_with_the_places_tried(running: Scene) -> None:
    shutil.rmtree(running.image / "usr")
    said = running.refuse()
    assert "ROOT" in said
    assert all(spelling in said for spelling in ROOTS["vllm"])


@pytest.mark.parametrize("path", TOUCHED)
def test_a_damaged_overlay_is_refused(running: Scene, path: str) -> None:
    overlay = running.program / "overlay" / path
    overlay.write_bytes(FINAL[path] + b"#")
    assert "OVERLAY" in running.refuse()
    overlay.unlink()
    assert "OVERLAY" in running.refuse()


@pytest.mark.parametrize("arguments", [[], ["remove"], ["install", "--force"]])
def test_a_wrong_command_line_is_usage(running: Scene, arguments: list[str]) -> None:
    program = str(running.program / "patchset.py")
    done = subprocess.run([running.python, program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage:" in done.stderr


# ------------------------------------------------------------------------------------------------ when writing fails


@pytest.fixture
def mount() -> Iterator[Callable[..., None]]:
    mounted: list[str] = []

    def add(*arguments: str) -> None:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounts are not allowed here: {done.stderr.strip()}")
        if "remount" not in str(arguments):
            mounted.append(arguments[-1])

    yield add
    for target in reversed(mounted):
        subprocess.run(["umount", "--lazy", target], check=True)


@needs_root
def test_a_full_disk_leaves_the_original(python: str, tmp_path: Path, mount: Callable[..., None]) -> None:
    mount("-t", "tmpfs", "-o", "size=128k", "tmpfs", str(tmp_path))
    scene = build(python, tmp_path)
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_bsize
    (tmp_path / "ballast").write_bytes(b"\0" * (free - 8192))
    before = snapshot(scene.image, times=False)
    done = scene.run("install")
    assert done.returncode == 1
    assert "WRITE" in done.stderr
    assert "No space left on device; free some space; nothing was changed" in done.stderr
    assert snapshot(scene.image, times=False) == before


@needs_root
def test_a_read_only_file_system_is_said_plainly(running: Scene, mount: Callable[..., None]) -> None:
    mount("--bind", str(running.image), str(running.image))
    mount("-o", "remount,ro,bind", str(running.image))
    assert "make the file system writable" in running.refuse()


@needs_root
def test_a_file_that_cannot_be_replaced_brings_the_others_back(running: Scene, mount: Callable[..., None]) -> None:
    pinned = running.file("vllm/sequence.py")  # the last of the list, so others are swapped before it
    mount("--bind", str(pinned), str(pinned))
    before = snapshot(running.image, times=False)
    done = running.run("install")
    assert done.returncode == 1
    assert f"WRITE {pinned}" in done.stderr
    assert snapshot(running.image, times=False) == before


@needs_root
def test_a_user_who_may_not_write_is_told_to_be_root() -> None:
    system = "/usr/bin/python3"
    if version_of(system) is None:
        pytest.skip("no interpreter that every user may run")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        scene = build(system, Path(folder))
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o755)
        assert "USER root" in scene.refuse(user=65534)


def refusal(call: Callable[[], object]) -> patchset.Refused | None:
    try:
        call()
    except patchset.Refused as refused:
        return refused
    return None


@pytest.mark.parametrize("name", ["link", "rename", "replace", "chmod", "fsync", "mkdir", "unlink"])
@pytest.mark.parametrize("lay", [lay_linked, lay_mirrored])
def test_whichever_system_call_fails_the_tree_is_the_whole_original_or_wholly_patched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lay: Callable[[Path], None]
) -> None:
    where: Any = os if name in {"link", "fsync"} else Path
    real = getattr(where, name)
    outcomes = set()
    for nth in itertools.count():
        folder = tmp_path / str(nth)
        folder.mkdir()
        scene = build(sys.executable, folder, lay)
        write(scene.roots[0], {"sequence.pyc": b"stale"})
        before = snapshot(scene.image, times=False)
        manifest = scene.program / "manifest.json"
        calls = itertools.count()

        def fail_once(*args: Any, nth: int = nth, calls: Iterator[int] = calls, **kwargs: Any) -> Any:  # noqa: ANN401 - stands in for any of them
            if next(calls) == nth:
                raise OSError(errno.EIO, "Input/output error", str(args[0]))
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(where, name, fail_once)
            refused = refusal(lambda manifest=manifest, scene=scene: patchset.install(manifest, str(scene.image)))  # type: ignore[misc]
        if refused and "LEFTOVER" not in str(refused):
            assert "Input/output error" in str(refused)
            assert snapshot(scene.image, times=False) == before
            assert not (scene.program / "installed.json").exists()
        else:
            assert patchset.verify(manifest, str(scene.image))["ok"]
        outcomes.add(refused is None)
        if next(calls) <= nth:
            assert refused is None
            break
    assert outcomes == ({True} if name == "link" else {True, False}), "without hard links it goes on by renaming"


def test_bytes_that_the_disk_did_not_keep_are_noticed_and_undone(
    running: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(running.image, times=False)
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.ftruncate(descriptor, 3))
    with pytest.raises(patchset.Refused, match="is not what was written"):
        patchset.install(running.program / "manifest.json", str(running.image))
    assert snapshot(running.image, times=False) == before


def test_what_a_killed_install_left_is_no_obstacle(running: Scene) -> None:
    for ending in (patchset.NEW, patchset.OLD):
        running.file("vllm/sequence.py").with_name(f".sequence.py{ending}").write_bytes(b"left")
    running.install()
    assert not list(running.image.rglob(".*patchset*"))


# ------------------------------------------------------------------------------------------------ verify


def states(report: Mapping[str, Any]) -> dict[str, str]:
    return {stage["id"]: stage["state"] for stage in report["stages"]}


def test_verify_tells_original_from_applied(scene: Scene) -> None:
    assert states(scene.report(4)) == {"first": "original", "second": "original", "third": "no files"}
    scene.install()
    assert states(scene.report(0)) == {"first": "applied", "second": "applied", "third": "no files"}


def test_verify_knows_how_far_along_its_chain_a_file_is(scene: Scene) -> None:
    write(scene.roots[0].parent, FIRST)
    report = scene.report(4)
    assert states(report) == {"first": "applied", "second": "original", "third": "no files"}
    assert {item["through"] for item in report["files"] if item["state"] == "partly"} == {"first"}


@pytest.mark.parametrize("path", TOUCHED)
def test_verify_says_changed_and_missing_per_stage(running: Scene, path: str) -> None:
    running.install()
    hit = {stage.id for stage in manifest_for(sys.executable).stages if path in stage.files}
    running.file(path).write_bytes(b"own work")
    assert {stage for stage, state in states(running.report(4)).items() if state == "changed"} == hit
    running.file(path).unlink()
    gone = "missing" if path in BASE else "partly"
    assert {stage for stage, state in states(running.report(4)).items() if state == gone} == hit
    human = running.run("verify").stdout
    assert "NOT applied" in human
    assert str(running.file(path)) in human


def test_verify_is_honest_about_each_mirror(tmp_path: Path) -> None:
    scene = build(sys.executable, tmp_path, lay_mirrored)
    scene.install()
    write(scene.roots[1].parent, BASE)
    report = scene.report(4)
    assert states(report) == {"first": "partly", "second": "partly", "third": "no files"}
    by_root = {
        root: {item["state"] for item in report["files"] if item["real"].startswith(str(root))} for root in scene.roots
    }
    assert by_root == {scene.roots[0]: {"applied"}, scene.roots[1]: {"original", "applied"}}


def test_verify_says_missing_where_the_package_is_gone(running: Scene) -> None:
    shutil.rmtree(running.image / "usr")
    assert states(running.report(4)) == {"first": "missing", "second": "missing", "third": "no files"}


def test_a_stage_that_the_base_has_already_counts_as_applied(tmp_path: Path) -> None:
    scene = build(sys.executable, tmp_path, base=FIRST)
    write(scene.roots[0].parent, FIRST)
    assert states(scene.report(4))["first"] == "applied"
    scene.install()
    assert states(scene.report(0)) == {"first": "applied", "second": "applied", "third": "no files"}
    assert not (scene.program / "overlay/vllm/sequence.py").exists(), "what does not change does not travel"


# ------------------------------------------------------------------------------------------------ the manifest


def _altered(change: Callable[[dict[str, Any]], object]) -> bytes:
    data = json.loads(manifest_for(sys.executable).to_bytes())
    change(data)
    return json.dumps(data).encode()


DAMAGED = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "nested too deep": b"[" * 100_000,
    "of another version": _altered(lambda data: data.update(version=2)),
    "without roots": _altered(lambda data: data.pop("roots")),
    "a digit of a digest altered": _altered(lambda data: data["files"][0]["images"][0].update(sha256="0" * 64)),
    "a file taken out": _altered(lambda data: data["files"].pop()),
    "a key too many": _altered(lambda data: data.update(force=True)),
    "a number for a path": _altered(lambda data: data["files"][0].update(path=7)),
    "a file without images": _altered(lambda data: data["files"][0].update(images=[])),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_manifest_is_refused_by_both_commands(running: Scene, content: bytes) -> None:
    (running.program / "manifest.json").write_bytes(content)
    assert "MANIFEST" in running.refuse()
    assert "MANIFEST" in running.refuse("verify", code=6)


def test_no_manifest_at_all_is_said_plainly(running: Scene) -> None:
    (running.program / "manifest.json").unlink()
    assert "--manifest" in running.refuse()


GOOD = manifest_for(sys.executable)


@given(position=st.integers(0, len(GOOD.to_bytes()) - 1), value=st.integers(0, 255))
def test_no_single_byte_of_the_manifest_can_be_altered_unnoticed(position: int, value: int) -> None:
    content = bytearray(GOOD.to_bytes())
    content[position] = value
    refused = refusal(lambda: patchset.parse_manifest(bytes(content), "manifest.json"))
    if refused is None:  # a blank for a blank, say
        assert patchset.parse_manifest(bytes(content), "manifest.json").record() == GOOD.record()
    else:
        assert [problem.code for problem in refused.problems] == ["MANIFEST"]


@pytest.mark.parametrize("path", ["../x.py", "/x.py", "a//b.py", "a/./b.py", "", "a/../../b.py", "a\0.py"])
def test_no_path_may_leave_its_root(path: str) -> None:
    escape = replace(GOOD, files=(replace(GOOD.files[0], path=path), *GOOD.files[1:]))
    with pytest.raises(patchset.Refused, match="MANIFEST"):
        patchset.parse_manifest(escape.to_bytes(), "manifest.json")


def test_the_manifest_is_read_as_it_was_written_and_written_one_way() -> None:
    content = GOOD.to_bytes()
    assert patchset.parse_manifest(content, "manifest.json").record() == GOOD.record()
    assert content == manifest_for(sys.executable).to_bytes()
    assert content.endswith(b"}\n")
    assert json.loads(content)["patchset"] == GOOD.patchset


def test_a_manifest_that_could_not_be_followed_is_not_made() -> None:
    step = Step("one", "Applied", {"vllm/../x.py": b""}, frozenset({"vllm/../x.py"}))
    with pytest.raises(ValueError, match="plain path"):
        Manifest.of("demo", "3.10", ROOTS, {}, [step])


# ------------------------------------------------------------------------------------------------ the program


def test_the_program_is_python_3_8_and_needs_only_the_standard_library() -> None:
    tree = ast.parse(Path(patchset.__file__).read_bytes(), feature_version=(3, 8))
    nodes = list(ast.walk(tree))
    names = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module).split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names


def test_the_program_asks_the_system_nothing_about_permissions_beforehand() -> None:
    tree = ast.parse(Path(patchset.__file__).read_bytes())
    assert "access" not in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
