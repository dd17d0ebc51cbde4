"""`render --matrix` and `plan --matrix`: every target under every variant, shared work, one swap, a bake file."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.cli import matrix
from orchestrator.core.diagnostics import ExitCode
from tests.workspaces import HEAD, LIMIT_STAGE, TARGET, Workspace, faults, replaced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VARIANTS = "variants: {fast: {limit: 16}, wordy: {word: other}}\n"
MATRIX = replaced(HEAD, "target: target.yaml\n", f"target: target.yaml\ntargets: [crate.yaml]\n{VARIANTS}")
CRATE = TARGET.replace("name: box", "name: crate").replace("example.org/box:1", "example.org/crate:2")
CELLS = ["box/default", "box/fast", "box/wordy", "crate/default", "crate/fast", "crate/wordy"]
BESIDE = {"audit.jsonl", "docker-bake.json", "summary.json", "summary.md"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, head=MATRIX)
    made.write("crate.yaml", CRATE)
    return made


def records(workspace: Workspace, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the cells of a render, by name."""
    ended = workspace.run("render", "--matrix", "--json", *arguments)
    return {record["folder"]: record for record in ended.records() if record["event"] == "cell"}


def test_each_target_has_a_folder_for_each_variant(workspace: Workspace) -> None:
    ended = workspace.run("render", "--matrix")
    assert ended.code == ExitCode.OK
    built = workspace.built()
    assert {name for name in built if "/" not in name} == BESIDE
    assert sorted({"/".join(name.split("/")[:2]) for name in built if "/" in name}) == CELLS
    assert b"LIMIT = 8" in built["crate/default/patchset/overlay/pkg/a.py"]
    assert b"LIMIT = 16" in built["crate/fast/patchset/overlay/pkg/a.py"]
    assert all(f"{cell} " in ended.out for cell in CELLS)


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_what_a_render_of_it_alone_is(workspace: Workspace, cell: str) -> None:
    target, variant = cell.split("/")
    arguments = ["--target", "crate.yaml"] if target == "crate" else []
    arguments += [] if variant == "default" else ["--variant", variant]
    assert workspace.run("render", "--output", "alone", *arguments).code == ExitCode.OK
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    alone, built = workspace.built("alone"), workspace.built()
    found = {name.removeprefix(f"{cell}/"): raw for name, raw in built.items() if name.startswith(f"{cell}/")}
    assert found.keys() == alone.keys()
    assert {name for name in alone if found[name] != alone[name]} <= {"audit.jsonl"}  # who ran it, when, with what
    assert found["audit.jsonl"].splitlines()[:-1] == alone["audit.jsonl"].splitlines()[:-1]


def test_two_renders_differ_in_nothing_but_the_run_records(workspace: Workspace) -> None:
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    first = workspace.built()
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    second = workspace.built()
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} <= {
        name for name in first if name.endswith("audit.jsonl") and "patchset" not in name
    }


