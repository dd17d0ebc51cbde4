"""`render --against`: what a server's start differs in from that of a former render, and what is silent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.core.diagnostics import ExitCode
from tests.workspaces import HEAD, LIMIT_STAGE, TARGET, TEMPLATES, Workspace, faults, replaced

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
concurrency: {{ params.limit }}
command: [python3, -m, server, --seqs, '{{ params.limit }}', --plain]
env:
{% for name, value in provided.environment | dictsort %}
  - {name: {{ name }}, value: '{{ value }}'}
{% else %}
  []
{% endfor %}
"""
STAGE = """\
  - id: run-config
    kind: template
    summary: Start the server.
    render:
      - {template: templates/run.yaml.j2, to: run.yaml, schema: run-config}
    provides:
      environment: {FAST_IPC: "1"}
"""
ENGINE = """\
engine:
  default_batched_tokens_chunked: 512
  default_batched_tokens_floor: 2048
  multimodal_batched_tokens: 5120
  default_max_num_seqs: 256
  chunked_prefill_above: 32768
"""
REQUIRED = """\
required_env:
  FAST_IPC: {value: "1", status: measured, source: the largest gain known}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.at(tmp_path, LIMIT_STAGE + STAGE)
    made.write("templates/run.yaml.j2", CONFIG)
    made.write("target.yaml", TARGET + ENGINE + REQUIRED)
    return made


def without_variable(workspace: Workspace) -> None:
    """Take the variable out of the run configuration."""
    workspace.pipeline(LIMIT_STAGE + replaced(STAGE, 'environment: {FAST_IPC: "1"}', "environment: {}"))


def in_dockerfile(workspace: Workspace, line: str) -> None:
    """Add a line to the Dockerfile."""
    workspace.write(
        "templates/Dockerfile.j2", replaced(TEMPLATES["Dockerfile.j2"], "COPY patchset/", f"{line}\nCOPY patchset/")
    )


def render(workspace: Workspace, *arguments: str) -> list[dict[str, Any]]:
    """Render and return the records of `--against`."""
    ended = workspace.run("render", "--json", *arguments)
    assert ended.code == ExitCode.OK, ended.out + ended.err
    return [record for record in ended.records() if record["event"] == "against"]


def changes(workspace: Workspace, *arguments: str) -> list[tuple[str | None, ...]]:
    """Render against the first build and return the changes."""
    [record] = render(workspace, "--output", "new", "--against", "build", *arguments)
    assert (record["folder"], record["artefact"]) == ("build", "run.yaml")
    return [tuple(change[key] for key in ("what", "name", "kind", "before", "after")) for change in record["changes"]]


def test_the_same_configuration_has_no_difference(workspace: Workspace) -> None:
    assert render(workspace) == []
    assert changes(workspace) == []


def test_changed_options_and_concurrency_are_shown_with_both_values(workspace: Workspace) -> None:
    render(workspace)
    assert changes(workspace, "--set", "limit=16") == [
        ("concurrency", "concurrency", "changed", "8", "16"),
        ("argument", "seqs", "changed", "8", "16"),
    ]


def test_options_that_come_and_go_are_shown(workspace: Workspace) -> None:
    render(workspace)
    workspace.write("templates/run.yaml.j2", replaced(CONFIG, "--plain", "--fancy, '2'"))
    assert changes(workspace) == [
        ("argument", "fancy", "added", None, "2"),
        ("argument", "plain", "removed", "", None),
    ]


def test_another_program_is_a_difference(workspace: Workspace) -> None:
    render(workspace)
    workspace.write("templates/run.yaml.j2", replaced(CONFIG, "python3, -m", "/opt/bin/python3, -m"))
    assert changes(workspace) == [
        ("argument", "words without an option", "changed", "python3", "/opt/bin/python3"),
    ]


def test_a_variable_that_moves_from_the_run_configuration_to_the_dockerfile_is_silent(workspace: Workspace) -> None:
    render(workspace)
    without_variable(workspace)
    in_dockerfile(workspace, "ENV FAST_IPC=1")
    assert changes(workspace) == []


def test_one_that_is_taken_out_and_put_nowhere_is_refused(workspace: Workspace) -> None:
    render(workspace)
    without_variable(workspace)
    ended = workspace.run("render", "--json", "--against", "build")
    assert ended.code == ExitCode.CHECK_FAILED
    assert [said.partition(" ")[0] for said in faults(ended)] == ["E544"]
    assert "FAST_IPC is set nowhere" in faults(ended)[0]


def test_one_that_is_not_required_is_shown_as_removed(workspace: Workspace) -> None:
    workspace.write("target.yaml", TARGET + ENGINE)
    render(workspace)
    without_variable(workspace)
    assert changes(workspace) == [("environment", "FAST_IPC", "removed", "1", None)]


def test_another_image_is_a_difference_and_its_environment_goes_with_it(workspace: Workspace) -> None:
    known = replaced(
        TARGET, "interpreter: /usr/bin/python3", "interpreter: /usr/bin/python3, environment: {VENDOR: yes}"
    )
    workspace.write("target.yaml", replaced(known, "VENDOR: yes", 'VENDOR: "yes"') + ENGINE)
    render(workspace)
    workspace.write("target.yaml", replaced(TARGET, "box:1", "box:2") + ENGINE)
    assert changes(workspace) == [("image", "FROM", "changed", "example.org/box:1", "example.org/box:2")]


def test_the_folder_that_is_written_over_may_be_compared_with(workspace: Workspace) -> None:
    render(workspace)
    [record] = render(workspace, "--against", "build", "--set", "limit=16")
    assert [change["after"] for change in record["changes"]] == ["16", "16"]


def test_people_get_a_table(workspace: Workspace) -> None:
    render(workspace)
    ended = workspace.run("render", "--against", "build", "--set", "limit=16")
    assert "run.yaml against build" in ended.out
    assert [word for word in ended.out.splitlines()[-1].replace("│", " ").split() if word] == [
        *("argument", "seqs", "changed", "8", "16")
    ]


@pytest.mark.parametrize("file", ["patchset/manifest.json", "Dockerfile", "run.yaml"])
def test_a_folder_that_lacks_a_file_of_a_render_is_none(workspace: Workspace, file: str) -> None:
    render(workspace)
    (workspace.folder / "build" / file).unlink()
    ended = workspace.run("render", "--output", "new", "--json", "--against", "build")
    assert ended.code == ExitCode.USAGE
    assert faults(ended) == [
        (
            f"E128 --against: build has no {file}: it is no former render of this pipeline | "
            "Name a folder that `render` wrote."
        )
    ]
    assert not (workspace.folder / "new").exists()


@pytest.mark.parametrize("folder", ["nowhere", "pipeline.yaml"])
def test_what_is_no_folder_is_no_render(workspace: Workspace, folder: str) -> None:
    ended = workspace.run("render", "--json", "--against", folder)
    assert ended.code == ExitCode.USAGE
    assert [said[:4] for said in faults(ended)] == ["E128"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.yaml", b"{"),
        ("run.yaml", b"concurrency: 1\n"),
        ("run.yaml", b"- 1\n"),
        ("run.yaml", b"\xff"),
        ("Dockerfile", b"\xff"),
    ],
)
def test_a_damaged_render_is_said_to_be_one(workspace: Workspace, file: str, content: bytes) -> None:
    render(workspace)
    (workspace.folder / "build" / file).write_bytes(content)
    ended = workspace.run("render", "--output", "new", "--json", "--against", "build")
    assert ended.code == ExitCode.USAGE
    assert [said[:4] for said in faults(ended)] == ["E128"]
    assert f"build/{file}" in faults(ended)[0]


def test_a_pipeline_without_a_run_configuration_has_nothing_to_compare(workspace: Workspace) -> None:
    render(workspace)
    workspace.pipeline(LIMIT_STAGE, HEAD)
    ended = workspace.run("render", "--json", "--against", "build")
    assert (ended.code, [said[:4] for said in faults(ended)]) == (ExitCode.USAGE, ["E128"])
