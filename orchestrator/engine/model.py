"""`pipeline.yaml` as a model: assembled from the edits and the checks."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from orchestrator.checks.catalogue import AnyCheck
from orchestrator.spec.edits import AnyEdit
from orchestrator.spec.model import Because, Model, Scalar, TargetPath

StageId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="lower case, digits, dashes")]
SourcePath = Annotated[str, Field(min_length=1, description="file of the workspace")]


class Deploy(Model):
    """A file that goes into the tree verbatim."""

    source: SourcePath
    to: TargetPath
    replaces: Annotated[Because | None, Field(description="why an existing or edited file may be replaced")] = None


class Render(Model):
    """A jinja2 template and the artefact that it makes."""

    template: SourcePath
    to: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", description="name of the artefact in build/")]
    schema_: Annotated[
        Literal["run-config"] | None, Field(alias="schema", description="what the artefact must be; checked")
    ] = None


class Provides(Model):
    """What a stage brings to the run configuration: no patch, no flag."""

    flags: Annotated[
        dict[str, str | int | float | bool], Field(description="option → value; true for a bare option")
    ] = {}
    environment: Annotated[dict[str, str], Field(description="environment variable → value")] = {}


class Waiver(Model):
    """A house rule that does not hold for this stage, and why that is right."""

    rule: Annotated[str, Field(pattern=r"^[EW]\d{3}$", description="code of the house rule")]
    because: Because
    about: Annotated[str | None, Field(description="only findings whose message has this text")] = None


class Stage(Model):
    """One node of the DAG."""

    id: StageId
    kind: Literal["codemod", "template"]
    summary: Annotated[str, Field(min_length=1, description="one sentence: what the stage is for")]
    needs: list[StageId] = []
    enabled: Annotated[bool, Field(description="a value or `${params.x}`")] = True
    when: Annotated[
        list[AnyCheck] | None, Field(min_length=1, description="checks on the tree that reaches the stage")
    ] = None
    edits: list[AnyEdit] = []
    deploy: list[Deploy] = []
    render: list[Render] = []
    provides: Provides = Provides()
    pre: list[AnyCheck] = []
    post: list[AnyCheck] = []
    claim: Annotated[str | None, Field(description="what the stage should gain")] = None
    evidence: Annotated[str | None, Field(description="who measured it, where")] = None
    waive: list[Waiver] = []

    @model_validator(mode="after")
    def _kind_fits(self) -> Self:
        if self.kind == "template" and self.edits:
            raise ValueError("a template stage has no edits; use kind: codemod")
        if self.kind == "codemod" and self.render:
            raise ValueError("a codemod stage renders nothing; use kind: template")
        if not (self.edits or self.deploy or self.render):
            raise ValueError("the stage does nothing: give it edits, deploy or render")
        if self.evidence and not self.claim:
            raise ValueError("evidence without a claim")
        return self


class Pipeline(Model):
    """The whole document."""

    version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    summary: str = ""
    target: SourcePath
    params: dict[str, Scalar | list[Scalar]] = {}
    variants: Annotated[
        dict[str, dict[str, Scalar | list[Scalar]]], Field(description="name → parameters it changes")
    ] = {}
    stages: Annotated[list[Stage], Field(min_length=1)]
