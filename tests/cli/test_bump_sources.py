"""Where the bases of a bump come from, several at once, and on the releases that the project is made for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.origin.images import docker_save, layer, oci
from tests.origin.test_sdist import QUIET, serving
from tests.workspaces import (
    CODE,
    LIMIT_STAGE,
    ROOT,
    TARGET,
    Ended,
    Workspace,
    interruptible,
    replaced,
    run_cli,
    spawn_cli,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RELEASES = {
    "1.0": CODE,
    "1.1": replaced(CODE, "LIMIT = 4\n", "LIMIT = 4\nDEPTH = 2\n"),
    "1.2": replaced(CODE, "LIMIT = 4\n", "LIMIT = 5\nDEPTH = 2\n"),
    "2.0": replaced(CODE, "LIMIT = 4\n", ""),
}
WHEEL_ONLY = "1.3"
STAGE = replaced(LIMIT_STAGE, "name: LIMIT, value", 'name: LIMIT, from: "4", value')


def packed(version: str, code: str) -> bytes:
    files = {"pkg/__init__.py": "", "pkg/a.py": code, "setup.py": "raise SystemExit(1)\n"}
    return layer({f"pkg-{version}/{name}": text.encode() for name, text in files.items()}, "w:gz")


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[tuple[Workspace, dict[str, str], list[str]]]:
    """A workspace whose base is a release on an index over HTTP, the environment for that, what the index is asked."""
    page = tmp_path / "site" / "simple" / "pkg"
    page.mkdir(parents=True)
    names = [f"pkg-{version}.tar.gz" for version in RELEASES]
    for name, (version, code) in zip(names, RELEASES.items(), strict=True):
        (page / name).write_bytes(packed(version, code))
    links = [f'<a href="{name}">{name}</a>' for name in [*names, f"pkg-{WHEEL_ONLY}-py3-none-any.whl"]]
    (page / "index.html").write_text("\n".join(links), encoding="utf-8")
    workspace = Workspace.at(tmp_path, STAGE)
    workspace.write(
        "target.yaml", replaced(TARGET, "{supplied: Copy it out of the image.}", "{sdist: pkg==1.0, package: pkg}")
    )
    with serving(tmp_path / "site") as (url, asked):
        cache = str(tmp_path / "cache")
        yield workspace, {**QUIET, "PIP_INDEX_URL": f"{url}/simple", "ORCHESTRATOR_CACHE": cache}, asked


def bases(ended: Ended) -> dict[str, tuple[str, ...]]:
    """Return the verdicts of every part by base, `no source` where a base has none."""
    found: dict[str, tuple[str, ...]] = {}
    for record in ended.records():
        if record["event"] == "bump-base":
            found[record["base"]] = () if record["source"] else ("no source",)
        elif record["event"] == "bump":
            found[record["base"]] += (record["verdict"],)
    return found


def test_a_range_is_held_against_the_index_and_each_source_is_fetched_once(
    indexed: tuple[Workspace, dict[str, str], list[str]],
) -> None:
    workspace, environment, asked = indexed
    told = {"pkg==1.0": ("exact",), "pkg==1.1": ("adapted",), "pkg==1.2": ("gone",), "pkg==1.3": ("no source",)}
    arguments = ("bump", "--json", "--to", "pkg>=1.0,<2")
    ended = spawn_cli(*arguments, "-j2", cwd=workspace.folder, environment=environment)
    assert (ended.code, bases(ended)) == (4, told), ended
    for version in ("1.0", "1.1", "1.2"):
        assert sum(f"pkg-{version}.tar.gz" in path for path in asked) == 1
    # Offline the range is what the cache has; what was judged side by side is judged the same one after the other.
    alone = spawn_cli(*arguments, "--offline", "-j1", cwd=workspace.folder, environment=environment)
    assert bases(alone) == {name: fates for name, fates in told.items() if fates != ("no source",)}
    both = spawn_cli(*arguments, "--offline", "-j2", cwd=workspace.folder, environment=environment)
    assert (both.code, both.records()) == (alone.code, alone.records())


def test_of_a_range_only_the_newest_patches_are_taken_that_have_a_source(
    indexed: tuple[Workspace, dict[str, str], list[str]],
) -> None:
    workspace, environment, _ = indexed
    arguments = ("--to", "pkg", "--to", "pkg>=1", "--newest-patch", "--brief")
    ended = spawn_cli("bump", "--json", *arguments, cwd=workspace.folder, environment=environment)
    assert list(bases(ended)) == ["pkg==2.0", *(f"pkg=={v}" for v in ("1.0", "1.1", "1.2", "1.3"))]


def test_what_was_accepted_on_another_release_is_exact_there_and_the_rest_of_the_lock_stays(
    indexed: tuple[Workspace, dict[str, str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, environment, _ = indexed
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    to = ("bump", "--json", "-j1", "--to", "pkg==1.0", "--to", "pkg==1.1")
    assert run_cli("lock", cwd=workspace.folder).code == 0
    assert bases(run_cli(*to, cwd=workspace.folder)) == {"pkg==1.0": ("exact",), "pkg==1.1": ("adapted",)}
    before = (workspace.folder / "pipeline.lock").read_bytes()
    shown = run_cli("lock", "--accept", "limit", "--to", "pkg==1.1", "--check", cwd=workspace.folder)
    assert (shown.code, (workspace.folder / "pipeline.lock").read_bytes()) == (6, before)
    ended = run_cli("lock", "--accept", "limit", "--to", "pkg==1.1", cwd=workspace.folder)
    assert (ended.code, "+DEPTH = 2" in ended.out) == (0, True), ended
    again = run_cli(*to, cwd=workspace.folder)
    assert (again.code, bases(again)) == (0, {"pkg==1.0": ("exact",), "pkg==1.1": ("exact",)}), again
    refused = run_cli("lock", "--accept", "limit", "--to", "pkg==2.0", cwd=workspace.folder)
    assert (refused.code, "E403" in refused.err) == (4, True), refused


@pytest.mark.parametrize("form", ["a file", "exported by docker save", "exported by docker export"])
def test_an_image_is_a_base(tmp_path: Path, form: str) -> None:
    workspace = Workspace.at(tmp_path, STAGE)
    files = {"opt/lib/pkg/__init__.py": b"", "opt/lib/pkg/a.py": RELEASES["1.1"].encode()}
    layers = [
        layer({**files, "opt/lib/pkg/a.py": CODE.encode()}),
        layer({"opt/lib/pkg/a.py": files["opt/lib/pkg/a.py"]}),
    ]
    name, stdin = "-", layer(files) if form.endswith("docker export") else docker_save(layers)
    if form == "a file":
        name, stdin = str(workspace.write("image.tar", layer(oci(layers)))), b""
    known = ("--base", f"pkg={workspace.package}")
    ended = run_cli("bump", "--json", "--image", name, *known, cwd=workspace.folder, stdin=stdin)
    assert (ended.code, bases(ended)) == (4, {name: ("adapted",)}), ended
    (part,) = (record for record in ended.records() if record["event"] == "bump")
    assert "+DEPTH = 2" in part["diff"]


SLOW = """\
import os, pathlib, time
from pydantic import BaseModel
class Params(BaseModel): ...
def transform(module, params):
    if "SLOW" in module.code:
        pathlib.Path(f"started-{os.getpid()}").touch()
        time.sleep(60)
    return module.with_changes(footer=[])
