"""The check that a table of kernel configurations has no row that the device cannot hold."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.checks.verdict import Status, Verdict

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

FILE = "pkg/table.py"
TABLE = """from __future__ import annotations
from dataclasses import dataclass

@dataclass(frozen=True)
class Row:
    name: str
    bytes: int

def described(device: str) -> list:
    if device != "chip":
        raise LookupError(f"no device is called {device!r}")
    return [(row.name, "a tile", row.bytes) for row in (Row("small", 1024), Row("large", LARGE))]
"""


def judge(scene: Scene, large: int, table: str = TABLE, **fields: Any) -> Verdict:  # noqa: ANN401 - as YAML
    scene.files = {FILE: table.replace("LARGE", str(large))}
    return scene.judge("table_fits", **{"file": FILE, "name": "described", "device": "chip"} | fields)


@pytest.mark.parametrize(
    ("large", "status", "said"),
    [
        (32_768, Status.HOLDS, "large: a tile, 32,768 B"),
        (32_769, Status.WARNS, "large: a tile, 32,769 B, above the preferred 32,768 B"),
        (49_152, Status.WARNS, "large: a tile, 49,152 B, above the preferred 32,768 B"),
        (49_153, Status.FAILS, "large: a tile, 49,153 B, above the limit of 49,152 B"),
    ],
)
def test_each_row_is_held_against_the_target_s_figures(scene: Scene, large: int, status: Status, said: str) -> None:
    found = judge(scene, large)
    assert found.status is status
    assert found.evidence == f"2 rows for 'chip', the limit is 49,152 B; {said}; small: a tile, 1,024 B"


def test_figures_of_the_check_come_first(scene: Scene) -> None:
    assert judge(scene, 2048, limit=2047).status is Status.FAILS
    assert judge(scene, 2048, limit=2048, preferred=2048).status is Status.HOLDS


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def other(device): return []", "AttributeError: "),
        ("def described(device): return [('a', 'b')]", "ValueError: "),
        ("def described(device): return [('a', 'b', '7')]", "TypeError: a row is (name, tile in words, bytes)"),
        ("def described(device): return 7", "TypeError: "),
        ("def described(device): raise LookupError", "LookupError"),
    ],
)
def test_a_table_that_gives_no_rows_fails_with_its_reason(scene: Scene, table: str, said: str) -> None:
    found = judge(scene, 0, table)
    assert found.status is Status.FAILS
    assert f"`described` in {FILE} gives no rows for 'chip': {said}" in found.evidence


def test_a_device_without_rows_fails(scene: Scene) -> None:
    assert judge(scene, 0, "def described(device): return []").status is Status.FAILS
    assert "no device is called 'chop'" in judge(scene, 0, device="chop").evidence


def test_nothing_of_the_table_stays_behind(scene: Scene) -> None:
    before = set(sys.modules)
    judge(scene, 1)
    assert set(sys.modules) == before
