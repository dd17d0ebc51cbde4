"""The six edit operations as YAML writes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from orchestrator.spec.model import Because, Code, Model, TargetPath

TRANSFORM = r"^([a-z0-9]+(-[a-z0-9]+)*\.)?[a-z][a-z0-9_]*$"
"""How the name of a transform is written: that of a file, or with a distribution's prefix."""


class Edit(Model):
    """What all edits share: the file, and the definition in it that is searched."""

    file: TargetPath
    within: Annotated[str | None, Field(min_length=1, description="qualified name; the whole module if absent")] = None
    because: Because | None = None


class AssignEdit(Edit):
    """Give a name another value, keeping annotation, comments and layout."""

    op: Literal["assign"]
    name: Annotated[Code, Field(description="the target: `NUM_WARPS`, `self.limit`")]
    from_: Annotated[Code | None, Field(alias="from", description="the value it must have now; holes allowed")] = None
    value: Annotated[Code, Field(description="the new value")]


class ReplaceEdit(Edit):
    """Put other code in place of an expression or of statements in a row."""

    op: Literal["replace"]
    match: Annotated[Code, Field(description="one expression, or statements in a row, with holes")]
    with_: Annotated[Code, Field(alias="with", description="the new code; may use the holes of `match`")]
    count: Annotated[int, Field(ge=1, description="how many sites there must be")] = 1


class DeleteEdit(Edit):
    """Remove statements; a body that would be empty becomes `pass`."""

    op: Literal["delete"]
    match: Annotated[Code, Field(description="statements in a row, with holes")]
    count: Annotated[int, Field(ge=1, description="how many sites there must be")] = 1


class InsertEdit(Edit):
    """Put statements before or after an anchor, or at the start or end of a body."""

    op: Literal["insert"]
    code: Annotated[Code, Field(description="the statements")]
    before: Annotated[Code | None, Field(description="the statement that follows")] = None
    after: Annotated[Code | None, Field(description="the statement that precedes")] = None
    at: Annotated[Literal["start", "end"] | None, Field(description="a place in the body, without an anchor")] = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if sum(place is not None for place in (self.before, self.after, self.at)) != 1:
            raise ValueError("give exactly one of `before`, `after` and `at`")
        return self


class ImportEdit(Edit):
    """Add an import statement behind the docstring, the `__future__` imports and the leading imports."""

    op: Literal["import"]
    code: Annotated[Code, Field(description="the import statement")]


class TransformEdit(Edit):
    """Run a transform of the workspace, `stages/NAME.py`, or of an installed distribution, `DISTRIBUTION.NAME`.

    Either has `Params` and `transform(module, params)`.
    """

    op: Literal["transform"]
    use: Annotated[
        str, Field(pattern=TRANSFORM, description="file name in `stages/` without `.py`, or DISTRIBUTION.NAME")
    ]
    params: Annotated[dict[str, Any], Field(description="what the transform's own `Params` model takes")] = {}


AnyEdit = Annotated[
    AssignEdit | ReplaceEdit | DeleteEdit | InsertEdit | ImportEdit | TransformEdit, Field(discriminator="op")
]
EDITS: dict[str, type[Edit]] = {
    "assign": AssignEdit,
    "replace": ReplaceEdit,
    "delete": DeleteEdit,
    "insert": InsertEdit,
    "import": ImportEdit,
    "transform": TransformEdit,
}