def counted(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[object]:
    """Count the calls of a function of a module."""
    calls: list[object] = []
    real: Callable[..., object] = getattr(module, name)

    def call(*arguments: object, **named: object) -> object:
        calls.append(arguments)
        return real(*arguments, **named)

    monkeypatch.setattr(module, name, call)
    return calls


def test_what_cells_share_is_made_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workspace.run("lock").code == ExitCode.OK
    fetched = counted(monkeypatch, matrix, "tree_of")
    ran = counted(monkeypatch, matrix, "run_on")
    (summary,) = [r for r in workspace.run("render", "--matrix", "--json").records() if r["event"] == "matrix"]
    assert len(fetched) == 1  # both targets have the same origin and the same roots
    assert len(ran) == 4  # two targets, and the parameter of `wordy` is one that no stage uses
    assert summary["made"] == {"bases": 1, "runs": 4, "files": 3}  # the base's file, and what two limits make of it


def test_a_base_that_differs_is_fetched_for_itself(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.write("crate.yaml", CRATE.replace("roots: {pkg: [/opt/lib/pkg]}", "roots: {pkg: [/x/pkg], other: [/o]}"))
    assert workspace.run("lock").code == ExitCode.OK
    fetched = counted(monkeypatch, matrix, "tree_of")
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    assert len(fetched) == 2


def test_a_file_of_the_workspace_is_read_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    made = matrix.Shared.reader

    def only_of_plans(self: matrix.Shared, reader: Callable[[str], bytes]) -> Callable[[str], bytes]:
        def noting(path: str) -> bytes:
            read.append(path)
            return reader(path)

        return made(self, noting)

    monkeypatch.setattr(matrix.Shared, "reader", only_of_plans)
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    assert sorted(read) == sorted(set(read))
    assert {"pipeline.yaml", "target.yaml", "crate.yaml", "templates/Dockerfile.j2"} <= set(read)


# --- failure ---

BROKEN = "  - id: broken\n    kind: codemod\n    summary: It has no target here.\n    enabled: ${params.broken}\n"
BROKEN += "    edits:\n      - {op: delete, file: pkg/a.py, match: nothing_like_this()}\n"


def with_broken(workspace: Workspace) -> None:
    head = replaced(MATRIX, "word: text}", "word: text, broken: false}")
    workspace.pipeline(LIMIT_STAGE + BROKEN, replaced(head, "fast: {limit: 16}", "fast: {broken: true}"))


def test_one_failing_cell_leaves_build_alone_and_every_failing_cell_is_told(workspace: Workspace) -> None:
    assert workspace.run("render").code == ExitCode.OK
    before = workspace.built()
    with_broken(workspace)
    ended = workspace.run("render", "--matrix")
    assert ended.code == ExitCode.NOT_APPLIED
    assert workspace.built() == before
    assert "2 of 6 cells failed: box/fast, crate/fast" in ended.err
    assert ended.err.count("error[E403]") == 1  # one finding, told once, with the cells that have it
    assert "in box/fast, crate/fast" in ended.err
    outcomes = {name: record["outcome"] for name, record in records(workspace).items()}
    assert [name for name, outcome in outcomes.items() if outcome == "failed"] == ["box/fast", "crate/fast"]


def test_the_exit_code_is_the_worst_of_the_cells(workspace: Workspace) -> None:
    with_broken(workspace)
    workspace.write("crate.yaml", "version: 1\n")
    found = {name: record["exit"] for name, record in records(workspace).items()}
    assert found["box/fast"] == ExitCode.NOT_APPLIED
    assert {found[name] for name in found if name.startswith("crate/")} == {ExitCode.INVALID}
    assert found["box/default"] == ExitCode.OK
    assert workspace.run("render", "--matrix").code == ExitCode.NOT_APPLIED
    assert workspace.run("render", "--cell", "crate/*").code == ExitCode.INVALID


def test_a_target_that_is_not_there_fails_its_own_cells_alone(workspace: Workspace) -> None:
    (workspace.folder / "crate.yaml").unlink()
    ended = workspace.run("plan", "--matrix", "--json")
    assert {r["folder"]: r["outcome"] for r in ended.records() if r["event"] == "cell"} == {
        name: "failed" if name.startswith("crate/") else "planned" for name in CELLS
    }
    assert ended.code == ExitCode.INVALID
    (fault,) = faults(ended)
    assert fault.startswith("E120 pipeline.yaml:4:11 'crate.yaml' does not exist in the workspace")


@pytest.mark.parametrize(
    ("crate", "told"),
    [
        (None, "E120 pipeline.yaml:4:11 'crate.yaml' does not exist"),
        ("name: crate\n", "E111 crate.yaml:1:1 key 'version' is missing"),
        ("version: [\n", "E103 crate.yaml"),
    ],
)
def test_a_further_target_that_is_wrong_is_known_without_a_tree(
    workspace: Workspace, crate: str | None, told: str
) -> None:
    assert workspace.run("validate").code == ExitCode.OK
    if crate is None:
        (workspace.folder / "crate.yaml").unlink()
    else:
        workspace.write("crate.yaml", crate)
    ended = workspace.run("validate", "--json")
    assert ended.code == ExitCode.INVALID
    assert any(fault.startswith(told) for fault in faults(ended)), faults(ended)


def test_with_locked_what_is_not_locked_fails_every_cell(workspace: Workspace) -> None:
    ended = workspace.run("render", "--matrix", "--locked")
    assert ended.code == ExitCode.MISMATCH
    assert ended.err.count("error[E602]") == 1
    assert not (workspace.folder / "build").exists()


@pytest.mark.parametrize(
    ("head", "code", "said"),
    [
        (("targets: [crate.yaml]", "targets: [target.yaml]"), "E270", "'target.yaml' is listed twice"),
        (
            ("target: target.yaml\ntargets: [crate.yaml]", "target: &own target.yaml\ntargets: [*own]"),
            "E270",
            "'target.yaml' is listed twice",
        ),
        (("fast:", "'..':"), "E271", "variant '..' cannot be the name of a folder"),
        (("fast:", "'a/b':"), "E271", "variant 'a/b' cannot be the name of a folder"),
        (("fast:", "'':"), "E271", "variant '' cannot be the name of a folder"),
        (("fast:", '"a\\nb":'), "E271", "cannot be the name of a folder"),
        (("fast:", ".hidden:"), "E271", "variant '.hidden' cannot be the name of a folder"),
        (("fast:", f"{'x' * 101}:"), "E271", "cannot be the name of a folder"),
        (("fast:", "default:"), "E270", "a variant is called 'default'"),
        (("fast:", "Wordy:"), "E270", "variants 'Wordy' and 'wordy' differ in case alone"),
    ],
)
def test_names_that_cannot_be_folders_are_refused(
    workspace: Workspace, head: tuple[str, str], code: str, said: str
) -> None:
    workspace.pipeline(LIMIT_STAGE, replaced(MATRIX, *head))
    ended = workspace.run("render", "--matrix", "--json")
    assert ended.code == ExitCode.INVALID
    (fault,) = faults(ended)
    assert fault.startswith(f"{code} pipeline.yaml:")
    assert said in fault
    assert not (workspace.folder / "build").exists()


def test_two_targets_of_one_name_are_refused_with_both_files(workspace: Workspace) -> None:
    workspace.write("crate.yaml", TARGET)
    (fault,) = faults(workspace.run("plan", "--matrix", "--json"))
    assert fault.startswith("E270 pipeline.yaml:4:11 two targets are called 'box': target.yaml and crate.yaml")


def test_without_the_option_such_names_are_fine(workspace: Workspace) -> None:
    workspace.pipeline(LIMIT_STAGE, replaced(MATRIX, "fast:", "'..':"))
    assert workspace.run("render", "--variant", "..").code == ExitCode.OK


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--matrix", "--variant", "fast"], "--variant is one, --matrix is all of them"),
        (["--matrix", "--target", "crate.yaml"], "--target is one, --matrix is all of them"),
        (["--matrix", "--against", "build"], "--against compares one render"),
        (["--cell", "box/fats"], "--cell box/fats: there is no such cell | did you mean 'box/fast'?"),
        (["--matrix", "--tree", "pkg=-"], "can be read once, and the matrix has several targets"),
    ],
)
def test_what_does_not_go_with_a_matrix_is_a_usage_error(workspace: Workspace, arguments: list[str], said: str) -> None:
    ended = workspace.run("render", "--json", *arguments)
    assert ended.code == ExitCode.USAGE
    assert said in faults(ended)[0]


