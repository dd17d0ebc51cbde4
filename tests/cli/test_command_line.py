"""The command line itself: what it names and is not there, its exit codes, its help, its JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli.app import run_app
from orchestrator.core.diagnostics import ExitCode
from orchestrator.emit.starting import starter_files
from tests.workspaces import HEAD, LIMIT_STAGE, ROOT, Ended, Workspace, faults, replaced, run_cli, spawn_cli

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = (
    *("init", "match", "validate", "plan", "diff", "render", "verify", "audit", "lock", "bump", "inspect", "tune"),
    *("sweep", "explain"),
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.at(tmp_path, head=replaced(HEAD, "stages:", "variants: {big: {limit: 16}}\nstages:"))


# --- what is named and is not there ---


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--variant", "bgi"), ["E202 --variant bgi: there is no such variant | did you mean 'big'?"]),
        (("--set", "limt=3"), ["E201 --set limt: there is no such parameter | did you mean 'limit'?"]),
        (("--set", "limit"), ["E203 --set limit: not NAME=VALUE | Write --set max_num_seqs=16."]),
        (("--set", "=3"), ["E203 --set =3: not NAME=VALUE | Write --set max_num_seqs=16."]),
        *(
            (
                ("--set", f"limit={value}"),
                [
                    (
                        f"E203 pipeline.yaml:4:17 --set limit={value}: the parameter takes a whole number | "
                        "Give a value like the one in `params:`, 8."
                    )
                ],
            )
            for value in ("many", "1.5", "true", "", "[1]", "~", "'")
        ),
        (
            ("--set", "limit=x", "--set", "wrd=y"),
            [
                (
                    "E203 pipeline.yaml:4:17 --set limit=x: the parameter takes a whole number | "
                    "Give a value like the one in `params:`, 8."
                ),
                "E201 --set wrd: there is no such parameter | did you mean 'word'?",
            ],
        ),
        (
            ("--target", "targt.yaml"),
            ["E120 --target: 'targt.yaml' does not exist in the workspace | did you mean 'target.yaml'?"],
        ),
        (
            ("--target", "/etc/passwd"),
            [
                (
                    "E122 --target: '/etc/passwd' leaves the workspace | "
                    "Name a file relative to `pipeline.yaml`, without `..`."
                )
            ],
        ),
        (
            ("--file", "pipelin.yaml"),
            ["E120 'pipelin.yaml' does not exist in the workspace | did you mean 'pipeline.yaml'?"],
        ),
        (
            ("--file", "x"),
            [
                (
                    "E120 'x' does not exist in the workspace | "
                    "Name it with --file, or its folder with --workspace; `orchestrator init` writes a starter."
                )
            ],
        ),
        (("--workspace", "nowhere"), ["E126 there is no folder nowhere | Name the workspace with --workspace."]),
        (
            ("--varian", "big"),
            [
                (
                    "E700 No such option: --varian (Possible options: --variant) | "
                    "`orchestrator validate --help` shows how it is used."
                )
            ],
        ),
    ],
)
def test_what_the_command_line_names_wrongly_is_a_usage_error(
    workspace: Workspace, arguments: tuple[str, ...], expected: list[str]
) -> None:
    ended = workspace.run("validate", "--json", *arguments)
    assert faults(ended) == expected
    assert ended.code == ExitCode.USAGE


@pytest.mark.parametrize("value", ["3", "no", "2026-01-01", "", "a: b", "${params.limit}"])
def test_a_text_parameter_takes_what_is_given_as_it_stands(workspace: Workspace, value: str) -> None:
    assert workspace.plan(word=value).values["params.word"] == value


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (
            "pgk={package}",
            (
                "E131 --tree pgk={package}: 'pgk' is not a package root of target 'box' | "
                "Write --tree ROOT=PATH; did you mean 'pkg'?"
            ),
        ),
        (
            "{package}",
            (
                "E131 --tree {package}: '{package}' is not a package root of target 'box' | "
                "Write --tree ROOT=PATH; known: pkg"
            ),
        ),
        (
            "pkg={package}/..",
            "E307 {package}/.. this folder holds the package `pkg` but is not it | did you mean '{package}/../pkg'?",
        ),
        (
            "pkg={package}/nowhere",
            (
                "E304 {package}/nowhere the archive cannot be read: No such file or directory | "
                "Check the path and its permissions."
            ),
        ),
        (
            "pkg={package}/a.py",
            (
                "E304 archive {package}/a.py is damaged or no archive: truncated header | "
                "Give a whole tar, tar.gz, tar.bz2, tar.xz, tar.zst or zip; of a pipe, see what its maker says."
            ),
        ),
        (
            "pkg=-",
            (
                "E304 the archive on stdin is damaged or no archive: it is empty | "
                "Give a whole tar, tar.gz, tar.bz2, tar.xz, tar.zst or zip; of a pipe, see what its maker says."
            ),
        ),
    ],
)
def test_a_tree_that_is_not_the_package_is_a_usage_error(workspace: Workspace, tree: str, expected: str) -> None:
    named = tree.replace("{package}", str(workspace.package))
    ended = run_cli("plan", "--json", "--tree", named, cwd=workspace.folder)
    assert faults(ended) == [expected.replace("{package}", str(workspace.package))]
    assert ended.code == ExitCode.USAGE


def test_a_root_takes_one_tree(workspace: Workspace) -> None:
    tree = f"pkg={workspace.package}"
    ended = run_cli("plan", "--json", "--tree", tree, "--tree", tree, cwd=workspace.folder)
    assert faults(ended) == [f"E131 --tree {tree}: 'pkg' has a tree already | Give each root once."]
    assert ended.code == ExitCode.USAGE


def test_a_base_that_must_be_supplied_says_how(workspace: Workspace) -> None:
    ended = run_cli("plan", "--json", cwd=workspace.folder)
    assert faults(ended) == [
        (
            "E308 target 'box' has no base that can be fetched | Hand it over with --tree pkg=PATH. Copy it out of the "
            "image."
        )
    ]
    assert ended.code == ExitCode.USAGE


def test_a_stage_that_diff_is_asked_for_must_exist(workspace: Workspace) -> None:
    ended = workspace.run("diff", "limt", "--json")
    assert faults(ended) == ["E211 no stage 'limt' | did you mean 'limit'?"]
    assert ended.code == ExitCode.USAGE


def test_an_unknown_command_is_answered_with_the_nearest(tmp_path: Path) -> None:
    ended = run_cli("rendr", cwd=tmp_path)
    assert ended == Ended(
        2,
        "",
        "error[E700]: No such command 'rendr'. Did you mean 'render'?\n  help: `orchestrator --help` shows how it "
        "is used.\n",
    )


def test_a_value_that_an_option_does_not_have_is_named(workspace: Workspace) -> None:
    ended = workspace.run("plan", "--format", "xml")
    assert ended.code == ExitCode.USAGE
    assert ended.err.splitlines()[0] == (
        "error[E700]: Invalid value for '--format': 'xml' is not one of 'text', 'json', 'mermaid', 'dot'."
    )


def test_without_a_command_the_help_is_the_answer(tmp_path: Path) -> None:
    ended = run_cli(cwd=tmp_path)
    assert (ended.code, ended.out) == (ExitCode.USAGE, "")
    assert ended.err.startswith("Usage: orchestrator ")


# --- exit codes ---


def failing(kind: str) -> str:
    """Return a stage of which one thing is wrong."""
    return {
        "edit": replaced(LIMIT_STAGE, "name: LIMIT,", "name: LIMITS,"),
        "check": replaced(LIMIT_STAGE, '"${params.limit}"}\n    post', '"9"}\n    post'),
        "house rule": replaced(
            LIMIT_STAGE, "    post", "      - {op: import, file: pkg/a.py, code: import nowhere}\n    post"
        ),
        "pipeline": replaced(LIMIT_STAGE, "kind: codemod", "kind: code"),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("edit", ExitCode.NOT_APPLIED),
        ("check", ExitCode.CHECK_FAILED),
        ("house rule", ExitCode.CHECK_FAILED),
        ("pipeline", ExitCode.INVALID),
    ],
)
@pytest.mark.parametrize("command", ["plan", "diff", "render", "lock"])
def test_what_failed_decides_the_exit_code(tmp_path: Path, command: str, kind: str, code: ExitCode) -> None:
    workspace = Workspace.at(tmp_path, failing(kind))
    assert workspace.run(command).code == code
    assert not (workspace.folder / "build").exists()
    assert not (workspace.folder / "pipeline.lock").exists()


def test_a_failed_render_leaves_build_as_it_was_and_puts_its_records_on_stdout(tmp_path: Path) -> None:
    workspace = Workspace.at(tmp_path)
    assert workspace.run("render").code == ExitCode.OK
    before = workspace.built()
    workspace.pipeline(failing("edit"))
    ended = workspace.run("render")
    assert ended.code == ExitCode.NOT_APPLIED
    assert [(record["stage"], record["outcome"]) for record in ended.records()] == [("limit", "failed")]
    assert workspace.built() == before


def test_lock_and_audit_mismatches_have_their_own_exit_code(workspace: Workspace) -> None:
    assert workspace.run("lock", "--check").code == ExitCode.MISMATCH
    assert workspace.run("render", "--locked").code == ExitCode.MISMATCH
    assert workspace.run("lock").code == ExitCode.OK
    assert workspace.run("lock", "--check").code == ExitCode.OK
    assert workspace.run("render", "--locked").code == ExitCode.OK
    assert workspace.run("audit").code == ExitCode.OK
    workspace.write("build/Dockerfile", "FROM elsewhere\n")
    workspace.write("build/patchset/overlay/pkg/a.py", "LIMIT = 9\n")
    assert workspace.run("audit").code == ExitCode.MISMATCH
    workspace.write("pipeline.lock", "{}")
    assert workspace.run("render").code == ExitCode.MISMATCH


def test_verify_tells_applied_from_not_applied(workspace: Workspace) -> None:
    assert workspace.run("verify").code == ExitCode.NOT_APPLIED
    assert workspace.run("lock").code == ExitCode.OK
    assert workspace.run("render").code == ExitCode.OK
    overlay = workspace.built()["patchset/overlay/pkg/a.py"]
    workspace.base({"a.py": overlay})
    ended = workspace.run("verify", "--json")
    part = {"part": "edit 1 in pkg/a.py", "state": "applied", "detail": "", "diff": ""}
    assert (ended.code, ended.records()[0]) == (
        ExitCode.OK,
        {"event": "verify", "stage": "limit", "state": "applied", "detail": "", "parts": [part]},
    )


def test_a_fault_of_the_program_is_reported_ready_to_send(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_request: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("orchestrator.cli.steps.make_plan_for", broken)
    assert run_app(["validate"]) == ExitCode.BUG
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("This is a fault of orchestrator, not of your pipeline.")
    assert "ZeroDivisionError: of ours" in shown.err


# --- JSON ---


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate",),
        ("plan",),
        ("plan", "--format", "dot"),
        ("diff",),
        ("diff", "--stat"),
        ("render",),
        ("verify",),
        ("lock",),
        ("lock", "--check"),
        ("audit", "build"),
        ("init", "new"),
        ("explain", "E405"),
        ("explain",),
        ("match", "LIMIT", "../tree/pkg/a.py"),
        ("match", "absent()", "../tree/pkg/a.py"),
        ("plan", "--matrix"),
        ("render", "--matrix"),
        ("audit", "nowhere"),
        ("validate", "--file", "x"),
        ("validate", "--no-such-option"),
        ("init", "."),
    ],
)
def test_with_json_stdout_has_json_lines_and_nothing_else_is_written(
    workspace: Workspace, arguments: tuple[str, ...]
) -> None:
    assert workspace.run("render").code == ExitCode.OK
    ended = workspace.run(*arguments, "--json")
    assert ended.err == ""
    assert all(isinstance(record, dict) and record["event"] for record in ended.records())
    assert ended.out or arguments == ("lock", "--check")


@pytest.mark.parametrize("kind", ["edit", "check", "house rule", "pipeline"])
@pytest.mark.parametrize("command", ["validate", "plan", "diff", "render", "lock", "verify"])
def test_a_failure_is_json_lines_too(tmp_path: Path, command: str, kind: str) -> None:
    ended = Workspace.at(tmp_path, failing(kind)).run(command, "--json")
    assert ended.err == ""
    assert ended.records()


def test_without_json_the_records_of_validate_are_a_sentence(workspace: Workspace) -> None:
    assert workspace.run("validate") == Ended(0, "demo: valid, 1 stage: limit\n", "")


# --- help ---


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
def test_every_help_has_an_example(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ended = run_cli(*arguments, "--help", cwd=tmp_path)
    assert (ended.code, ended.err) == (ExitCode.OK, "")
    assert f"Example: orchestrator {' '.join(arguments)}" in ended.out


def test_every_command_is_covered_here(tmp_path: Path) -> None:
    ended = run_cli("--help", cwd=tmp_path)
    listed = ended.out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines() if line[2] != " "] == list(COMMANDS)


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
def test_help_imports_none_of_the_heavy_libraries(arguments: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from orchestrator.cli.app import run_app\n"
        f"assert run_app({[*arguments, '--help']!r}) == 0\n"
        "print(sorted({'libcst', 'networkx', 'structlog', 'jinja2', 'ruamel.yaml', 'unearth'} & set(sys.modules)))\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert child.stdout.splitlines()[-1] == "[]"


# --- colours and width ---


@pytest.mark.parametrize(
    "environment", [{"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb"}, {}]
)
def test_a_pipe_gets_no_colours(workspace: Workspace, environment: dict[str, str]) -> None:
    ended = workspace.spawn("plan", environment=environment)
    assert ended.code == ExitCode.OK
    assert "\x1b" not in ended.out + ended.err


def test_output_that_the_terminal_cannot_show_is_escaped(workspace: Workspace) -> None:
    ended = workspace.spawn("plan", environment={"PYTHONIOENCODING": "ascii"})
    assert ended.code == ExitCode.OK
    assert "limit" in ended.out


# --- the starter ---


def test_a_starter_validates_and_never_overwrites(tmp_path: Path) -> None:
    ended = run_cli("init", "new", cwd=tmp_path)
    assert ended.code == ExitCode.OK
    assert ended.out.splitlines() == [f"new/{name}" for name in starter_files()]
    assert run_cli("validate", "-C", "new", cwd=tmp_path).code == ExitCode.OK
    ended = run_cli("init", "new", "--json", cwd=tmp_path)
    first = next(iter(starter_files()))
    assert faults(ended) == [f"E702 new/{first} exists already | Choose an empty folder."]
    assert ended.code == ExitCode.USAGE


def test_a_starter_begins_in_a_repository_that_exists(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    (tmp_path / "README.md").write_text("mine\n")
    assert run_cli("init", cwd=tmp_path).code == ExitCode.OK
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert run_cli("init", "new", cwd=tmp_path).code == ExitCode.OK
    ignored = (tmp_path / "new" / ".gitignore").read_text().splitlines()
    assert {"/build/", "/.build.*"} <= set(ignored)


def test_a_starter_renders_on_a_tree(tmp_path: Path) -> None:
    assert run_cli("init", "new", cwd=tmp_path).code == ExitCode.OK
    server = tmp_path / "vllm" / "entrypoints" / "openai" / "api_server.py"
    server.parent.mkdir(parents=True)
    for folder in (server.parent, *server.parent.parents[:2]):
        (folder / "__init__.py").touch()
    server.write_text("TIMEOUT_KEEP_ALIVE = 5\n\n\ndef serve():\n    return TIMEOUT_KEEP_ALIVE\n")
    ended = run_cli("render", "-C", "new", "--tree", f"vllm={tmp_path / 'vllm'}", cwd=tmp_path)
    assert (ended.code, ended.err.count("error")) == (ExitCode.OK, 0)
    assert (tmp_path / "new" / "build" / "Dockerfile").is_file()


def test_the_starter_has_the_templates_of_this_repository() -> None:
    own = {f"templates/{path.name}": path.read_bytes() for path in (ROOT / "templates").glob("[Dd]ocker*.j2")}
    assert {name: content for name, content in starter_files().items() if name.startswith("templates/")} == own


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = run_cli("init", "file/new", "--json", cwd=tmp_path)
    assert faults(ended) == ["E701 file/new cannot be written: Not a directory | Check space and permissions."]
    assert ended.code == ExitCode.USAGE


def test_the_version_of_json_is_plain_data(workspace: Workspace) -> None:
    (record,) = workspace.run("plan", "--json").records()
    assert json.loads(json.dumps(record)) == record
    assert (record["stage"], record["outcome"], record["files"][0]["path"]) == (
        "limit",
        "applied (unlocked)",
        "pkg/a.py",
    )


def test_a_process_of_its_own_ends_as_one_in_process_does(workspace: Workspace) -> None:
    assert workspace.spawn("validate") == workspace.run("validate")
    assert spawn_cli("validate", "--file", "x", cwd=workspace.folder) == workspace.run("validate", "--file", "x")


@pytest.mark.parametrize("asked", [["--json"], ["--format", "json"], ["--format=json"]])
@pytest.mark.parametrize("arguments", [["plan", "--variant", "bgi"], ["bump"], ["plan", "--nothing"]])
def test_errors_are_records_however_records_are_asked_for(
    workspace: Workspace, arguments: list[str], asked: list[str]
) -> None:
    ended = run_cli(*arguments, *asked, cwd=workspace.folder)
    assert (ended.code, len(faults(ended)), ended.err) == (ExitCode.USAGE, 1, "")


def test_a_file_that_keeps_runs_apart_is_not_what_was_meant(workspace: Workspace) -> None:
    for name in (".nope.yaml.lock", "targets/.nope.yaml.lock", "targets/noe.yaml"):
        workspace.write(name, "")
    workspace.pipeline(LIMIT_STAGE, replaced(HEAD, "target: target.yaml", "target: targets/nope.yaml"))
    (fault,) = faults(workspace.run("validate", "--json"))
    assert fault.endswith("did you mean 'targets/noe.yaml'?")
