"""Let calls to symbols that a vendor's library may lack say so, each by a guard right before the call.

The guard asks the library when the function runs: a later library that has the symbol is used.
"""

from __future__ import annotations

from typing import Annotated

import libcst as cst
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
        self.calls: dict[cst.BaseStatement, list[str]] = {}
        self.statement: cst.BaseStatement | None = None

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self.statement = node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        self.statement = None
        return updated_node

    def visit_Call(self, node: cst.Call) -> None:
        """Note a call of a symbol with the simple statement that it is in, in the order of the text."""
        match node.func:
            case cst.Attribute(value=cst.Name(self.params.alias), attr=cst.Name(symbol)):
                if self.statement is not None and symbol in self.params.symbols:
                    self.calls.setdefault(self.statement, []).append(symbol)

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        if not self.calls.keys() & set(original_node.body):
            return updated_node
        body: list[cst.BaseStatement] = []
        for original, statement in zip(original_node.body, updated_node.body, strict=True):
            for symbol in self.calls.get(original, ()):
                self.called.add(symbol)
                guard = self._guard(symbol)
                if not (body and body[-1].deep_equals(guard.with_changes(leading_lines=_lines_above(body[-1])))):
                    body.append(guard.with_changes(leading_lines=_lines_above(statement)))
                    statement = statement.with_changes(leading_lines=[])  # noqa: PLW2901 - the guard took its comments
            body.append(statement)
        return updated_node.with_changes(body=body)

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
