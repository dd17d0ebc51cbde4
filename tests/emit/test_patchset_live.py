"""`patchset.py live`, as it runs in an image: on every Python found here that it promises to run on."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.digest import digest
from orchestrator.emit import patchset
from orchestrator.emit.manifest import Manifest, Step
from tests.emit.test_patchset import find_python, version_of, write

ROOT = Path(__file__).parents[2]
ROOTS = {"vllm": ["/usr/lib64/vllm", "/usr/lib/vllm"], "demo": ["/usr/lib/demo"]}
BASE = {"vllm/__init__.py": b"raise ImportError('the package needs a device')\n", "demo/__init__.py": b""}
ANSWER = b"""
import dataclasses
import sys

@dataclasses.dataclass
class Row:
    why: "str"

def live():
    print("looking around")
    return [{"operation": "attend", "path": "fast", "reason": Row("tried").why, "since": 3}]
"""
TABLE = "operation  path  reason\nattend     fast  tried\n"


@dataclass(frozen=True)
class Image:
    """An image below a prefix and a patch set beside it that brings modules which can be asked."""

    python: str
    top: Path

    def lay(self, *modules: bytes, lib: bool = False) -> None:
        """Lay the base, and a patch set with a stage for each module; with `lib` the package is there twice."""
        for root in ["usr/lib64", "usr/lib"][: 2 if lib else 1]:
            write(self.top / "image" / root, {path: BASE[path] for path in BASE if path.startswith("vllm/")})
        write(self.top / "image/usr/lib", {path: BASE[path] for path in BASE if path.startswith("demo/")})
        files = {f"vllm/ops/ask{number}.py": content for number, content in enumerate(modules)}
        tree = {**BASE, "demo/__init__.py": b"VALUE = 1\n"}
        steps = [Step("quiet", "Applied", tree, frozenset({"demo/__init__.py"}))]
        for path, content in files.items():
            tree = {**tree, path: content}
            steps.append(Step(Path(path).stem, "Applied", tree, frozenset({path}), (), path))
        version = version_of(self.python)
        assert version
        manifest = Manifest.of("demo", version, ROOTS, BASE, steps)
        write(self.top / "context", manifest.payload(tree, b"{}\n"))

    def installed(self, *modules: bytes, lib: bool = False) -> None:
        self.lay(*modules, lib=lib)
        code, _, err = self.run("install")
        assert (code, err) == (0, "")

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        program = self.top / "context/patchset/patchset.py"
        done = subprocess.run(
            [self.python, str(program), *arguments, "--prefix", str(self.top / "image")],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.defpath, **environment},
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def live(self, code: int, **environment: str) -> dict[str, Any]:
        before = self.content()
        ended, out, _ = self.run("live", "--json", **environment)
        assert ended == code, out
        assert self.content() == before, "live wrote something"
        report: dict[str, Any] = json.loads(out)
        return report

    def content(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.top.rglob("*") if path.is_file()}

    def module(self, number: int = 0, root: str = "usr/lib64") -> Path:
        return self.top / f"image/{root}/vllm/ops/ask{number}.py"


@pytest.fixture(params=["running", "3.8", "3.10"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Image:
    found = sys.executable if request.param == "running" else find_python(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} on PATH or in ~/.pyenv")
    return Image(found, tmp_path)


@pytest.fixture
def running(tmp_path: Path) -> Image:
    """For what no Python version could change."""
    return Image(sys.executable, tmp_path)


def test_the_module_is_asked_apart_from_its_package_and_its_answer_is_a_table(image: Image) -> None:
    image.installed(ANSWER)
    code, out, err = image.run("live")
    assert (code, out) == (0, TABLE)
    assert err == "looking around\n"
    assert image.live(0)["operations"] == [{"operation": "attend", "path": "fast", "reason": "tried"}]


def test_several_modules_answer_and_a_mirrored_package_does_not_say_it_twice(running: Image) -> None:
    running.installed(ANSWER, ANSWER.replace(b'"fast"', b'"slow"'), lib=True)
    assert [row["path"] for row in running.live(0)["operations"]] == ["fast", "slow"]


def test_a_patch_set_without_such_a_module_says_so(running: Image) -> None:
    running.installed()
    assert running.run("live") == (0, "no stage of this patch set brings a module that can be asked\n", "")


@pytest.mark.parametrize(
    ("module", "what"),
    [
        (b"import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        (b"x = 1\n", "AttributeError: module "),
        (b"def live():\n    raise RuntimeError('no folder')\n", "RuntimeError: no folder"),
        (b"def live():\n    raise SystemExit(3)\n", "RuntimeError: it ended the program: exit(3)"),
        (b"raise SystemExit\n", "RuntimeError: it ended the program: exit(None)"),
        (b"def live():\n    return None\n", "TypeError: "),
        (b"def live():\n    return [{'operation': 'attend', 'path': 'fast'}]\n", "KeyError: 'reason'"),
        (
            b"def live():\n    return [{'operation': 'attend', 'path': True, 'reason': ''}]\n",
            "TypeError: True is not a",
        ),
    ],
)
def test_a_module_that_does_not_answer_is_told_beside_those_that_do(module: bytes, what: str, running: Image) -> None:
    running.installed(module, ANSWER)
    report = running.live(1)
    [problem] = report["problems"]
    assert problem.startswith(f"patchset: error: LIVE {running.module()}: does not answer ({what}")
    assert [row["path"] for row in report["operations"]] == ["fast"]
    assert running.run("live")[1] == f"{problem}\n{TABLE}"


def test_a_module_that_is_not_what_the_patch_set_has_is_not_run(running: Image) -> None:
    running.installed(ANSWER)
    trace = running.top / "trace"
    running.module().write_bytes(f"open({str(trace)!r}, 'w')\n".encode() + ANSWER)
    report = running.live(4)
    assert not trace.exists()
    assert report["operations"] == []
    assert f"LIVE {running.module()}: has sha256 {digest(running.module().read_bytes())}" in report["problems"][0]


def test_stale_bytecode_beside_the_module_is_not_run(running: Image) -> None:
    running.installed(ANSWER)
    [compiled] = (running.module().parent / "__pycache__").glob("ask0.*.pyc")
    other = compile("def live(): return [{'operation': 'x', 'path': 'y', 'reason': 'stale'}]", "x", "exec")
    never_compared = b"\1\0\0\0" + b"\0" * 8
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + never_compared + marshal.dumps(other))
    assert running.live(0)["operations"][0]["reason"] == "tried"


def test_before_the_install_nothing_is_asked(running: Image) -> None:
    running.lay(ANSWER)
    assert f"LIVE {running.module()}: is original, so it is not asked" in running.live(4)["problems"][0]


def test_a_root_that_is_not_there_counts_only_where_a_module_is_asked(running: Image) -> None:
    running.installed(ANSWER)
    (running.top / "image/usr/lib/demo").rename(running.top / "elsewhere")
    assert running.live(0)["problems"] == []
    (running.top / "image/usr/lib64/vllm").rename(running.top / "away")
    assert "ROOT vllm" in running.live(4)["problems"][0]


def test_a_manifest_of_before_is_read_and_has_nobody_to_ask(running: Image) -> None:
    running.installed(ANSWER)
    path = running.top / "context/patchset/manifest.json"
    manifest = json.loads(path.read_bytes())
    for stage in manifest["stages"]:
        stage.pop("live", None)
    del manifest["patchset"]
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    path.write_text(json.dumps({**manifest, "patchset": digest(text.encode())}), encoding="utf-8")
    assert running.live(0)["asked"] == []


def test_a_damaged_manifest_is_refused(running: Image) -> None:
    running.installed(ANSWER)
    path = running.top / "context/patchset/manifest.json"
    whole = path.read_text(encoding="utf-8")
    for old, new in (
        ('"live": "vllm/ops/ask0.py"', '"live": 3'),
        ('"live": "vllm/ops/ask0.py"', '"live": "vllm/x.py"'),
    ):
        path.write_text(whole.replace(old, new), encoding="utf-8")
        code, out, err = running.run("live")
        assert (code, out) == (6, "")
        assert "MANIFEST" in err


def test_a_stage_cannot_have_a_file_of_another_stage_asked() -> None:
    step = Step("one", "Applied", {"vllm/x.py": b""}, frozenset({"vllm/x.py"}), (), "vllm/y.py")
    with pytest.raises(ValueError, match=r"vllm/y\.py asked, which is none of its files"):
        Manifest.of("demo", "3.11", ROOTS, {}, [step])


def test_a_stage_that_has_nothing_asked_looks_as_before() -> None:
    entry = patchset.StageEntry("one", "Applied", ("vllm/x.py",))
    assert entry.record() == {"id": "one", "outcome": "Applied", "files": ["vllm/x.py"]}


def test_the_policy_of_the_kernels_answers_without_a_device_about_those_that_are_there(image: Image) -> None:
    image.installed((ROOT / "kernels/trust.py").read_bytes())

    def paths() -> list[tuple[str, str]]:
        own = {"VLLM_TRITON_TRUST": "none", "VLLM_TRITON_TRUST_CACHE": str(image.top / "verdicts")}
        return [(row["operation"], row["path"]) for row in image.live(0, **own)["operations"]]

    assert paths() == []
    for kernel in ("prefix_prefill", "paged_attention_v2_compiled"):
        image.module(0).with_name(f"{kernel}.py").touch()
    assert paths() == [("prefix_prefill", "pytorch"), ("compiled_decode_v2", "pytorch")]
