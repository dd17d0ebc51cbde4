"""The installer's wheels: real pip in real virtual environments, on every Python found here that it promises."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.core.digest import digest
from orchestrator.emit import patchset
from orchestrator.emit.manifest import Manifest, Step, WheelEntry
from tests.emit.test_patchset import find_python, version_of, write
from tests.wheels import installed, wheel, wheel_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLD = {"demo/__init__.py": b"VALUE = 'old'\n", "demo/gone.py": b"", "demo/auto.py": b"NAMES = ['old']\n"}
NEW = {"demo/__init__.py": b"VALUE = 'new'\n", "demo/data.txt": b"1\n", "demo/auto.py": b"NAMES = ['new']\n"}
PATCHED = {**NEW, "demo/auto.py": b"NAMES = ['new', 'ours']\n", "demo/ours/__init__.py": b"VALUE = 'ours'\n"}
FILE = wheel_file("demo", "2.0")
NEEDS = "a-package-that-no-index-has>=7"
WHEEL = wheel("demo", "2.0", NEW, requires=NEEDS)
OTHER_BUILD = {**NEW, "demo/data.txt": b"2\n"}
TOOL = {"tool/__init__.py": b"VALUE = 'old'\n"}
TOOL_PATCHED = {"tool/__init__.py": b"VALUE = 'new'\n"}


@dataclass(frozen=True)
class Venv:
    """A virtual environment of one of the Pythons, and the patch set that is to go into it."""

    python: str
    version: str
    site: Path
    program: Path
    tool: Path

    def lay(self, *, before: str | None = "1.0", wheel_bytes: bytes = WHEEL, base: Mapping[str, bytes] = NEW) -> None:
        """Write the patch set: the wheel, an edit and a new file in its package, an edit of another package."""
        entry = WheelEntry("pin", "demo", "2.0", FILE, digest(wheel_bytes), before, ("demo",))
        ours = frozenset({"demo/auto.py", "demo/ours/__init__.py"})
        final = {**PATCHED, **TOOL_PATCHED}
        steps = [
            Step("pin", "applied", {**base, **TOOL}, frozenset(), (entry,)),
            Step("config", "applied", {**PATCHED, **TOOL}, ours),
            Step("tool", "applied", final, frozenset(TOOL)),
        ]
        roots = {"demo": [str(self.site / "demo")], "tool": [str(self.tool)]}
        manifest = Manifest.of("demo", self.version, roots, {**base, **TOOL}, steps)
        shutil.rmtree(self.program, ignore_errors=True)
        write(self.program.parent, manifest.payload(final, b"{}\n", {FILE: wheel_bytes}))
        shutil.rmtree(self.tool, ignore_errors=True)
        write(self.tool.parent, TOOL)

    def has(self, files: Mapping[str, bytes], version: str = "1.0") -> None:
        """Put a distribution in as it would be installed."""
        write(self.site, installed("demo", version, files, requires=NEEDS))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.python, str(self.program / "patchset.py"), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.defpath, **environment},
            cwd=self.program,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def install(self, **environment: str) -> str:
        done = self.run("install", **environment)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    def refuse(self, *arguments: str) -> str:
        """Install something that must be refused while nothing has been changed."""
        before = self.state()
        done = self.run(*(arguments or ("install",)))
        assert done.returncode == 1, done.stdout + done.stderr
        assert self.state() == before
        assert all(line.startswith("patchset: error: ") and "; " in line for line in done.stderr.splitlines())
        return done.stderr

    def report(self, code: int) -> dict[str, Any]:
        before = self.state()
        done = self.run("verify", "--json")
        assert done.returncode == code, done.stdout + done.stderr
        assert self.state() == before
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def state(self) -> dict[str, bytes]:
        """What is in site-packages of the package and its facts, in the other package, and in the patch set."""
        tops = [*self.site.glob("demo*"), *self.site.glob("a_package*"), self.tool, self.program]
        files = (path for top in tops for path in top.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}

    def value(self, code: str) -> str:
        return subprocess.check_output([self.python, "-I", "-c", code], text=True, cwd=self.program).strip()

    def clear(self) -> None:
        for top in self.site.glob("demo*"):
            shutil.rmtree(top)


@pytest.fixture(scope="module", params=["running", "3.8", "3.10"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    found = sys.executable if request.param == "running" else find_python(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} on PATH or in ~/.pyenv")
    return made(found, tmp_path_factory.mktemp("venv"))


def made(base: str, folder: Path, *options: str) -> Venv:
    subprocess.run([base, "-m", "venv", *options, str(folder / "venv")], check=True, capture_output=True)
    python = str(folder / "venv/bin/python")
    site = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    version = version_of(python)
    assert version
    return Venv(python, version, Path(site.strip()), folder / "context/patchset", folder / "elsewhere/tool")


@pytest.fixture
def venv(environment: Venv) -> Iterator[Venv]:
    environment.clear()
    yield environment
    environment.clear()


@pytest.fixture(scope="module")
def without_pip(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    return made(sys.executable, tmp_path_factory.mktemp("bare"), "--without-pip")


def test_an_older_version_becomes_the_wheel_and_the_edits_are_on_top_of_it(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay()
    said = venv.install()
    assert "installed demo 2.0, replacing 1.0" in said
    assert venv.value("import demo, demo.auto; print(demo.VALUE, demo.auto.NAMES)") == "new ['new', 'ours']"
    assert venv.value("import importlib.metadata as m; print(m.version('demo'))") == "2.0"
    assert not (venv.site / "demo/gone.py").exists(), "pip has taken the old version out"
    assert not list(venv.site.glob("a_package*")), "dependencies are not installed"
    report = venv.report(0)
    assert {stage["id"]: stage["state"] for stage in report["stages"]} == dict.fromkeys(
        ("pin", "config", "tool"), "applied"
    )
    assert [(w["name"], w["installed"], w["state"]) for w in report["wheels"]] == [("demo", "2.0", "applied")]
    record = json.loads((venv.program / "installed.json").read_bytes())
    assert record["wheels"] == [{"name": "demo", "version": "2.0", "sha256": digest(WHEEL)}]


def test_a_second_install_finds_nothing_to_do(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay()
    venv.install()
    before = venv.state()
    assert "already applied, nothing written" in venv.install()
    assert venv.state() == before


@pytest.mark.parametrize("there", [None, "0.5", "3.0"])
def test_without_a_version_to_replace_any_or_none_will_do(venv: Venv, there: str | None) -> None:
    if there:
        venv.has(OLD, there)
    venv.lay(before=None)
    assert f"replacing {there or 'nothing'}" in venv.install()
    assert venv.report(0)["ok"]


def test_the_same_wheel_put_in_by_hand_is_left_alone(venv: Venv) -> None:
    venv.has(NEW, "2.0")
    venv.lay()
    assert "installed demo" not in venv.install()
    assert venv.report(0)["ok"]


def test_another_build_of_the_version_may_be_replaced_if_that_is_said(venv: Venv) -> None:
    venv.has(OTHER_BUILD, "2.0")
    venv.lay(before="2.0")
    assert "installed demo 2.0, replacing 2.0" in venv.install()
    assert venv.report(0)["ok"]


def test_neither_configuration_nor_environment_leads_pip_astray(venv: Venv, tmp_path: Path) -> None:
    write(tmp_path, {"pip/__init__.py": b"raise SystemExit(7)\n", "pip/__main__.py": b"raise SystemExit(7)\n"})
    (tmp_path / "pip.conf").write_text("[install]\nno-binary = :all:\n")
    venv.has(OLD)
    venv.lay()
    venv.install(
        PYTHONPATH=str(tmp_path),
        PIP_TARGET=str(tmp_path / "target"),
        PIP_CONFIG_FILE=str(tmp_path / "pip.conf"),
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_REQUIRE_VIRTUALENV="yes",
        HOME=str(tmp_path),
    )
    assert not (tmp_path / "target").exists()
    assert venv.report(0)["ok"]


def spoil_nothing(venv: Venv) -> None:
    del venv


def drop_the_wheel(venv: Venv) -> None:
    (venv.program / "wheels" / FILE).unlink()


def change_the_wheel(venv: Venv) -> None:
    (venv.program / "wheels" / FILE).write_bytes(wheel("demo", "2.0", OTHER_BUILD))


def add_a_wheel(venv: Venv) -> None:
    (venv.program / "wheels" / wheel_file("other", "1.0")).write_bytes(wheel("other", "1.0", {}))


def change_the_other_package(venv: Venv) -> None:
    (venv.tool / "__init__.py").write_bytes(b"VALUE = 'odd'\n")


REFUSALS = {
    "the wheel is missing": (OLD, "1.0", drop_the_wheel, f"wheels/{FILE}: No such file"),
    "the wheel is another": (OLD, "1.0", change_the_wheel, f"wheels/{FILE}: has sha256"),
    "there is one too many": (OLD, "1.0", add_a_wheel, "wheels/other-1.0-py3-none-any.whl: is no wheel of this"),
    "another version is there": (OLD, "1.5", spoil_nothing, "demo: is 1.5, the patch set replaces 1.0"),
    "no version is there": ({}, "", spoil_nothing, "demo: is not installed, the patch set replaces 1.0"),
    "another build is there": (OTHER_BUILD, "2.0", spoil_nothing, "demo: is 2.0, but not from this wheel: demo/data"),
    "another original is odd": (OLD, "1.0", change_the_other_package, "CHANGED"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_not_as_expected_is_refused_before_pip_runs(venv: Venv, case: str) -> None:
    files, version, spoil, said = REFUSALS[case]
    if files:
        venv.has(files, version)
    venv.lay()
    spoil(venv)
    assert said in venv.refuse()


def test_a_wheel_that_is_not_the_base_of_the_edits_is_refused_before_pip_runs(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay(base={**NEW, "demo/auto.py": b"NAMES = ['of another release']\n"})
    assert f"WHEEL {FILE}: is not the original of demo/auto.py" in venv.refuse()


def test_half_of_each_is_refused_before_pip_runs(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay()
    write(venv.tool.parent, TOOL_PATCHED)
    assert "MIXED" in venv.refuse()


def test_wheels_do_not_go_below_a_prefix(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay()
    assert "run without --prefix" in venv.refuse("install", "--prefix", "/nowhere")


def test_an_image_without_pip_is_told_what_to_do(without_pip: Venv) -> None:
    without_pip.clear()
    without_pip.has(OLD)
    without_pip.lay()
    said = without_pip.refuse()
    assert "NOPIP" in said
    assert "No module named pip" in said
    assert "ensurepip" in said


def test_where_the_wheel_is_in_already_pip_is_not_needed(without_pip: Venv) -> None:
    without_pip.clear()
    without_pip.has(NEW, "2.0")
    without_pip.lay()
    without_pip.install()
    assert without_pip.report(0)["ok"]


def test_a_wheel_that_pip_refuses_is_reported_in_its_words(venv: Venv) -> None:
    tag = "cp27-cp27m-win32"
    venv.has(OLD)
    venv.lay()
    content = wheel("demo", "2.0", NEW, tag=tag)
    manifest = json.loads((venv.program / "manifest.json").read_bytes())
    entry = WheelEntry("pin", "demo", "2.0", wheel_file("demo", "2.0", tag), digest(content), "1.0", ("demo",))
    [known] = [patchset.parse_manifest(json.dumps(manifest).encode(), "here")]
    altered = Manifest(known.name, known.python, known.roots, known.files, known.stages, (entry,))
    (venv.program / "manifest.json").write_bytes(altered.to_bytes())
    (venv.program / "wheels" / FILE).unlink()
    (venv.program / "wheels" / entry.file).write_bytes(content)
    assert "not a supported wheel on this platform" in venv.refuse()


def test_verify_names_a_wheel_whose_files_were_changed_since(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay()
    venv.install()
    (venv.site / "demo/data.txt").write_bytes(b"odd\n")
    report = venv.report(4)
    assert [w["state"] for w in report["wheels"]] == ["changed"]
    assert "demo/data.txt" in report["wheels"][0]["why"]
    assert {s["id"]: s["state"] for s in report["stages"]} == {"pin": "changed", "config": "applied", "tool": "applied"}
    assert "changed    wheel demo" in venv.run("verify").stdout


def test_verify_before_the_install_says_what_is_to_come(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay()
    report = venv.report(4)
    assert [(w["state"], w["installed"]) for w in report["wheels"]] == [("original", "1.0")]
    assert report["stages"][0]["state"] == "original"


def test_verify_without_the_wheel_cannot_say_and_says_so(venv: Venv) -> None:
    venv.has(OLD)
    venv.lay()
    venv.install()
    drop_the_wheel(venv)
    report = venv.report(4)
    assert [w["state"] for w in report["wheels"]] == ["unreadable"]
    assert FILE in report["problems"][0]
