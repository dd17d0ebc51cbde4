"""Every check by its name, and the union that YAML is validated against."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, get_args

from pydantic import Field, SerializeAsAny, WrapValidator

from orchestrator.checks.compiler import CompilerNamed
from orchestrator.checks.effective import EffectiveValue
from orchestrator.checks.files import FileAbsent, FileExists, Sha256, TextCount, Unchanged
from orchestrator.checks.plugins import by_name
from orchestrator.checks.python import (
    AssignmentEquals,
    ImportResolves,
    MatchCount,
    Parses,
    SignatureEquals,
    SymbolAbsent,
    SymbolExists,
)
from orchestrator.checks.run_config import RunConfigFits
from orchestrator.checks.table import TableFits
from orchestrator.checks.tile import TileFits
from orchestrator.checks.usage import CalledBy, ImportedBy, ReadBy
from orchestrator.checks.values import ValueContains, ValueEquals

if TYPE_CHECKING:
    from orchestrator.checks.base import Check

_OwnCheck = Annotated[
    FileExists
    | FileAbsent
    | Sha256
    | TextCount
    | Unchanged
    | Parses
    | SymbolExists
    | SymbolAbsent
    | SignatureEquals
    | AssignmentEquals
    | MatchCount
    | ImportResolves
    | ValueEquals
    | ValueContains
    | EffectiveValue
    | ReadBy
    | CalledBy
    | ImportedBy
    | TileFits
    | TableFits
    | RunConfigFits
    | CompilerNamed,
    Field(discriminator="check"),
]

_MODELS: tuple[type[Check], ...] = get_args(get_args(_OwnCheck)[0])
CHECKS: dict[str, type[Check]] = {get_args(model.model_fields["check"].annotation)[0]: model for model in _MODELS}

AnyCheck = Annotated[_OwnCheck, WrapValidator(partial(by_name, CHECKS)), SerializeAsAny()]
"""One of these, or a check of an installed distribution, whose name has a prefix: `DISTRIBUTION.NAME`."""
