"""Typed arguments from the text of Qwen3-Coder's parameters, by the JSON schema of the tool.

A parameter's text says nothing of its type: `5` may be a number or a string. So the schema decides, and where it
allows several types the strictest one that takes the text: null, boolean, integer, number, object or array, string.
A parameter that the schema does not type is a string. It knows nothing of vLLM.
"""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, NamedTuple

_STRICTEST_FIRST = ("null", "boolean", "integer", "number", "object", "array")
_DEEPEST = 16  # references inside references: schemas may be recursive, and a request's may be anything
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", dict: "object"}
_AS_JSON = {"True": "true", "False": "false", "None": "null"}  # Python's spelling is common in what models write


class Arguments(NamedTuple):
    """The arguments of a call, and the keys whose text is of no type that the schema allows (kept as strings)."""

    values: dict[str, Any]
    mistyped: list[str]


def arguments_of(parameters: Mapping[str, str], schema: Any) -> Arguments:  # noqa: ANN401 - whatever a request says
    """Return the typed arguments of a call; `schema` is the tool's `parameters`, a JSON schema of an object."""
    root = schema if isinstance(schema, dict) else {}
    values: dict[str, Any] = {}
    mistyped = []
    for key, text in parameters.items():
        types = _types(_schema_of(key, root), root, _DEEPEST)
        try:
            values[key] = _typed(text, types)
        except ValueError:
            values[key] = text
            mistyped.append(key)
    return Arguments(values, mistyped)


def _schema_of(key: str, root: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever a request says
    properties = root.get("properties")
    if isinstance(properties, dict) and key in properties:
        return properties[key]
    return root.get("additionalProperties")


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> set[str]:  # noqa: ANN401 - whatever a request says
    """Return the names of the JSON types that a schema allows; none where it does not say."""
    if not isinstance(schema, dict) or not depth:
        return set()
    types: set[str] = set()
    named = schema.get("type")
    types.update(name for name in (named if isinstance(named, list) else [named]) if isinstance(name, str))
    if types:
        return types
    for keyword in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(keyword)
        for choice in choices if isinstance(choices, list) else []:
            types |= _types(choice, root, depth - 1)
    types |= _types(_referred(schema.get("$ref"), root), root, depth - 1)
    values = schema.get("enum")
    for value in (values if isinstance(values, list) else []) + ([schema["const"]] if "const" in schema else []):
        types.add(_NAMES.get(type(value), "array"))
    if not types and "properties" in schema:
        types.add("object")
    if not types and "items" in schema:
        types.add("array")
    return types


def _referred(reference: Any, root: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever a request says
    """Return what `#/$defs/NAME` refers to, None for anything else."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _typed(text: str, types: set[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of the strictest of `types` that takes `text`; raise ValueError if none does."""
    for name in _STRICTEST_FIRST:
        if name in types:
            try:
                return _value(text.strip(), name)
            except ValueError:
                continue
    if types and "string" not in types:
        raise ValueError("of none of the types")
    return text


def _value(text: str, name: str) -> Any:  # noqa: ANN401 - any JSON value
    value = _json(_AS_JSON.get(text, text))
    if name == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    kind = _NAMES.get(type(value), "array")
    if kind != name and (kind, name) != ("integer", "number"):
        raise ValueError("of another type")
    return value


def _json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value; raise ValueError for what is none, for infinities too, and for what is too deep."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_refuse)
        json.dumps(value)  # the answer will be written, with less of the stack in use
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value


def _refuse(text: str) -> float:
    raise ValueError(text + " is no JSON")
