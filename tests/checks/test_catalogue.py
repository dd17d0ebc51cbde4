"""The catalogue: every check has its name, its words for people, and a place in the union."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter, ValidationError

from orchestrator.checks.catalogue import CHECKS, AnyCheck
from orchestrator.spec.model import code_fields

if TYPE_CHECKING:
    from orchestrator.checks.base import Check

ADAPTER: TypeAdapter[Check] = TypeAdapter(AnyCheck)
NAMES = {
    *("file_exists", "file_absent", "sha256", "parses", "symbol_exists", "symbol_absent", "signature_equals"),
    *("assignment_equals", "import_resolves", "match_count", "text_count", "value_equals", "value_contains"),
    *("unchanged", "read_by", "called_by", "imported_by", "tile_fits", "table_fits", "run_config"),
    *("effective_value", "compiler_named"),
}


def test_the_catalogue_has_exactly_the_checks_that_pipelines_use() -> None:
    assert set(CHECKS) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_check_is_frozen_documented_and_judged_beside_its_model(name: str) -> None:
    model = CHECKS[name]
    assert model.model_config.get("frozen")
    assert model.model_config.get("extra") == "forbid"
    assert model.__doc__
    assert "look" in vars(model)


def test_the_union_has_a_json_schema_with_every_check() -> None:
    schema = ADAPTER.json_schema()
    assert set(schema["discriminator"]["mapping"]) == NAMES


def test_code_is_marked_as_code() -> None:
    marked = {name: code_fields(model) for name, model in CHECKS.items() if code_fields(model)}
    assert marked == {
        "signature_equals": {"signature": "def f{}: pass"},
        "assignment_equals": {"value": "{}"},
        "match_count": {"pattern": "{}"},
        "effective_value": {"before": "{}"},
    }


@pytest.mark.parametrize(
    "data",
    [
        {"check": "file_exist", "file": "a"},
        {"file": "a"},
        {"check": "file_exists", "file": ""},
        {"check": "file_exists", "file": "a", "path": "b"},
        {"check": "sha256", "file": "a", "equals": "AB"},
        {"check": "match_count", "file": "a", "pattern": "x", "equals": -1},
        {"check": "match_count", "file": "a", "pattern": "x", "equals": "1"},
        {"check": "match_count", "file": "a", "pattern": "x", "equals": True},
        {"check": "text_count", "file": "a", "text": "", "equals": 1},
    ],
)
def test_a_check_that_says_nothing_sensible_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(data)
