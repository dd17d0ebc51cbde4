"""The house rules: always on, judged on the final tree for every file that a run changed or added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.checks.house import (
    arity,
    dead,
    defined,
    live,
    mounts,
    package_init,
    parses,
    reachable,
    registry,
    resolves,
    vendor,
)
from orchestrator.checks.house.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from orchestrator.checks.view import View
    from orchestrator.core.diagnostics import Diagnostic


@dataclass(frozen=True)
class HouseRule:
    """One rule: the code of its findings, what it demands, and its judge over (world, touched paths)."""

    code: str
    title: str
    judge: Callable[[World, frozenset[str]], Iterator[Diagnostic]]


RULES: tuple[HouseRule, ...] = (
    HouseRule("E501", "A touched file parses for the target's Python.", parses.judge),
    HouseRule("E502", "The imports of a touched file resolve.", resolves.judge),
    HouseRule("E503", "A name that a touched file reads is bound somewhere.", defined.judge),
    HouseRule("E504", "A name is not bound only under a condition that the facts make false.", reachable.judge),
    HouseRule("E505", "No target lies under a runtime mount.", mounts.judge),
    HouseRule("E506", "A package's `__init__.py` is left alone, or the stage declares it.", package_init.judge),
    HouseRule("E507", "A call of a changed definition, and one in changed code, binds to the signature.", arity.judge),
    HouseRule("E508", "Changed code takes from a vendor's compiled module only what is there.", vendor.judge),
    HouseRule("E512", "An edit does not stand in a branch that can never run.", dead.judge),
    HouseRule("E513", "What a run brings is read, called or imported by somebody.", live.judge),
    HouseRule("E514", "An entry of a registry-like table names a module that is there.", registry.judge),
)


def judge_house_rules(
    view: View,
    touched: frozenset[str],
    deployed: Mapping[str, bytes] | None = None,
    asked: frozenset[str] = frozenset(),
    brought: frozenset[str] = frozenset(),
) -> tuple[Diagnostic, ...]:
    """Return every finding of every rule, rule by rule and file by file.

    `view` shows the final tree; `touched` are the paths of it that the run changed or added; `deployed` is what
    stages deploy as a whole, before later edits of it; `asked` are files that a stage names as `live`,
    `brought` those that wheels put into the image.
    """
    world = World(view, deployed=deployed or {}, asked=asked, brought=brought)
    return tuple(found for rule in RULES for found in rule.judge(world, touched))
