"""Whether the image has a compiler for device code, as far as the target says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from orchestrator.checks.base import Check
from orchestrator.checks.verdict import Verdict, fails, holds

if TYPE_CHECKING:
    from orchestrator.checks.view import View


class CompilerNamed(Check):
    """The target names a compiler for device code; a stage with `compile:` asks this in its `when:`."""

    check: Literal["compiler_named"]

    def look(self, view: View) -> Verdict:
        """Return whether there is one, with its path, or with the target's reason why not."""
        facts = view.facts
        if facts.compiler:
            return holds(f"the target names {facts.compiler[0]}")
        return fails(facts.no_compiler or "the target names no compiler")
