"""The value that a name effectively has: gates folded with facts, flags of the tree and what is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.checks.verdict import Status
from orchestrator.checks.view import Facts

if TYPE_CHECKING:
    from orchestrator.checks.verdict import Verdict
    from tests.checks.conftest import Scene

CODE = """\
import sys
from pkg.flags import HAS_FAST
from pkg.platforms import current_platform


def tile(k, fast):
    block = 128 if current_platform.has_device_capability(80) else 64
    if HAS_FAST:
        block = 256
    if sys.version_info < (3, 8):
        block = 1
    if k.shape[-1] > 128:
        block = block // 2
    launch(block)
    block = 0
    return block
"""
OPEN = Facts(constants={"current_platform.has_device_capability(80)": True})


def _judged(scene: Scene, flag: str = "False", facts: Facts = OPEN, **fields: Any) -> Verdict:  # noqa: ANN401 - as YAML
    scene.files = {
        "pkg/a.py": CODE,
        "pkg/flags.py": f"HAS_FAST = {flag}\n",
        "pkg/platforms.py": "current_platform = 1\n",
    }
    scene.facts = facts
    given = {"file": "pkg/a.py", "within": "tile", "name": "block", "before": "launch(block)", "equals": 128, **fields}
    return scene.judge("effective_value", **given)


def test_gates_are_folded_with_facts_flags_of_other_files_and_what_is_given(scene: Scene) -> None:
    verdict = _judged(scene, given={"k.shape[-1]": 64})
    assert verdict.status is Status.HOLDS
    assert "`block` of `tile` in pkg/a.py is effectively 128" in verdict.evidence
    assert "HAS_FAST = False at pkg/flags.py:1:1" in verdict.evidence
    assert "the target runs Python 3.10" in verdict.evidence


@pytest.mark.parametrize(
    ("flag", "size", "value"), [("False", 256, 64), ("True", 64, 256), ("True", 256, 128), ("False", 64, 128)]
)
def test_each_way_through_the_gates_has_its_value(scene: Scene, flag: str, size: int, value: int) -> None:
    assert _judged(scene, flag, given={"k.shape[-1]": size}, equals=value).holds
    assert not _judged(scene, flag, given={"k.shape[-1]": size}, equals=value + 1).holds


def test_a_gate_that_nothing_decides_must_not_matter(scene: Scene) -> None:
    verdict = _judged(scene)
    assert not verdict.holds
    assert "is effectively 64 where `k.shape[-1] > 128`, not 128" in verdict.evidence
    closed = _judged(scene, facts=Facts(), given={"k.shape[-1]": 64})
    assert not closed.holds
    assert "is effectively 64 where" in closed.evidence


def test_without_a_place_the_end_counts(scene: Scene) -> None:
    assert _judged(scene, before=None, equals=0).holds


def test_what_is_not_there_fails(scene: Scene) -> None:
    assert "matches nothing" in _judged(scene, before="start(block)").evidence
    assert "did you mean 'block'" in _judged(scene, name="blok").evidence


def test_a_place_that_no_path_gets_to_fails(scene: Scene) -> None:
    verdict = _judged(scene, before="block = 256", equals=128)
    assert not verdict.holds
    assert verdict.evidence.startswith("no path that this target takes gets to `block = 256`")
