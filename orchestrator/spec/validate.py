"""From a document to a model: pydantic's errors become diagnostics with a place in the YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        found = [_diagnostic(e, model, document, known) for e in error.errors(include_url=False)]
        raise Rejected(sorted(set(found), key=lambda d: d.place or document.place(()))) from None


def misread(document: Document) -> list[Diagnostic]:
    """Return E109 for every scalar that YAML reads as something that does not print as it is written."""
    found = []
    for path, text in document.misread.items():
        value = _at(document.data, path)
        what = f"a date or another type without a field here ({text})" if value == text else f"{value!r}"
        message = f"`{text}` is read by YAML as {what}"
        plain = "" if value == text else f"write {value!r}, or "
        help_ = f"{plain}put it in quotes if text is meant: '{text}'."
        found.append(Diagnostic("E109", message, document.place(path), help=help_[0].upper() + help_[1:]))
    return found


def _at(data: Any, path: Path) -> Any:  # noqa: ANN401 - plain data
    for segment in path:
        data = data[segment]
    return data


def _diagnostic(
    error: ErrorDetails, model: type[BaseModel], document: Document, known: Mapping[str, type[BaseModel]]
) -> Diagnostic:
    path = tuple(error["loc"])
    key = str(path[-1]) if path else ""
    match error["type"]:
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
            message = f"'{key}' takes text, but YAML reads `{text}` as {_kind(error['input'])}"
            return Diagnostic("E113", message, document.place(path), help=f'Write it in quotes: "{text}".')
        case _:
            message = error["msg"].removeprefix("Value error, ")
            shown = f"'{key}': " if key else ""
            return Diagnostic("E114", f"{shown}{message}", document.place(path), help=_got(error["input"]))


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(value: object) -> str:
    return "true or false" if isinstance(value, bool) else "a number"


def _got(value: object) -> str:
    if value is None:
        return "The key has no value: give it one, or remove the key."
    if isinstance(value, str | int | float | bool):
        return f"Found {value!r} ({type(value).__name__})."
    if isinstance(value, dict):
        return "Found a mapping."
    return f"Found a list with {len(value)} entries." if isinstance(value, list) else ""


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
