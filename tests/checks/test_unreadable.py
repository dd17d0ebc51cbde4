"""Every check fails, and raises nothing, where what it is about cannot be read; and each says which file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.checks.catalogue import CHECKS
from orchestrator.checks.verdict import Status

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

FIELDS: dict[str, dict[str, Any]] = {
    "file_exists": {},
    "file_absent": {},
    "sha256": {"equals": "0" * 64},
    "text_count": {"text": "x", "equals": 1},
    "unchanged": {"within": "f"},
    "parses": {},
    "symbol_exists": {"name": "f"},
    "symbol_absent": {"name": "f"},
    "signature_equals": {"name": "f", "signature": "()"},
    "assignment_equals": {"name": "x", "value": "1"},
    "match_count": {"pattern": "f()", "equals": 1},
    "import_resolves": {},
    "value_equals": {"name": "x", "equals": 1},
    "value_contains": {"path": "a", "contains": 1},
    "read_by": {"name": "x"},
    "called_by": {"name": "f"},
    "imported_by": {},
    "tile_fits": {"within": "f", "name": "BLOCK"},
    "table_fits": {"name": "f", "device": "a"},
    "effective_value": {"name": "x", "equals": 1},
    "run_config": {},
}
READS_PYTHON = sorted(
    set(FIELDS) - {"file_exists", "file_absent", "sha256", "text_count", "value_contains", "run_config", "imported_by"}
)


def test_every_check_of_the_catalogue_is_covered_here() -> None:
    about_no_file = {"compiler_named"}
    assert set(FIELDS) == set(CHECKS) - about_no_file


@pytest.mark.parametrize("check", sorted(set(FIELDS) - {"file_absent"}))
def test_a_file_that_is_not_there_fails(scene: Scene, check: str) -> None:
    found = scene.judge(check, file="pkg/gone.py", **FIELDS[check])
    assert (found.status, found.evidence) == (Status.FAILS, "pkg/gone.py is not there")


@pytest.mark.parametrize("check", READS_PYTHON)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("def f(:\n", "pkg/a.py:1:7: not valid Python"),
        (b"x = 1\n\n\n# \xff\n", "pkg/a.py:4:1: cannot be decoded as utf-8"),
        (b"# \xff\n", "pkg/a.py: cannot be decoded: "),
        (b"# coding: nonsense\n", "pkg/a.py: cannot be decoded: "),
        ("f(" * 5000, "pkg/a.py"),
    ],
)
def test_a_file_that_is_not_python_fails(scene: Scene, check: str, content: str | bytes, said: str) -> None:
    scene.files = {"pkg/a.py": content}
    found = scene.judge(check, file="pkg/a.py", **FIELDS[check])
    assert found.status is Status.FAILS
    assert found.evidence.startswith(said)
    assert found.place is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [1\n", "not YAML: "),
        ("", "the file is empty"),
        ("a: 1\na: 2\n", "key 'a' is given twice; first in line 1"),
    ],
)
@pytest.mark.parametrize("check", ["value_contains", "run_config"])
def test_a_file_that_is_not_yaml_fails(scene: Scene, check: str, content: str, said: str) -> None:
    scene.artefacts = {"run.yaml": content}
    found = scene.judge(check, file="run.yaml", **FIELDS[check])
    assert found.status is Status.FAILS
    assert said in found.evidence
    assert "run.yaml" in found.evidence


@pytest.mark.parametrize(
    ("check", "fields"),
    [
        (check, FIELDS[check] | {"within": "g"})
        for check in ("unchanged", "assignment_equals", "match_count", "value_equals", "read_by", "tile_fits")
    ],
)
def test_a_definition_that_is_not_there_fails_and_the_nearest_is_named(
    scene: Scene, check: str, fields: dict[str, Any]
) -> None:
    scene.files = {"pkg/a.py": "def go(): pass\n"}
    found = scene.judge(check, file="pkg/a.py", **(fields | {"within": "goo"}))
    assert (found.status, found.evidence) == (
        Status.FAILS,
        "pkg/a.py has no definition `goo`; did you mean 'go'?",
    )


@pytest.mark.parametrize("check", ["signature_equals", "tile_fits", "value_equals", "read_by"])
def test_a_definition_that_stands_twice_is_ambiguous(scene: Scene, check: str) -> None:
    scene.files = {"pkg/a.py": "if A:\n    def f(): pass\nelse:\n    def f(): pass\n"}
    named = {"name": "f"} if check == "signature_equals" else {"within": "f"}
    found = scene.judge(check, file="pkg/a.py", **(FIELDS[check] | named))
    assert (found.status, found.evidence) == (
        Status.FAILS,
        "pkg/a.py defines `f` 2 times (pkg/a.py:2:5, pkg/a.py:4:5)",
    )


@pytest.mark.parametrize(
    ("check", "field"),
    [("signature_equals", "signature"), ("assignment_equals", "value"), ("match_count", "pattern")],
)
@pytest.mark.parametrize(("code", "said"), [("(1", "not valid Python"), ("${params.nope}", "`${params.nope}` is not")])
def test_code_in_a_check_that_is_not_python_fails_and_names_the_field(
    scene: Scene, check: str, field: str, code: str, said: str
) -> None:
    scene.files = {"pkg/a.py": "def f(): pass\nx = 1\n"}
    found = scene.judge(check, file="pkg/a.py", **(FIELDS[check] | {field: code}))
    assert found.status is Status.FAILS
    assert found.evidence.startswith(f"`{field}: ")
    assert said in found.evidence
