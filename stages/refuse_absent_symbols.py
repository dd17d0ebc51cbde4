"""Let calls to symbols that a vendor's library may lack say so, each by a guard right before the call.

The guard asks the library when the function runs: a later library that has the symbol is used.
"""

from __future__ import annotations

from typing import Annotated

import libcst as cst
import libcst.matchers as m
from pydantic import Field

from orchestrator.spec.model import Model


class Params(Model):
    """The library's module, the name it has in the file, and the symbols; each must be called somewhere."""

    library: Annotated[str, Field(min_length=1)]
    alias: Annotated[str, Field(min_length=1)]
    symbols: Annotated[list[str], Field(min_length=1)]


def transform(module: cst.Module, params: Params) -> cst.Module:
    """Return `module` with a guard before every call; raise `ValueError` for a symbol that nothing calls."""
    guards = _Guards(params)
    changed = module.visit(guards)
    missing = sorted(set(params.symbols) - guards.called)
    if missing:
        raise ValueError(f"nothing calls {params.alias}.{', '.join(missing)}")
    return changed


def applied(module: cst.Module, params: Params) -> bool:
    """Tell whether every call is guarded already."""
    guards = _Guards(params)
    return module.visit(guards).deep_equals(module) and guards.called == set(params.symbols)


class _Guards(cst.CSTTransformer):
    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params
        self.called: set[str] = set()

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body: list[cst.BaseStatement] = []
        for statement in updated_node.body:
            for symbol in self._calls_in(statement):
                self.called.add(symbol)
                guard = self._guard(symbol)
                if not (body and body[-1].deep_equals(guard.with_changes(leading_lines=_lines_above(body[-1])))):
                    body.append(guard.with_changes(leading_lines=_lines_above(statement)))
                    statement = statement.with_changes(leading_lines=[])  # noqa: PLW2901 - the guard took its comments
            body.append(statement)
        return updated_node.with_changes(body=body)

    def _calls_in(self, statement: cst.BaseStatement) -> list[str]:
        """Return the symbols that a simple statement calls, in order; what is in blocks is seen there."""
        if not isinstance(statement, cst.SimpleStatementLine):
            return []
        call = m.Call(func=m.Attribute(value=m.Name(self.params.alias), attr=m.SaveMatchedNode(m.Name(), "symbol")))
        found = [m.extract(node, call) for node in m.findall(statement, call)]
        names = [taken["symbol"] for taken in found if taken]
        return [name.value for name in names if isinstance(name, cst.Name) and name.value in self.params.symbols]

    def _guard(self, symbol: str) -> cst.If:
        alias, library = self.params.alias, self.params.library
        text = (
            f'if not hasattr({alias}, "{symbol}"):\n'
            f"    raise NotImplementedError(\n"
            f'        "this image has no {library}.{symbol}")\n'
        )
        return cst.ensure_type(cst.parse_statement(text), cst.If)


def _lines_above(statement: cst.BaseStatement) -> list[cst.EmptyLine]:
    return list(statement.leading_lines) if isinstance(statement, cst.SimpleStatementLine | cst.If) else []
