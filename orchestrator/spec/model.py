"""What every YAML model shares: strict, frozen, nothing unknown; and the marks that say what a string is."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError


class Model(BaseModel):
    """A strict, frozen model: unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _keys_have_values(cls, data: Any) -> Any:  # noqa: ANN401 - whatever YAML holds
        """Refuse a key that stands there without a value: it would read as if it were absent.

        An empty `when:` would mean "always" and an empty `from:` "whatever it is now".
        """
        for name, field in cls.model_fields.items() if isinstance(data, dict) else ():
            key = field.alias or name
            if not field.is_required() and field.default is None and data.get(key, ...) is None:
                raise PydanticCustomError("no_value", "has no value", {"key": key})
        return data


class CodeMark:
    """Marks a field that holds Python code: its references become syntax nodes, not text."""


Code = Annotated[str, CodeMark(), Field(min_length=1, json_schema_extra={"x-code": True})]
TargetPath = Annotated[str, Field(min_length=1, description="path in a tree, its package root first")]
Because = Annotated[str, Field(min_length=1, description="the reason, shown when it fails")]
Scalar = bool | int | float | str


def code_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the YAML keys of a model's fields that hold code."""
    found = set()
    for name, field in model.model_fields.items():
        if any(isinstance(mark, CodeMark) for mark in field.metadata) or _mentions_code(field.annotation):
            found.add(field.alias or name)
    return frozenset(found)


def _mentions_code(annotation: Any) -> bool:  # noqa: ANN401 - typing's own objects
    metadata = getattr(annotation, "__metadata__", ())
    if any(isinstance(mark, CodeMark) for mark in metadata):
        return True
    return any(_mentions_code(part) for part in getattr(annotation, "__args__", ()))
