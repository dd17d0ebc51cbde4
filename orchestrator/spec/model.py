"""What every YAML model shares: strict, frozen, nothing unknown; and the marks that say what a string is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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


@dataclass(frozen=True)
class CodeMark:
    """Marks a field that holds Python code: its references become syntax nodes, not text.

    `form` is what Python can read, with `{}` where the field's text goes.
    """

    form: str = "{}"


Code = Annotated[str, CodeMark(), Field(min_length=1, json_schema_extra={"x-code": True})]
Signature = Annotated[str, CodeMark("def f{}: pass"), Field(min_length=1, json_schema_extra={"x-code": True})]
TargetPath = Annotated[str, Field(min_length=1, description="path in a tree, its package root first")]
Because = Annotated[str, Field(min_length=1, description="the reason, shown when it fails")]
Scalar = bool | int | float | str


def code_fields(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the YAML keys of a model's fields that hold code, each with the form in which Python reads it."""
    found = {}
    for name, field in model.model_fields.items():
        marks = [*(mark for mark in field.metadata if isinstance(mark, CodeMark)), *_code_marks(field.annotation)]
        if marks:
            found[field.alias or name] = marks[0].form
    return found


def _code_marks(annotation: Any) -> Iterator[CodeMark]:  # noqa: ANN401 - typing's own objects
    yield from (mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, CodeMark))
    for part in getattr(annotation, "__args__", ()):
        yield from _code_marks(part)
