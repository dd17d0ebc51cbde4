"""The check that a file does not call a function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.verdict import Verdict, fails, holds
from orchestrator.core.diagnostics import Place
from orchestrator.spec.model import TargetPath

if TYPE_CHECKING:
    from orchestrator.checks.view import View


class NoCall(Check):
    """The file calls no function of this name."""

    file: TargetPath
    function: Annotated[str, Field(min_length=1, description="how the call is written, such as `logger.info`")]

    def look(self, view: View) -> Verdict:
        """Return whether the call is gone, with the first line that has it."""
        source = view.source(self.file)
        if source is None:
            return fails(f"{self.file} is not there")
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == self.function:
                return fails(f"{self.function} is called in line {node.lineno}", Place(self.file, node.lineno, 1))
        return holds(f"{self.function} is not called in {self.file}")
