"""The schemas for editors: draft-07, every key described, true of the documents that we have."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.checks.catalogue import CHECKS
from orchestrator.emit.reference import CONFIGURATION, DOCUMENT, FACTS, description_of
from orchestrator.emit.schema import DIALECT, draft7, pipeline_schema, target_schema
from orchestrator.spec.edits import EDITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
MODELS = [*DOCUMENT, *FACTS, *CONFIGURATION, *EDITS.values(), *CHECKS.values()]
PIPELINES = [
    ROOT / "pipeline.yaml",
    *ROOT.glob("examples/*/pipeline.yaml"),
    *ROOT.glob("orchestrator/emit/starter/pipeline.yaml"),
]
TARGETS = [
    *ROOT.glob("targets/*.yaml"),
    *ROOT.glob("examples/*/target.yaml"),
    *ROOT.glob("orchestrator/emit/starter/targets/*.yaml"),
]


def check(schema: str, *documents: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sysconfig.get_path("scripts")) / "check-jsonschema"
    return subprocess.run(
        [program, "--schemafile", str(ROOT / "docs" / schema), *map(str, documents)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_pipelines_of_the_repository_are_valid_by_the_schema() -> None:
    done = check("pipeline.schema.json", *PIPELINES)
    assert done.returncode == 0, done.stdout


def test_the_targets_of_the_repository_are_valid_by_the_schema() -> None:
    done = check("target.schema.json", *TARGETS)
    assert done.returncode == 0, done.stdout


STAGE = "stages: [{id: a, kind: codemod, summary: s, edits: [{op: delete, file: p/x.py, match: x, count: %s}]}]\n"


@pytest.mark.parametrize(
    ("count", "valid"), [("2", True), ("'${params.n}'", True), ("'2'", False), ("0", False), ("two", False)]
)
def test_a_value_may_stand_for_a_number_and_nothing_else_may(tmp_path: Path, count: str, *, valid: bool) -> None:
    document = tmp_path / "pipeline.yaml"
    document.write_text(f"version: 1\nname: a\ntarget: t.yaml\nparams: {{n: 2}}\n{STAGE % count}")
    assert (check("pipeline.schema.json", document).returncode == 0) == valid


@pytest.mark.parametrize(
    "wrong",
    ["nmae: a", "stages: []", "stages: [{id: a, kind: codemod, summary: s, edits: [{op: remove, file: p/x.py}]}]"],
)
def test_a_mistake_is_marked(tmp_path: Path, wrong: str) -> None:
    key = wrong.partition(":")[0]
    whole = {"version": "1", "name": "a", "target": "t.yaml", "stages": STAGE.partition(": ")[2].strip() % 1}
    lines = [f"{name}: {value}" for name, value in whole.items() if name != key]
    document = tmp_path / "pipeline.yaml"
    document.write_text("\n".join([*lines, wrong, ""]))
    assert check("pipeline.schema.json", document).returncode == 1


def test_a_target_that_extends_none_says_all_itself(tmp_path: Path) -> None:
    document = tmp_path / "target.yaml"
    document.write_text("version: 1\nname: a\n")
    assert check("target.schema.json", document).returncode == 1
    document.write_text("version: 1\nname: a\nextends: b.yaml\nimage: {python: '3.11'}\n")
    assert check("target.schema.json", document).returncode == 0


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_of_every_model_is_described(model: type[BaseModel]) -> None:
    silent = [key for key, field in draft7(model)["properties"].items() if not description_of(field)]
    assert [key for key in silent if key not in {"op", "check"}] == []
    assert model.__doc__


@pytest.mark.parametrize("schema", [pipeline_schema(), target_schema()], ids=["pipeline", "target"])
def test_a_schema_is_draft_7_throughout(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == DIALECT
    assert "$defs" not in json.dumps(schema)
    nodes = [node for node in parts(schema) if "$ref" in node]
    assert nodes
    assert all(set(node) == {"$ref"} and node["$ref"].startswith("#/definitions/") for node in nodes)
    assert {node["$ref"].rpartition("/")[2] for node in nodes} <= set(schema["definitions"])


def parts(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from parts(value)
    elif isinstance(node, list):
        for item in node:
            yield from parts(item)


@pytest.mark.parametrize(
    ("file", "schema"),
    [("pipeline.yaml", "pipeline"), ("targets/bi100.yaml", "target"), ("targets/corex-replica.yaml", "target")],
)
def test_the_first_line_of_a_document_leads_editors_to_its_schema(file: str, schema: str) -> None:
    first = (ROOT / file).read_text().partition("\n")[0]
    assert first.startswith("# yaml-language-server: $schema=")
    named = (ROOT / file).parent / first.partition("$schema=")[2]
    assert named.resolve() == ROOT / "docs" / f"{schema}.schema.json"
