"""Stages that stand in for each other: of those with one `one_of`, exactly one is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.engine.graph import Placed
    from orchestrator.engine.model import Stage


def chosen(stages: Sequence[Stage], place: Placed) -> tuple[Stage, ...]:
    """Return the stages with every group's name in `needs` and `after` replaced by its enabled stage.

    Raises `Rejected` (E214) for a group of which none or several are enabled, or that has a stage's name.
    `place(index, key)` says where key `key` of stage `index` stands.
    """
    groups: dict[str, list[int]] = {}
    for index, stage in enumerate(stages):
        if stage.one_of is not None:
            groups.setdefault(stage.one_of, []).append(index)
    faults = [fault for group, members in groups.items() for fault in _faults(group, members, stages, place)]
    if faults:
        raise Rejected(faults)
    enabled = {
        group: stages[index].id for group, members in groups.items() for index in members if stages[index].enabled
    }
    return tuple(_named(stage, enabled) for stage in stages) if groups else tuple(stages)


def _faults(group: str, members: Sequence[int], stages: Sequence[Stage], place: Placed) -> Iterator[Diagnostic]:
    """Yield what is wrong with a group; the stages' places are those of `enabled`, or of the group's name."""
    namesake = next((i for i, stage in enumerate(stages) if stage.id == group), None)
    if namesake is not None:
        message = f"`one_of: {group}` has the name of a stage, so a need for it could mean either"
        yield Diagnostic("E214", message, place(members[0], "one_of"), help="Give the group a name of its own.")
    on = [index for index in members if stages[index].enabled]
    ids = ", ".join(f"'{stages[index].id}'" for index in members)
    if not on:
        message = f"none of {ids} is enabled, and exactly one of '{group}' has to be"
        where = place(members[0], "enabled")
        yield Diagnostic("E214", message, where, help="Enable one of them.", stage=stages[members[0]].id)
    for index in on[1:]:
        message = (
            f"'{stages[index].id}' is enabled as well as '{stages[on[0]].id}', and exactly one of '{group}' may be"
        )
        help_ = "Set `enabled: false` on all of them but one."
        yield Diagnostic("E214", message, place(index, "one_of"), help=help_, stage=stages[index].id)


def _named(stage: Stage, enabled: Mapping[str, str]) -> Stage:
    needs, after = ([enabled.get(name, name) for name in names] for names in (stage.needs, stage.after))
    if (needs, after) == (stage.needs, stage.after):
        return stage
    return stage.model_copy(update={"needs": needs, "after": after})
