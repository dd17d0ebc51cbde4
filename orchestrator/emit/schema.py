"""JSON Schema for editors, made from the models: draft-07, which is what editors read.

pydantic writes the 2020-12 dialect. Three things differ in what it uses: `$defs` is called `definitions`, keys
beside a `$ref` are ignored (so the reference goes into an `allOf`), and `discriminator` is not JSON Schema at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.engine.model import Pipeline
from orchestrator.spec.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

DIALECT = "http://json-schema.org/draft-07/schema#"
REFERENCE = "Reference"
_TYPED = {"boolean", "integer", "number"}
Schema = dict[str, Any]


def pipeline_schema(foreign: Mapping[str, type[BaseModel]] | None = None) -> Schema:
    """Return the schema of `pipeline.yaml`. Below `stages`, `${params.x}` may stand for a value of any type.

    `foreign` are the checks of installed distributions, by name; without it any such name with any keys is valid.
    """
    schema = _with_checks(draft7(Pipeline), foreign)
    definitions = {name: _with_references(definition) for name, definition in schema["definitions"].items()}
    definitions[REFERENCE] = {
        "description": "A value of the pipeline or the target.",
        "type": "string",
        "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)+\}$",
    }
    return {**schema, "definitions": dict(sorted(definitions.items()))}


PLUGIN_CHECK: Schema = {
    "description": "A check of an installed distribution, DISTRIBUTION.NAME.",
    "type": "object",
    "properties": {"check": {"type": "string", "pattern": r"^[a-z0-9]+(-[a-z0-9]+)*\.\w+$"}},
    "required": ["check"],
}


def _with_checks(schema: Schema, foreign: Mapping[str, type[BaseModel]] | None) -> Schema:
    """Let checks of installed distributions stand wherever a check may."""
    if foreign is None:
        more = {"PluginCheck": PLUGIN_CHECK}
    else:
        made = {name: _of_others(name, model) for name, model in foreign.items()}
        for name, other in made.items():
            other.pop("$schema")
            schema["definitions"].update(
                {f"{name}.{key}": _renamed(part, name) for key, part in other.pop("definitions", {}).items()}
            )
        more = {name: _renamed(other, name) for name, other in made.items()}
    schema["definitions"] |= more
    references = [{"$ref": f"#/definitions/{name}"} for name in more]
    for definition in schema["definitions"].values():
        for field in definition.get("properties", {}).values():
            for part in (field, *field.get("anyOf", ())):
                choices = part.get("items", {}).get("oneOf", []) if isinstance(part.get("items"), dict) else []
                if {"$ref": "#/definitions/FileExists"} in choices:
                    choices += references
    return schema


def _of_others(name: str, model: type[BaseModel]) -> Schema:
    """Return the schema of a check of others; one that holds what has no schema may have any keys."""
    try:
        return draft7(model)
    except Exception:  # noqa: BLE001 - whatever pydantic says of their types
        return {"$schema": DIALECT, **PLUGIN_CHECK, "properties": {"check": {"const": name}}}


def _renamed(node: Any, name: str) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a model's schema with its references led to the definitions that were renamed for it."""
    if isinstance(node, list):
        return [_renamed(item, name) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value.replace("#/definitions/", f"#/definitions/{name}.") if key == "$ref" else _renamed(value, name)
        for key, value in node.items()
    }


def target_schema() -> Schema:
    """Return the schema of a target file. One that `extends` another need not repeat what that says."""
    schema = draft7(Target)
    sections = {"image": "Image", "server": "Server"}  # merged key by key, so each file may give a part
    parts = {key: {"required": schema["definitions"][model].pop("required")} for key, model in sections.items()}
    whole = {"required": schema.pop("required"), "properties": parts}
    return {**schema, "if": {"not": {"required": ["extends"]}}, "then": whole}


def draft7(model: type[BaseModel]) -> Schema:
    """Return a model's schema in draft-07, with the names that YAML uses."""
    made = _converted(model.model_json_schema(by_alias=True))
    return {"$schema": DIALECT, **made}


def _converted(node: Any) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(node, list):
        return [_converted(item) for item in node]
    if not isinstance(node, dict):
        return node
    made: Schema = {}
    for key, value in node.items():
        match key:
            case "$defs":
                made["definitions"] = {name: _converted(part) for name, part in value.items()}
            case "properties":
                made[key] = {name: _converted(part) for name, part in value.items()}
            case "$ref":
                made[key] = value.replace("#/$defs/", "#/definitions/")
            case "default" if value is not None:
                made[key] = value
            case "title" | "discriminator" | "default":
                pass
            case _:
                made[key] = _converted(value)
    if "$ref" in made and len(made) > 1:
        made["allOf"] = [{"$ref": made.pop("$ref")}]
    return made


def _with_references(node: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Let `${params.x}` stand wherever something else than free text is asked for."""
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    if {"type": "string"} in node.get("anyOf", ()):
        return node
    if node.get("type") in _TYPED or "pattern" in node:
        outside = {key: value for key, value in node.items() if key in {"description", "default"}}
        inside = {key: value for key, value in node.items() if key not in outside}
        return {**outside, "anyOf": [inside, {"$ref": f"#/definitions/{REFERENCE}"}]}
    return {
        key: {name: _with_references(part) for name, part in value.items()}
        if key == "properties"
        else value
        if key == "default"
        else _with_references(value)
        for key, value in node.items()
    }