"""


@pytest.mark.parametrize("who", ["the program", "its whole group"])
def test_an_interrupt_ends_a_bump_and_all_who_work_for_it(tmp_path: Path, who: str) -> None:
    workspace = Workspace.at(
        tmp_path, replaced(STAGE, "- {op: assign", "- {op: transform, file: pkg/a.py, use: slow}\n      - {op: assign")
    )
    workspace.write("stages/slow.py", SLOW)
    workspace.base({"a.py": CODE + "\n\n# the end\n"})
    trees = []
    for name in ("one", "two"):
        other = tmp_path / name / "pkg"
        other.mkdir(parents=True)
        (other / "__init__.py").write_text("")
        (other / "a.py").write_text(f"{CODE}SLOW = 1\n")
        trees += ["--tree", f"pkg={other}"]
    program = interruptible("bump", "-j2", "--base", f"pkg={workspace.package}", *trees)
    child = subprocess.Popen(
        program,
        cwd=workspace.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while len(started := list(workspace.folder.glob("started-*"))) < len(trees) // 2:
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    os.kill(-child.pid if who == "its whole group" else child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, b"", b"interrupted\n")
    for path in started:
        ends(int(path.name.partition("-")[2]))


def ends(process: int) -> None:
    """Wait until a process is no more; one that nobody asks for its end yet has ended all the same."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        time.sleep(0.02)
    pytest.fail(f"process {process} is still there")


# --- the project's own pipeline


def test_on_the_release_that_it_is_made_for_all_is_exact_and_on_a_later_one_it_is_told() -> None:
    arguments = ("--to", "vllm==0.6.3", "--to", "vllm==0.6.6")
    ended = run_cli("bump", "--json", "-j1", *arguments, cwd=ROOT)
    stages: dict[str, dict[str, str]] = {}
    records: list[dict[str, Any]] = ended.records()
    for record in records:
        if record["event"] == "bump-stage":
            stages.setdefault(record["base"], {})[record["stage"]] = record["verdict"]
    own, later = stages["vllm==0.6.3"], stages["vllm==0.6.6"]
    assert own.keys() == later.keys()
    assert set(own.values()) <= {"exact", "off"}
    assert ended.code == 4
    kept = {"transformers-pin", "qwen3-5-config", "logits-without-groups", "muh-dispatch", "run-config-render"}
    assert {stage for stage, verdict in later.items() if verdict == "exact"} == kept
    assert later["cached-tokens"] == later["triton-enable"] == "gone"
    assert later["delta"] == "conflict"
    told = [r for r in records if r["event"] == "bump" and r["base"] == "vllm==0.6.6" and r["verdict"] != "exact"]
    assert all(r["detail"] or r["notes"] or r["declared"] or r["verdict"] in {"off", "already present"} for r in told)
    shown: Mapping[str, bool] = {r["stage"]: bool(r["diff"]) for r in told if r["verdict"] == "adapted"}
    assert all(shown.values()), shown


def test_offline_a_range_that_only_the_index_fills_says_so(
    indexed: tuple[Workspace, dict[str, str], list[str]],
) -> None:
    workspace, environment, _ = indexed
    assert workspace.spawn("bump", "--to", "pkg==1.0", environment=environment).code == 0
    ended = workspace.spawn("bump", "--to", "pkg>=1.1", "--offline", environment=environment)
    assert ended.code == 2
    assert "no release of pkg that is in the cache fits" in ended.err
    assert "Without --offline the index is asked." in ended.err


def test_a_release_and_a_tree_at_once_are_not_accepted(
    indexed: tuple[Workspace, dict[str, str], list[str]],
) -> None:
    workspace, environment, _ = indexed
    known = ["--to", "pkg==1.0", "--tree", f"pkg={workspace.package}"]
    ended = workspace.spawn("lock", "--accept", "limit", *known, environment=environment)
    assert (ended.code, "--to is one base, --tree is another" in ended.err) == (2, True), ended
