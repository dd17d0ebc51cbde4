"""From a document to a model: pydantic's errors become diagnostics with a place in the YAML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails

    from orchestrator.spec.document import Document, Path

M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], data: object, document: Document, known: Mapping[str, type[BaseModel]]) -> M:
    """Return `data` as `model`; raise `Rejected` (E110 … E114) with every fault and its place.

    `known` maps union tags (`assign`, `tile_fits`) to their models, so that a misspelt key can be matched
    with the keys that this kind of entry has.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = [
            _alternatives(errors, document) if len(errors) > 1 else _diagnostic(errors[0], model, document, known)
            for errors in _by_value(error.errors(include_url=False), document)
        ]
        raise Rejected(sorted(set(found), key=lambda d: d.place or document.place(()))) from None


def misread(document: Document) -> list[Diagnostic]:
    """Return E109 for every scalar that YAML reads as something that does not print as it is written."""
    found = []
    for path, text in document.misread.items():
        value = _at(document.data, path)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        if value == text:  # no field of ours holds it, so it was left as text
            what, plain = "a date" if "-" in text[1:] else "a number that is too long", ""
        elif isinstance(value, float) and not math.isfinite(value):
            what, plain = "a number that is not finite", ""
        else:
            what, plain = f"{value!r}", f"write {value!r}, or "
        help_ = f"{plain}put it in quotes if text is meant: '{shown}'."
        message = f"`{shown}` is read by YAML as {what}"
        found.append(Diagnostic("E109", message, document.place(path), help=help_[0].upper() + help_[1:]))
    return found


_SHOWN = 40


def _at(data: Any, path: Path) -> Any:  # noqa: ANN401 - plain data
    for segment in path:
        data = data[segment]
    return data


def _by_value(errors: Sequence[ErrorDetails], document: Document) -> list[list[ErrorDetails]]:
    """Return the errors, those together that say why one value is none of the types of a plain union."""
    groups: dict[tuple[object, ...], list[ErrorDetails]] = {}
    for i, error in enumerate(errors):
        path = tuple(error["loc"])
        known = document.known(path)
        own = error["type"] in _EXPECTED and len(known) < len(path) and _in_order(known, path)
        groups.setdefault((known,) if own else (i,), []).append(error)
    return list(groups.values())


def _in_order(known: Path, path: Path) -> bool:
    """Tell whether only the last segment of a path, the name of a type, is not in the YAML."""
    return known == path[:-1]


_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def _alternatives(errors: Sequence[ErrorDetails], document: Document) -> Diagnostic:
    path = tuple(errors[0]["loc"])
    kinds = [_EXPECTED[error["type"]] for error in errors]
    wanted = [kind for kind in dict.fromkeys(kinds) if not (kind == "a whole number" and "a number" in kinds)]
    shown = " or ".join([", ".join(wanted[:-1]), wanted[-1]] if len(wanted) > 1 else wanted)
    message = f"{_named(document.known(path))}takes {shown}"
    return Diagnostic("E114", message, document.place(path), help=_got(errors[0]["input"]))


def _named(path: Path) -> str:
    names = [segment for segment in path if isinstance(segment, str)]
    entry = "an entry of " if path and isinstance(path[-1], int) and names else ""
    return f"{entry}'{names[-1]}' " if names else "the document "


def _diagnostic(
    error: ErrorDetails, model: type[BaseModel], document: Document, known: Mapping[str, type[BaseModel]]
) -> Diagnostic:
    path = tuple(error["loc"])
    if error["type"] == "no_value":
        path = (*path, str(error.get("ctx", {}).get("key")))
        message, help_ = f"'{path[-1]}' has no value", "Give it one, or remove the key."
        return Diagnostic("E114", message, document.place(path), help=help_)
    key = str(path[-1]) if path else ""
    match error["type"]:
        case "rejected":  # a check of an installed distribution: its own diagnostic
            context = error.get("ctx", {})
            notes = tuple(str(context["notes"]).splitlines())
            place = document.place((*path, str(context["key"])))
            return Diagnostic(str(context["code"]), str(context["message"]), place, str(context["help"]), notes)
        case "extra_forbidden":
            keys = _keys_at(path[:-1], model, known)
            return Diagnostic(
                "E110", f"unknown key '{key}'", document.place(path, key=True), help=did_you_mean(key, keys)
            )
        case "missing":
            return Diagnostic("E111", f"key '{key}' is missing", document.place(path[:-1]), help=f"Add `{key}:`.")
        case "union_tag_invalid":
            context = error.get("ctx", {})
            expected = [t.strip(" '") for t in str(context.get("expected_tags", "")).split(",")]
            tag, field = str(context.get("tag", "")), str(context.get("discriminator", "")).strip("'")
            place = document.place((*path, field))
            return Diagnostic("E112", f"unknown {field} '{tag}'", place, help=did_you_mean(tag, expected))
        case "union_tag_not_found":
            field = str(error.get("ctx", {}).get("discriminator", "")).strip("'")
            return Diagnostic("E111", f"key '{field}' is missing", document.place(path), help=f"Say which `{field}:`.")
        case "string_type" if isinstance(error["input"], bool | int | float):
            text = document.misread.get(path, _yaml(error["input"]))
            message = f"{_named(document.known(path))}takes text, but YAML reads `{text}` as {_kind(error['input'])}"
            return Diagnostic("E113", message, document.place(path), help=f'Write it in quotes: "{text}".')
        case _:
            message = f"{_named(document.known(path))}{_words(error)}"
            return Diagnostic("E114", message, document.place(path), help=_got(error["input"]))


def _words(error: ErrorDetails) -> str:
    """Return what a value must be, as it follows the key's name."""
    context = error.get("ctx", {})
    if error["type"] in _EXPECTED:
        return f"takes {_EXPECTED[error['type']]}"
    match error["type"]:
        case "too_short" | "string_too_short":
            return (
                "is empty" if context.get("min_length") == 1 else f"has less than {context.get('min_length')} entries"
            )
        case "literal_error" | "enum":
            return f"must be {context.get('expected')}"
        case "string_pattern_mismatch":
            return f"does not match `{context.get('pattern')}`"
        case "greater_than_equal":
            return f"must be at least {context.get('ge')}"
        case "value_error":
            return f"does not fit: {error['msg'].removeprefix('Value error, ')}"
        case _:
            return f"does not fit: {error['msg']}"


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(value: object) -> str:
    return "true or false" if isinstance(value, bool) else "a number"


def _got(value: object) -> str:
    if value is None:
        return "The key has no value: give it one, or remove the key."
    if isinstance(value, bool | int | float):
        return f"Found {_yaml(value)}."
    if isinstance(value, str):
        return f"Found the text {value!r}." if value else "Found an empty text."
    if isinstance(value, dict):
        return "Found a mapping."
    if isinstance(value, list):
        return f"Found a list with {len(value)} entries." if value else "Found an empty list."
    return ""


def _keys_at(path: tuple[int | str, ...], model: type[BaseModel], known: Mapping[str, type[BaseModel]]) -> list[str]:
    """Return the keys that the model at `path` has: the last union tag or field on the way decides."""
    current: type[BaseModel] = model
    for segment in path:
        if not isinstance(segment, str):
            continue
        if segment in known:
            current = known[segment]
            continue
        for name, field in current.model_fields.items():
            if segment in (name, field.alias):
                current = _model_in(field.annotation) or current
    return [field.alias or name for name, field in current.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - typing's own objects
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _model_in(part)
        if found:
            return found
    return None
