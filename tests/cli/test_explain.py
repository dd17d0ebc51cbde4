"""`explain`: what the documents say, from the same source, with or without a workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.checks.catalogue import CHECKS
from orchestrator.core.codes import CODES, INSTALLER_CODES
from orchestrator.core.diagnostics import ExitCode
from orchestrator.spec.edits import EDITS
from tests.workspaces import faults, run_cli

DOCS = Path(__file__).parents[2] / "docs"
ERRORS = (DOCS / "errors.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")
STAGE = '''\
"""What it does."""

from pydantic import BaseModel


class Params(BaseModel):
    """What it takes."""

    size: int = 4


def transform(module, params):
    """Return the module."""
    return module
'''


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_explained_as_the_document_does(tmp_path: Path, code: str) -> None:
    ended = run_cli("explain", code.lower(), cwd=tmp_path)
    assert (ended.code, ended.err) == (ExitCode.OK, "")
    assert ended.out in ERRORS
    assert ended.out.startswith(f"### {code}: ")


@pytest.mark.parametrize("kind", ["op", "check"])
def test_every_edit_and_every_check_is_explained_as_the_document_does(tmp_path: Path, kind: str) -> None:
    for name in EDITS if kind == "op" else CHECKS:
        ended = run_cli("explain", name, cwd=tmp_path)
        assert ended.out in REFERENCE
        assert ended.out.startswith(f"### {kind}: {name}\n")
        assert run_cli("explain", f"{kind}: {name}", cwd=tmp_path).out == ended.out


@pytest.mark.parametrize("name", ["Stage", "target", "runconfig"])
def test_a_model_of_a_file_is_explained_too(tmp_path: Path, name: str) -> None:
    assert run_cli("explain", name, cwd=tmp_path).out in REFERENCE


@pytest.mark.parametrize("code", INSTALLER_CODES)
def test_the_installer_s_codes_are_known(tmp_path: Path, code: str) -> None:
    ended = run_cli("explain", code, cwd=tmp_path)
    assert INSTALLER_CODES[code].advice in ended.out


def test_a_transform_is_explained_where_its_workspace_is(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "resize.py").write_text(STAGE)
    ended = run_cli("explain", "resize", cwd=tmp_path)
    assert ended.code == ExitCode.OK
    assert all(part in ended.out for part in ("What it does.", "What it takes.", "| `size` | whole number | `4` |"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run_cli("explain", "resize", cwd=elsewhere).code == ExitCode.USAGE
    assert run_cli("explain", "resize", "-C", str(tmp_path), cwd=elsewhere).out == ended.out


@pytest.mark.parametrize("text", ["raise OSError('no')\n", "def f(:\n", "x = 1\n", "\x00"])
def test_a_transform_that_cannot_be_loaded_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "resize.py").write_text(text)
    ended = run_cli("explain", "resize", "--json", cwd=tmp_path)
    assert ended.code == ExitCode.INVALID
    assert faults(ended)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("asign", "did you mean 'assign'?"),
        ("E4055", "did you mean 'E405'?"),
        ("tile_fit", "did you mean 'tile_fits'?"),
        ("", "`orchestrator explain` lists all names."),
        ("../../etc/passwd", "`orchestrator explain` lists all names."),
        ("check: assign", "did you mean 'assign'?"),
    ],
)
def test_what_is_not_known_says_what_may_be_meant(tmp_path: Path, name: str, near: str) -> None:
    ended = run_cli("explain", name, "--json", cwd=tmp_path)
    assert ended.code == ExitCode.USAGE
    assert near in faults(ended)[0]


def test_records_hold_the_parts_and_the_text(tmp_path: Path) -> None:
    (record,) = run_cli("explain", "E405", "--json", cwd=tmp_path).records()
    assert (record["kind"], record["exits"], record["title"]) == ("code", [4, 5], "too many sites")
    assert record["text"] in ERRORS
    (record,) = run_cli("explain", "replace", "--json", cwd=tmp_path).records()
    assert [row["key"] for row in record["keys"]] == ["file", "within", "because", "match", "with", "count"]


def test_without_a_name_all_names_are_listed(tmp_path: Path) -> None:
    ended = run_cli("explain", cwd=tmp_path)
    assert ended.code == ExitCode.OK
    assert all(name in ended.out for name in [*CODES, *EDITS, *CHECKS])
    kinds = {record["kind"]: record["names"] for record in run_cli("explain", "--json", cwd=tmp_path).records()}
    assert kinds["op"] == list(EDITS)
    assert kinds["transform"] == []


def test_the_schema_without_plugins_is_the_document_s_but_for_their_place(tmp_path: Path) -> None:
    made = json.loads(run_cli("explain", "--schema", cwd=tmp_path).out)
    document = json.loads((DOCS / "pipeline.schema.json").read_text(encoding="utf-8"))
    assert document["definitions"].keys() - made["definitions"].keys() == {"PluginCheck"}