def test_a_pipeline_without_targets_and_variants_is_a_matrix_of_one(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    assert list(records(workspace)) == ["box/default"]


def test_a_matrix_without_a_pipeline_or_a_target_says_what_is_missing(workspace: Workspace) -> None:
    workspace.pipeline(LIMIT_STAGE, MATRIX.replace("target: target.yaml\ntargets: [crate.yaml]\n", ""))
    ended = workspace.run("render", "--matrix", "--json")
    assert ended.code == ExitCode.INVALID
    assert faults(ended)[0].startswith("E111")
    (workspace.folder / "pipeline.yaml").unlink()
    assert workspace.run("render", "--matrix").code == ExitCode.USAGE


def test_only_the_cells_that_are_named_are_made(workspace: Workspace) -> None:
    assert list(records(workspace, "--cell", "*/fast")) == ["box/fast", "crate/fast"]
    assert {name.split("/")[0] for name in workspace.built()} == BESIDE | {"box", "crate"}
    assert list(records(workspace, "--cell", "box/default", "--cell", "crate/wordy")) == ["box/default", "crate/wordy"]


# --- one folder, one swap ---


def test_a_matrix_and_a_single_render_take_each_other_s_place(workspace: Workspace) -> None:
    assert workspace.run("render").code == ExitCode.OK
    single = set(workspace.built())
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    assert single.isdisjoint(set(workspace.built()) - {"audit.jsonl"})
    assert workspace.run("render", "--cell", "box/default").code == ExitCode.OK
    assert workspace.run("render").code == ExitCode.OK
    assert set(workspace.built()) == single


def test_files_that_are_not_ours_are_left_alone(workspace: Workspace) -> None:
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    workspace.write("build/notes.txt", "mine")
    ended = workspace.run("render", "--matrix", "--json")
    assert ended.code == ExitCode.USAGE
    assert "E702 build/ holds what is not ours: notes.txt" in faults(ended)[0]
    assert (workspace.folder / "build/notes.txt").read_text() == "mine"


def test_a_process_that_dies_while_it_writes_leaves_the_old_whole(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    before = workspace.built()
    workspace.write("crate.yaml", CRATE.replace("crate:2", "crate:3"))
    writes = 0
    real = os.fsync

    def dies(descriptor: int) -> None:
        nonlocal writes
        writes += 1
        if writes > 40:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", dies)
    assert workspace.run("render", "--matrix").code == ExitCode.USAGE
    assert writes > 40
    assert workspace.built() == before


# --- what stands beside the cells ---


def test_the_summary_has_every_cell_with_its_digests(workspace: Workspace) -> None:
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    built = workspace.built()
    summary = json.loads(built["summary.json"])
    assert [cell["folder"] for cell in summary["cells"]] == CELLS
    for cell in summary["cells"]:
        log = [json.loads(line) for line in built[f"{cell['folder']}/patchset/audit.jsonl"].splitlines()]
        assert cell["patchset"] == log[-1]["patchset_digest"]
        assert cell["stages"] == {"in_effect": 1, "skipped": 0, "failed": []}
    page = built["summary.md"].decode()
    assert all(f"[{cell}]({cell}/report.md)" in page for cell in CELLS)
    assert all(f"{link}" in built for link in re.findall(r"\]\(([^)]+)\)", page))


def test_the_audit_of_a_matrix_looks_into_every_cell(workspace: Workspace) -> None:
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    ended = workspace.run("audit", "build")
    assert ended.code == ExitCode.OK
    assert all(f"{cell} " in ended.out for cell in CELLS)
    assert workspace.run("audit", "build/box/fast").code == ExitCode.OK


@pytest.mark.parametrize(
    "changed",
    [
        "crate/fast/Dockerfile",
        "crate/fast/patchset/overlay/pkg/a.py",
        "crate/fast/audit.jsonl",
        "crate/fast/patchset/audit.jsonl",
        "docker-bake.json",
        "summary.json",
        "summary.md",
        "audit.jsonl",
    ],
)
def test_a_file_of_a_matrix_that_was_changed_or_removed_is_found(workspace: Workspace, changed: str) -> None:
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    file = workspace.folder / "build" / changed
    content = file.read_bytes()
    file.write_bytes(content.replace(b"a", b"b", 1))
    assert workspace.run("audit", "build").code == ExitCode.MISMATCH
    file.write_bytes(content)
    assert workspace.run("audit", "build").code == ExitCode.OK
    file.unlink()
    expected = ExitCode.USAGE if changed == "audit.jsonl" else ExitCode.MISMATCH
    assert workspace.run("audit", "build").code == expected


def test_a_cell_s_log_in_another_cell_s_place_and_a_file_too_many_are_found(workspace: Workspace) -> None:
    assert workspace.run("render", "--matrix").code == ExitCode.OK
    build = workspace.folder / "build"
    (build / "box/extra").write_text("x")
    ended = workspace.run("audit", "build", "--json")
    (fault,) = faults(ended)
    assert fault.startswith("E614 box/extra box/extra is not in the audit | The folder was changed")
    (build / "box/extra").unlink()
    (build / "crate/fast").rename(build / "moved")
    (build / "crate/wordy").rename(build / "crate/fast")
    (build / "moved").rename(build / "crate/wordy")
    assert workspace.run("audit", "build").code == ExitCode.MISMATCH


def test_a_plan_of_a_matrix_shows_each_stage_in_each_cell_and_writes_nothing(workspace: Workspace) -> None:
    with_broken(workspace)
    ended = workspace.run("plan", "--matrix", "--json")
    assert ended.code == ExitCode.NOT_APPLIED
    outcomes = {(r["stage"], r["cell"]): r["outcome"] for r in ended.records() if r["event"] == "stage"}
    assert {cell for _, cell in outcomes} == set(CELLS)
    assert outcomes["broken", "box/fast"] == "failed"
    assert outcomes["broken", "box/default"] == "skipped"
    shown = workspace.run("plan", "--matrix").out
    (row,) = [line for line in shown.splitlines() if line.startswith("broken")]
    assert row.count("skipped") == 4
    assert row.count("failed") == 2
    assert not (workspace.folder / "build").exists()
    assert workspace.run("plan", "--matrix", "--format", "dot").code == ExitCode.USAGE


def test_each_target_can_be_locked_and_the_lock_holds_all(workspace: Workspace) -> None:
    assert workspace.run("lock").code == ExitCode.OK
    assert workspace.run("lock", "--target", "crate.yaml").code == ExitCode.OK
    assert workspace.run("render", "--matrix", "--locked").code == ExitCode.OK


def test_a_change_in_a_further_target_reaches_the_stages(workspace: Workspace) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=workspace.folder, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all")
    assert workspace.run("plan", "--touched-by", "HEAD", "--fail-if-none").code == ExitCode.NO
    workspace.write("crate.yaml", CRATE.replace("crate:2", "crate:3"))
    ended = workspace.run("plan", "--touched-by", "HEAD", "--fail-if-none", "--json")
    assert ended.code == ExitCode.OK
    (whole,) = [record for record in ended.records() if record["event"] != "touched"]
    assert whole["none"] is False
