"""Turn a logger's `info` calls into `debug` calls: in a hot path even a line that nobody reads takes time."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m
from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Which logger."""

    model_config = ConfigDict(extra="forbid")

    logger: str = "logger"


def transform(module: cst.Module, params: Params) -> cst.Module:
    """Return the module with every `LOGGER.info(…)` as `LOGGER.debug(…)`."""
    call = m.Call(func=m.Attribute(value=m.Name(params.logger), attr=m.Name("info")))

    def quieter(node: cst.CSTNode, _: object) -> cst.CSTNode:
        call = cst.ensure_type(node, cst.Call)
        return call.with_deep_changes(cst.ensure_type(call.func, cst.Attribute).attr, value="debug")

    return cst.ensure_type(m.replace(module, call, quieter), cst.Module)
