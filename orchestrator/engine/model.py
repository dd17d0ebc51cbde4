"""`pipeline.yaml` as a model: assembled from the edits and the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from orchestrator.checks.catalogue import AnyCheck
from orchestrator.spec.edits import AnyEdit
from orchestrator.spec.model import Because, Model, Scalar, TargetPath
from orchestrator.spec.releases import Expectation, Release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.checks.base import Check

StageId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="lower case, digits, dashes")]
SourcePath = Annotated[str, Field(min_length=1, description="file of the workspace")]


class Deploy(Model):
    """A file that goes into the tree: a source verbatim, or what a template makes of the values."""

    source: Annotated[str | None, Field(min_length=1, description="file of the workspace")] = None
    template: Annotated[
        str | None,
        Field(
            min_length=1,
            description="instead of it: a jinja2 template, which has the parameters and the target's values",
        ),
    ] = None
    to: TargetPath
    replaces: Annotated[Because | None, Field(description="why an existing or edited file may be replaced")] = None

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if (self.source is None) == (self.template is None):
            raise ValueError("name the file by `source` or by `template`, one of them")
        return self

    @property
    def file(self) -> str:
        """The file of the workspace, source or template."""
        return self.source or self.template or ""


class Compile(Model):
    """A source that the image's own compiler makes a file of when the patch set is installed."""

    source: Annotated[TargetPath, Field(description="path in the tree of a file that this stage deploys")]
    to: Annotated[TargetPath, Field(description="path in the tree of what the compiler writes")]


class Wheel(Model):
    """A wheel that the image gets before anything is checked; later stages edit the package that it brings."""

    requirement: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9._-]+==[^=*\s]+$",
            description="NAME==VERSION, from `wheels/` of the workspace, else from the package index",
        ),
    ] = None
    source: Annotated[
        str | None, Field(min_length=1, description="instead of it: the wheel, a file of the workspace")
    ] = None
    replaces: Annotated[
        str | None, Field(min_length=1, description="the version that must be installed; any or none if not given")
    ] = None

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if (self.requirement is None) == (self.source is None):
            raise ValueError("name the wheel by `requirement` or by `source`, one of them")
        return self


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


class Upstream(Model):
    """The change upstream that makes a stage needless, and how a base that has it is known."""

    pr: Annotated[str, Field(pattern=r"^https?://\S+$", description="address of the pull request, commit or issue")]
    fixed_when: Annotated[
        list[AnyCheck],
        Field(min_length=1, description="checks on the base; where all hold, the stage is skipped as fixed upstream"),
    ]


class WorkspaceWaiver(Model):
    """A finding about the workspace, not about a stage, that is right as it is, and why."""

    rule: Annotated[str, Field(pattern=r"^[EW]14\d$", description="code of the finding: E140, E142, W141 or W142")]
    because: Because
    about: Annotated[str | None, Field(description="only findings whose message has this text, such as a path")] = None


class Stage(Model):
    """One node of the DAG."""

    id: StageId
    kind: Annotated[Literal["codemod", "template"], Field(description="codemod edits code, template renders artefacts")]
    summary: Annotated[str, Field(min_length=1, description="one sentence: what the stage is for")]
    needs: Annotated[
        list[StageId], Field(description="stages that come before, and without which this one is skipped")
    ] = []
    after: Annotated[
        list[StageId],
        Field(description="stages that come first if they are on: order alone, so switching one off skips nothing"),
    ] = []
    enabled: Annotated[bool, Field(description="a value or `${params.x}`")] = True
    one_of: Annotated[
        StageId | None,
        Field(description="group of stages of which exactly one is enabled; `needs` and `after` may name the group"),
    ] = None
    when: Annotated[
        list[AnyCheck] | None, Field(min_length=1, description="checks on the tree that reaches the stage")
    ] = None
    edits: Annotated[list[AnyEdit], Field(description="the changes, in order")] = []
    deploy: Annotated[
        list[Deploy], Field(description="files that go into the tree, verbatim or made from a template")
    ] = []
    compile: Annotated[
        list[Compile],
        Field(description="deployed sources that the target's compiler is to compile in the image"),
    ] = []
    wheels: Annotated[
        list[Wheel], Field(description="wheels to install first, by the image's own pip, without network")
    ] = []
    render: Annotated[list[Render], Field(description="artefacts made from templates")] = []
    live: Annotated[
        TargetPath | None,
        Field(description="a file of `deploy` with a function `live()`: `patchset.py live` asks it what is in use"),
    ] = None
    upstream: Annotated[
        Upstream | None, Field(description="the change upstream that retires the stage, by evidence")
    ] = None
    expires: Annotated[
        Release | None, Field(description="the last release of the base for which the stage may stand; later ones fail")
    ] = None
    expect: Annotated[
        list[Expectation], Field(description="verdicts of `bump` that are known and right, with reason and expiry")
    ] = []
    provides: Annotated[Provides, Field(description="what the stage brings to the run configuration")] = Provides()
    pre: Annotated[list[AnyCheck], Field(description="checks on the tree that the stage meets")] = []
    post: Annotated[
        list[AnyCheck], Field(description="checks on the tree it leaves, judged again at the end of the run")
    ] = []
    claim: Annotated[str | None, Field(description="what the stage should gain")] = None
    evidence: Annotated[str | None, Field(description="who measured it, where")] = None
    waive: Annotated[list[Waiver], Field(description="house rules that do not hold here, with reasons")] = []

    def checks(self) -> Iterator[tuple[tuple[str | int, ...], Check]]:
        """Yield every check with the way to it from the stage."""
        for key in ("when", "pre", "post"):
            for number, check in enumerate(getattr(self, key) or ()):
                yield (key, number), check
        for number, check in enumerate(self.upstream.fixed_when if self.upstream else ()):
            yield ("upstream", "fixed_when", number), check

    @model_validator(mode="after")
    def _kind_fits(self) -> Self:
        if self.kind == "template" and self.edits:
            raise ValueError("a template stage has no edits; use kind: codemod")
        if self.kind == "codemod" and self.render:
            raise ValueError("a codemod stage renders nothing; use kind: template")
        if not (self.edits or self.deploy or self.wheels or self.render):
            raise ValueError("the stage does nothing: give it edits, deploy, wheels or render")
        if self.evidence and not self.claim:
            raise ValueError("evidence without a claim")
        return self


class Pipeline(Model):
    """The whole document."""

    version: Annotated[Literal[1], Field(description="version of this format")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="lower case, digits, dashes")]
    summary: Annotated[str, Field(description="one sentence: what the pipeline is for")] = ""
    target: Annotated[SourcePath, Field(description="file with the facts of the image")]
    targets: Annotated[
        list[SourcePath], Field(description="further images: `--matrix` takes `target` and each of these")
    ] = []
    params: Annotated[
        dict[str, Scalar | list[Scalar]], Field(description="name → default; `${params.NAME}` refers to it")
    ] = {}
    variants: Annotated[
        dict[str, dict[str, Scalar | list[Scalar]]], Field(description="name → parameters it changes")
    ] = {}
    stages: Annotated[list[Stage], Field(min_length=1, description="what is applied; `needs` gives the order")]
    waive: Annotated[
        list[WorkspaceWaiver], Field(description="findings about the workspace that are right, with reasons")
    ] = []
