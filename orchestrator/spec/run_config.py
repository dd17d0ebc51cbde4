"""The run configuration as the platform reads it: exactly three keys, argv and values as text."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from orchestrator.spec.model import Model


class EnvironmentVariable(Model):
    """One entry of `env`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="name of the variable")]
    value: Annotated[str, Field(description="its value, as text")]


class RunConfig(Model):
    """How the platform starts the server: parallel requests, argument list, environment (FACTS.md §7)."""

    concurrency: Annotated[int, Field(ge=1, description="how many requests the platform sends at a time")]
    command: Annotated[list[str], Field(min_length=1, description="argv; numbers as text")]
    env: Annotated[list[EnvironmentVariable], Field(description="variables of the server's process")]

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        names = [variable.name for variable in self.env]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"env names {', '.join(twice)} more than once")
        return self
