"""Let functions say that they are not there: their body becomes `raise NotImplementedError()`.

Signature, decorators and docstring stay, so callers still bind and the help text still reads.
"""

from __future__ import annotations

from typing import Annotated

import libcst as cst
from pydantic import Field

from orchestrator.spec.model import Model


class Params(Model):
    """The module-level functions to empty; each must be there exactly once."""

    functions: Annotated[list[str], Field(min_length=1)]


def transform(module: cst.Module, params: Params) -> cst.Module:
    """Return `module` with the named functions emptied; raise `ValueError` for a name that is not one function."""
    wanted = set(params.functions)
    defined = [item.name.value for item in module.body if isinstance(item, cst.FunctionDef)]
    wrong = sorted(name for name in wanted if defined.count(name) != 1)
    if wrong:
        raise ValueError("not defined exactly once at module level: " + ", ".join(wrong))
    body = [
        _emptied(item) if isinstance(item, cst.FunctionDef) and item.name.value in wanted else item
        for item in module.body
    ]
    return module.with_changes(body=body)


def _emptied(function: cst.FunctionDef) -> cst.FunctionDef:
    docstring = [] if function.get_docstring(clean=False) is None else [function.body.body[0]]
    if not isinstance(function.body, cst.IndentedBlock):
        return function.with_changes(body=cst.IndentedBlock([_refusal()]))
    return function.with_changes(body=function.body.with_changes(body=[*docstring, _refusal()]))


def _refusal() -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Raise(exc=cst.Call(cst.Name("NotImplementedError")))])
