"""What every check shares: why it is there, until when it must hold, and how it is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from orchestrator.checks.verdict import Verdict, fails
from orchestrator.core.diagnostics import Rejected
from orchestrator.spec.model import Because, Model

if TYPE_CHECKING:
    from orchestrator.checks.view import View


class Check(Model):
    """One assertion about a tree."""

    check: str
    because: Because | None = None
    until: Annotated[
        str | None, Field(description="the stage before which it must hold; the end of the run if absent")
    ] = None

    def judge(self, view: View) -> Verdict:
        """Return the verdict on `view`; what cannot be read fails the check, it raises nothing."""
        try:
            return self.look(view)
        except Rejected as error:
            found = error.diagnostics[0]
            return fails(found.message, found.place)

    def look(self, view: View) -> Verdict:
        """Return the verdict; may raise `Rejected` where a file or a definition cannot be read."""
        raise NotImplementedError

    def subject(self) -> str:
        """Return what the check is about, in the words of its YAML."""
        fields = self.model_dump(by_alias=True, exclude_none=True, exclude={"check", "because", "until"})
        return " ".join(f"{key}={value}" for key, value in fields.items())
