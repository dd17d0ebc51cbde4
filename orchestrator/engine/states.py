"""In which state a stage and its parts are, in a tree that somebody made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.code.scopes import Definition
    from orchestrator.core.tree import Tree


MAX_SHOWN = 3


class State(StrEnum):
    """How a stage, or one part of it, stands in a tree."""

    APPLIED = "applied"
    CHANGED = "applied, changed since"
    PARTLY = "partly applied"
    NOT = "not applied"
    CANNOT = "cannot be applied here"
    SKIPPED = "skipped"
    NOTHING = "makes no change"


@dataclass(frozen=True)
class Part:
    """One edit, deployed file or wheel of a stage: its state, why, and the diff from what the pipeline makes."""

    name: str
    definition: Definition | None
    state: State
    detail: str = ""
    diff: str = ""
    overwritten: bool = False
    """Its work is not to be seen because a later stage wrote over it, so that one's state decides."""
    whole: bool = False
    """Its own work is there as it should be, and only the code around it differs."""


@dataclass(frozen=True)
class Standing:
    """How a stage stands: its parts, and what they come to."""

    stage: str
    state: State
    detail: str = ""
    parts: tuple[Part, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the record of JSON output."""
        parts = [
            {"part": part.name, "state": str(part.state), "detail": part.detail, "diff": part.diff}
            for part in self.parts
        ]
        return {
            "event": "verify", "stage": self.stage, "state": str(self.state), "detail": self.detail, "parts": parts
        }  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """How all stages stand; `completed` is the tree with what is missing put in, as far as that can be done."""

    stages: tuple[Standing, ...]
    completed: Tree


def together(stage: str, parts: tuple[Part, ...]) -> Standing:
    """Return what the states of a stage's parts come to."""
    states = {part.state for part in parts}
    present = states & {State.APPLIED, State.CHANGED}
    if states == {State.APPLIED}:
        notes = [f"{part.name}: {part.detail}" for part in parts if part.detail]
        return Standing(stage, State.APPLIED, "; ".join(notes), parts)
    if states <= {State.APPLIED, State.CHANGED}:
        state, telling = State.CHANGED, State.CHANGED
    elif present:
        return Standing(stage, State.PARTLY, _partly(parts), parts)
    elif State.CANNOT in states:
        state, telling = State.CANNOT, State.CANNOT
    else:
        why = list(dict.fromkeys(part.detail for part in parts if part.detail))
        more = [f"{len(why) - MAX_SHOWN} more"] if len(why) > MAX_SHOWN else []
        return Standing(stage, State.NOT, "; ".join([*why[:MAX_SHOWN], *more]) or "it would apply", parts)
    notes = [f"{part.name}: {part.detail}" for part in parts if part.state is telling]
    return Standing(stage, state, "; ".join(notes), parts)


def _partly(parts: tuple[Part, ...]) -> str:
    shown = []
    for part in parts:
        mark = {State.APPLIED: "applied:    ", State.NOT: "not applied:"}.get(part.state, f"{part.state}:")
        shown.append(f"{mark} {part.name}" + (f" ({part.detail})" if part.detail else ""))
    return "; ".join(shown)
