"""What a target says about serving: how its server reads its command line and environment, and measured memory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from orchestrator.spec.model import Model, TargetPath

Option = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="an option without its dashes")]
Source = Annotated[str, Field(min_length=1, description="who says so, or how it was measured")]


class Forced(Model):
    """An option that the engine's code sets whatever the command line says, for as long as it is a constant there."""

    option: Option
    file: TargetPath
    within: Annotated[str, Field(min_length=1, description="definition that sets it")]
    call: Annotated[str, Field(min_length=1, description="function or class that it calls")]
    keyword: Annotated[str, Field(min_length=1, description="argument of that call, which is a constant or not")]
    idle: Annotated[list[str], Field(description="options that do nothing where the constant is true")] = []


class Registry(Model):
    """The values of an option that code registers, so that they exist only where that code is in the tree."""

    option: Option
    under: Annotated[str, Field(min_length=1, description="folder of the tree in which they are registered")]
    call: Annotated[str, Field(min_length=1, description="function that registers a name, its first argument")]
    plugin: Annotated[str, Field(description="an option that brings further values; with it, none is refused")] = ""


class Sign(Model):
    """A name by which one sees that the tree does something."""

    under: Annotated[str, Field(min_length=1, description="file or folder of the tree")]
    name: Annotated[str, Field(min_length=1, description="a name or attribute that its code defines")]


class Server(Model):
    """The server that the run configuration starts: the code that reads its command line."""

    module: Annotated[str, Field(min_length=1, description="module that the command line starts")]
    argument_files: Annotated[list[str], Field(description="files that define the options, by add_argument")] = []
    registries: Annotated[list[Registry], Field(description="options whose values code registers")] = []
    forced: Annotated[list[Forced], Field(description="options that the engine sets by itself")] = []
    attention_layers_alone: Annotated[
        list[Sign], Field(description="signs that KV cache is counted for attention layers alone, not for all")
    ] = []
    backends_of_multi_step: Annotated[
        list[str], Field(description="attention backends that take several scheduler steps")
    ] = []
    backends_of_chunked_multi_step: Annotated[
        list[str], Field(description="those of them that take several steps with chunked prefill")
    ] = []


class MemoryRun(Model):
    """One start of the server on the device, with the KV cache blocks that it reported."""

    utilisation: Annotated[float, Field(gt=0, le=1, description="share of the memory that the engine was given")]
    batched_tokens: Annotated[int, Field(ge=1, description="tokens of a batch: what the profile runs")]
    context: Annotated[int, Field(ge=1, description="context length that was asked for")]
    layers: Annotated[int, Field(ge=1, description="layers that the cache was counted for")]
    blocks: Annotated[int, Field(ge=1, description="blocks of KV cache on one rank")]
    source: Source
    note: Annotated[str, Field(description="what else one should know")] = ""


class RefusedVariable(Model):
    """An environment variable that this device or image cannot take."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="name of the variable")]
    containing: Annotated[str, Field(description="the part of its value that is refused; any value if empty")] = ""
    source: Source


class Score(Model):
    """What a platform makes of a server's speed: the sum of its tokens a second, each kind with its weight."""

    output: Annotated[float, Field(ge=0, description="weight of an output token a second")]
    input: Annotated[float, Field(ge=0, description="weight of an input token a second, cached or not")]
    cached: Annotated[float, Field(ge=0, description="weight of a cached input token a second")]
    source: Source
    note: Annotated[str, Field(description="what else one should know")] = ""
