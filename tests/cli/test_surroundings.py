"""Render in a rough world: permissions, interrupts, closed pipes, no network, two at once, files of every encoding."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.core.diagnostics import ExitCode
from tests.workspaces import CODE, LIMIT_STAGE, ROOT, TARGET, Ended, Workspace, command, faults, interruptible, replaced

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path)


def unprivileged(*arguments: str, cwd: Path) -> Ended:
    """Run a command line without the right to read and write whatever it likes, which root has."""
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root without setpriv cannot drop its rights")
        rights = "-dac_override,-dac_read_search"
        prefix = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    else:
        prefix = []
    child = subprocess.run(
        [*prefix, *command(*arguments)], cwd=cwd, env=ENVIRONMENT, capture_output=True, timeout=60, check=False
    )
    return Ended(child.returncode, child.stdout.decode(), child.stderr.decode())


# --- permissions ---


def test_a_source_that_may_not_be_read_is_named(workspace: Workspace) -> None:
    deploy = replaced(LIMIT_STAGE, "    edits", "    deploy:\n      - {source: k.py, to: pkg/k.py}\n    edits")
    workspace.pipeline(deploy)
    workspace.write("k.py", "X = 1\n").chmod(0)
    ended = unprivileged("validate", "--json", cwd=workspace.folder)
    assert faults(ended) == [
        "E121 pipeline.yaml:10:18 'k.py' cannot be read: Permission denied | Check its permissions."
    ]
    assert ended.code == ExitCode.INVALID


def test_a_pipeline_that_may_not_be_read_is_named(workspace: Workspace) -> None:
    (workspace.folder / "pipeline.yaml").chmod(0)
    ended = unprivileged("validate", "--json", cwd=workspace.folder)
    assert faults(ended) == [
        "E121 pipeline.yaml 'pipeline.yaml' cannot be read: Permission denied | Check its permissions."
    ]
    assert ended.code == ExitCode.USAGE


def test_a_file_of_the_package_that_may_not_be_read_is_named(workspace: Workspace) -> None:
    (workspace.package / "a.py").chmod(0)
    ended = unprivileged("plan", "--json", "--tree", f"pkg={workspace.package}", cwd=workspace.folder)
    assert faults(ended) == ["E306 pkg/a.py this cannot be read: Permission denied | Check its permissions and owner."]
    assert ended.code == ExitCode.USAGE


def test_a_lock_that_may_not_be_read_is_named(workspace: Workspace) -> None:
    workspace.write("pipeline.lock", "{}").chmod(0)
    ended = unprivileged("plan", "--json", "--tree", f"pkg={workspace.package}", cwd=workspace.folder)
    assert faults(ended) == [
        "E121 pipeline.lock pipeline.lock cannot be read: Permission denied | Check its permissions."
    ]


@pytest.mark.parametrize("name", ["render", "lock"])
def test_a_folder_that_may_not_be_written_is_named_and_stays_as_it_was(workspace: Workspace, name: str) -> None:
    workspace.folder.chmod(0o555)
    before = sorted(workspace.folder.iterdir())
    ended = unprivileged(name, "--json", "--tree", f"pkg={workspace.package}", cwd=workspace.folder)
    workspace.folder.chmod(0o755)
    (found,) = faults(ended)
    what = {"render": "build/", "lock": "pipeline.lock"}[name]
    assert found.startswith(f"E701 {what} cannot be written: Permission denied | ")
    assert ended.code == ExitCode.USAGE
    assert sorted(workspace.folder.iterdir()) == before


# --- what is in the way ---


def test_a_folder_with_other_files_is_never_replaced(workspace: Workspace) -> None:
    workspace.write("results/measured.csv", "1,2\n")
    ended = workspace.run("render", "--json", "--output", str(workspace.folder / "results"))
    assert faults(ended) == [
        (
            "E702 results/ holds files that are not ours (no audit.jsonl) | "
            "Move them away, or choose another folder with --output."
        )
    ]
    assert ended.code == ExitCode.USAGE
    assert workspace.built("results") == {"measured.csv": b"1,2\n"}


def test_a_file_that_somebody_put_beside_ours_is_never_removed(workspace: Workspace) -> None:
    assert workspace.run("render").code == ExitCode.OK
    workspace.write("build/notes.txt", "remember\n")
    ended = workspace.run("render", "--json")
    assert faults(ended) == [
        "E702 build/ holds what is not ours: notes.txt | Move them away, or choose another folder with --output."
    ]
    assert workspace.built()["notes.txt"] == b"remember\n"


def test_an_artefact_that_is_no_longer_rendered_goes_with_the_next_build(workspace: Workspace) -> None:
    rendering = (
        "  - id: conf\n    kind: template\n    summary: Write.\n    render:\n      - {template: t.j2, to: run.txt}\n"
    )
    workspace.write("t.j2", "x\n")
    workspace.pipeline(LIMIT_STAGE + rendering)
    assert workspace.run("render").code == ExitCode.OK
    assert "run.txt" in workspace.built()
    workspace.pipeline(LIMIT_STAGE)
    assert workspace.run("render").code == ExitCode.OK
    assert "run.txt" not in workspace.built()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_an_output_that_is_no_folder_is_never_replaced(workspace: Workspace, kind: str) -> None:
    elsewhere = workspace.folder / "elsewhere"
    elsewhere.mkdir()
    place = workspace.folder / "build"
    if kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to(elsewhere)
    ended = workspace.run("render", "--json")
    assert faults(ended) == [
        "E702 build exists and is not a folder | Move it away, or choose another folder with --output."
    ]
    assert place.is_symlink() if kind == "link" else place.read_text() == "mine"


def test_folders_that_are_named_like_former_builds_are_left_alone(workspace: Workspace) -> None:
    for name in ("build.old/mine.txt", "build.new/mine.txt"):
        workspace.write(name, "mine")
    for _ in range(2):
        assert workspace.run("render").code == ExitCode.OK
    assert workspace.built("build.old") == workspace.built("build.new") == {"mine.txt": b"mine"}


# --- two at once ---


def test_a_render_while_another_writes_is_told_so(workspace: Workspace) -> None:
    with (workspace.folder / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = workspace.run("render", "--json")
    assert faults(ended) == [
        "E703 another run is writing build/ right now | Wait for it, or choose another folder with --output."
    ]
    assert ended.code == ExitCode.USAGE
    assert workspace.run("render").code == ExitCode.OK


def test_of_renders_at_the_same_time_each_writes_all_or_nothing(workspace: Workspace) -> None:
    arguments = ["render", "--json", "--tree", f"pkg={workspace.package}"]
    children = [
        subprocess.Popen(
            command(*arguments, "--set", f"limit={value}"),
            cwd=workspace.folder,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for value in (5, 6, 7)
    ]
    ended = [Ended(child.wait(), *(text.decode() for text in child.communicate())) for child in children]
    assert all(found.err == "" for found in ended)
    written = [found for found in ended if found.code == ExitCode.OK]
    assert written
    assert all(faults(found)[0].startswith("E703 ") for found in ended if found.code != ExitCode.OK)
    assert workspace.run("audit").code == ExitCode.OK
    assert workspace.built()["patchset/overlay/pkg/a.py"] in {
        replaced(CODE, "LIMIT = 4", f"LIMIT = {value}").encode() for value in (5, 6, 7)
    }


# --- interrupts and pipes ---


def test_an_interrupt_ends_the_program_at_once_and_leaves_nothing_behind(workspace: Workspace) -> None:
    edit = 'op: assign, file: pkg/a.py, name: LIMIT, value: "${params.limit}"'
    workspace.pipeline(replaced(LIMIT_STAGE, edit, "op: transform, file: pkg/a.py, use: slow"))
    workspace.write(
        "stages/slow.py",
        "import pathlib, time\nfrom pydantic import BaseModel\nclass Params(BaseModel): ...\n"
        "def transform(module, params):\n    pathlib.Path('started').touch()\n    time.sleep(60)\n",
    )
    program = interruptible("render", "--tree", f"pkg={workspace.package}")
    child = subprocess.Popen(
        program, cwd=workspace.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (workspace.folder / "started").exists():
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (ExitCode.INTERRUPTED, b"", b"interrupted\n")
    assert not (workspace.folder / "build").exists()


@pytest.mark.parametrize("name", ["diff", "plan", "validate"])
def test_a_reader_that_has_seen_enough_is_no_fault(workspace: Workspace, name: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    tree = [] if name == "validate" else ["--tree", f"pkg={workspace.package}"]
    child = subprocess.run(
        command(name, *tree),
        cwd=workspace.folder,
        env=ENVIRONMENT,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (child.returncode, child.stderr) == (ExitCode.OK, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("name", ["diff", "plan", "validate"])
def test_output_that_cannot_be_written_is_named(workspace: Workspace, name: str) -> None:
    tree = [] if name == "validate" else ["--tree", f"pkg={workspace.package}"]
    with Path("/dev/full").open("wb") as full:
        child = subprocess.run(
            command(name, *tree),
            cwd=workspace.folder,
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert child.stderr == b"error[E700]: the output cannot be written: No space left on device\n"
    assert child.returncode == ExitCode.USAGE


# --- network ---


def test_without_network_the_first_run_says_what_is_missing_and_what_to_do(workspace: Workspace) -> None:
    workspace.write(
        "target.yaml", replaced(TARGET, "{supplied: Copy it out of the image.}", "{sdist: pkg==1.0, package: pkg}")
    )
    cache = workspace.folder / "cache"
    environment = {
        "ORCHESTRATOR_CACHE": str(cache),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple/",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_NO_INDEX": "",
        "PIP_FIND_LINKS": "",
        "PIP_TIMEOUT": "2",
    }
    assert workspace.spawn("validate", environment=environment).code == ExitCode.OK
    for name in ("plan", "diff", "render", "verify", "lock"):
        child = subprocess.run(
            command(name, "--json"),
            cwd=workspace.folder,
            env={**ENVIRONMENT, **environment},
            capture_output=True,
            timeout=120,
            check=False,
        )
        ended = Ended(child.returncode, child.stdout.decode(), child.stderr.decode())
        assert ended.err == ""
        assert faults(ended) == [
            (
                f"E301 `{name}` needs the source distribution pkg==1.0: pkg==1.0 cannot be fetched: "
                f"not every source answers | Run `{name}` once with network, or put the file at "
                f"{cache}/sdist/pkg-1.0.tar.gz."
            )
        ]
        assert ended.code == ExitCode.INVALID


# --- bytes ---

READER = "from pkg.a import LIMIT\n\nprint(LIMIT)\n"
ENCODED = {
    "CRLF": CODE.replace("\n", "\r\n").encode(),
    "byte order mark": codecs.BOM_UTF8 + CODE.encode(),
    "byte order mark and CRLF": codecs.BOM_UTF8 + CODE.replace("\n", "\r\n").encode(),
    "latin-1 cookie": b"# -*- coding: latin-1 -*-\nNAME = 'caf\xe9'\n" + CODE.encode(),
    "form feed": CODE.replace("\n\ndef second", "\n\f\ndef second").encode(),
    "form feed before the edit": b"\f\n" + CODE.encode(),
    "no last newline": CODE.rstrip("\n").encode(),
    "edit in the last line without newline": b"import os\nLIMIT = 4",
    "blanks at the ends of lines": CODE.replace("\n", "  \n").encode(),
    "mixed line ends": CODE.replace("\n", "\r\n", 4).encode(),
    "lone carriage returns": b"A = 1\rLIMIT = 4\rB = 2\r",
    "not ASCII before the edit": "NAME = 'größer'; LIMIT = 4  # größer\n".encode(),
    "tabs": CODE.replace("    ", "\t").encode(),
}


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in ENCODED])
def test_bytes_outside_of_the_edit_stay_as_they_are(workspace: Workspace, case: str) -> None:
    before = ENCODED[case]
    workspace.base({"a.py": before, "uses.py": READER})
    assert workspace.run("render").code == ExitCode.OK
    assert workspace.built()["patchset/overlay/pkg/a.py"] == before.replace(b"LIMIT = 4", b"LIMIT = 8")


@pytest.mark.parametrize("case", [pytest.param(name, id=name) for name in ENCODED])
def test_the_patch_of_a_stage_gives_the_bytes_of_the_overlay(workspace: Workspace, case: str) -> None:
    workspace.base({"a.py": ENCODED[case], "uses.py": READER})
    assert workspace.run("render").code == ExitCode.OK
    built = workspace.built()
    patch = workspace.folder / "build" / "patches" / "01-limit.patch"
    subprocess.run(["git", "init", "-q", "."], cwd=workspace.package.parent, check=True)
    subprocess.run(["git", "apply", "--whitespace=nowarn", patch], cwd=workspace.package.parent, check=True)
    assert (workspace.package / "a.py").read_bytes() == built["patchset/overlay/pkg/a.py"]


# --- the same again ---


def test_two_renders_differ_in_the_run_record_only(workspace: Workspace) -> None:
    assert workspace.spawn("render", environment={"SOURCE_DATE_EPOCH": "1000000000"}).code == ExitCode.OK
    first = workspace.built()
    shutil.rmtree(workspace.folder / "build")
    second_run = workspace.spawn(
        "render", environment={"SOURCE_DATE_EPOCH": "1100000000", "LOGNAME": "another", "PYTHONHASHSEED": "7"}
    )
    assert second_run.code == ExitCode.OK
    second = workspace.built()
    assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} == {"audit.jsonl"}
    *one, one_run = first["audit.jsonl"].splitlines()
    *two, two_run = second["audit.jsonl"].splitlines()
    assert one == two
    changed = {key for key, value in json.loads(one_run).items() if json.loads(two_run)[key] != value}
    assert {"time", "user"} <= changed <= {"time", "user", "digest"}


def test_a_tight_umask_changes_no_mode(workspace: Workspace) -> None:
    modes = []
    for umask in ("022", "077"):
        folder = workspace.folder / f"build-{umask}"
        program = command("render", "--tree", f"pkg={workspace.package}", "--output", str(folder))
        program[2] = f"import os; os.umask(0o{umask}); {program[2]}"
        subprocess.run(program, cwd=workspace.folder, env=ENVIRONMENT, capture_output=True, timeout=60, check=True)
        modes.append({p.relative_to(folder).as_posix(): p.stat().st_mode for p in [folder, *folder.rglob("*")]})
    assert modes[0] == modes[1]
    assert {oct(mode & 0o777) for mode in modes[0].values()} == {"0o755", "0o644"}
