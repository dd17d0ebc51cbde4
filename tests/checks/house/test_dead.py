"""Edits in branches that can never run: the gate, its value and the fact are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.view import Facts
from tests.checks.house.conftest import _judged

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Diagnostic
    from tests.checks.house.conftest import Judged

CODE = """\
import sys
from typing import TYPE_CHECKING
from pkg.flags import HAS_FAST
from pkg.platforms import current_platform
LOCAL = not HAS_FAST
def f(x):
    if HAS_FAST:
        a = 1
    else:
        a = 0
    fast = HAS_FAST and x
    if fast:
        b = 1
    c = 1 if current_platform.has_device_capability(80) else 2
    if sys.version_info < (3, 8):
        d = 1
    if current_platform.has_device_capability(80) and x:
        g = 1
    elif not LOCAL or False:
        h = 1
    y = HAS_FAST and x + 1
    if x:
        return a
        k = 1
    while True:
        if x:
            return b
    m = 1
if TYPE_CHECKING:
    X: int = 1
if not LOCAL:
    def only_fast():
        n = 1
"""
SURROUNDINGS = {
    "pkg/__init__.py": "",
    "pkg/flags.py": "HAS_FAST = False\n",
    "pkg/platforms.py": "current_platform = object()\n",
}
FACTS = Facts(constants={"current_platform.has_device_capability(80)": True})


def found(old: str, new: str, flag: str = "False", code: str = CODE) -> list[Diagnostic]:
    assert old in code
    base = {**SURROUNDINGS, "pkg/a.py": code, "pkg/flags.py": f"HAS_FAST = {flag}\n"}
    files = {**base, "pkg/a.py": code.replace(old, new)}
    return _judged(files, "pkg/a.py", base=base, facts=FACTS, code="E512")


def test_the_gate_its_value_and_the_fact_are_named() -> None:
    (dead,) = found("        a = 1", "        a = 5")
    assert dead.message == "this code can never run: `HAS_FAST` is false in this target"
    assert str(dead.place) == "pkg/a.py:8:9"
    assert dead.notes == ("the gate stands at pkg/a.py:7:5", "because HAS_FAST = False at pkg/flags.py:1:1")


@pytest.mark.parametrize(
    ("old", "new", "gate"),
    [
        ("        b = 1", "        b = 5", "`fast` is false"),
        ("        d = 1", "        d = 5", "`sys.version_info < (3, 8)` is false"),
        ("        h = 1", "        h = 5", "`not LOCAL or False` is false"),
        ("        k = 1", "        k = 5", "nothing gets past `return`"),
        ("    m = 1", "    m = 5", "`True` is true"),
        ("        n = 1", "        n = 5", "`not LOCAL` is false"),
        ("    X: int = 1", "    X: int = 5", "`TYPE_CHECKING` is false"),
        ("else 2", "else 5", "`current_platform.has_device_capability(80)` is true"),
        ("x + 1", "x + 5", "`HAS_FAST` is false"),
        ("        a = 1\n", "        a = 1\n        z = 1\n", "`HAS_FAST` is false"),
        ("        n = 1\n", "", "`not LOCAL` is false"),
        (
            "    if x:\n        return a",
            "    if HAS_FAST and x:\n        return 5\n    if x:\n        return a",
            "`HAS_FAST and x`",
        ),
        (
            "    if x:\n        return a",
            "    if False:\n        z = 1\n    if x:\n        return a",
            "`False` is false",
        ),
        ("    m = 1", "    m = 1\n    m = 2", "`True` is true"),
    ],
)
def test_an_edit_that_can_have_no_effect_is_refused(old: str, new: str, gate: str) -> None:
    if new == "":
        old, new = "        n = 1\n", "        pass\n"
    (dead,) = found(old, new)
    assert gate in dead.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        a = 0", "        a = 5"),
        ("        g = 1", "        g = 5"),
        ("c = 1 if", "c = 5 if"),
        ("    X: int = 1\n", "    X: int = 1\n    Y: int = 1\n    from pkg import flags\n"),
        ("    if HAS_FAST:\n        a = 1", "    if x:\n        a = 1"),
        (
            "    if x:\n        return a",
            "    if HAS_FAST:\n        z = 1\n    else:\n        z = 2\n    if x:\n        return a",
        ),
        ("        if x:\n            return b", "        if x:\n            break"),
        ("    fast = HAS_FAST and x", "    fast = x and HAS_FAST"),
        ("        a = 1\n", "        a = 1  # a comment is no edit\n"),
        ("        k = 1\n", "        yield\n"),
    ],
)
def test_an_edit_that_has_an_effect_is_let_pass(old: str, new: str) -> None:
    assert found(old, new) == []


def test_what_the_facts_do_not_decide_is_let_pass() -> None:
    assert found("        a = 1", "        a = 5", flag="bool(__import__('os').environ)") == []
    assert found("        b = 1", "        b = 5", flag="True") == []


def test_a_local_name_that_is_bound_twice_decides_nothing() -> None:
    code = CODE.replace("    if fast:", "    if x:\n        fast = True\n    if fast:")
    assert found("        b = 1", "        b = 5", code=code) == []


def test_a_file_that_is_deployed_as_a_whole_is_no_edit(judged: Judged) -> None:
    files = {**SURROUNDINGS, "pkg/a.py": CODE}
    assert judged(files, "pkg/a.py", base=SURROUNDINGS, facts=FACTS, code="E512") == []


def test_inserted_lines_that_repeat_the_line_above_are_told_from_it() -> None:
    inserted = "    if HAS_FAST:\n        a = 2\n    else:\n        a = 3\n    if HAS_FAST:\n        a = 1"
    assert found("    if HAS_FAST:\n        a = 1", inserted) == []
