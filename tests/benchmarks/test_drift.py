"""The drift benchmark on small packages: who judges is right, and what each form comes to where it is known."""

from __future__ import annotations

import json
import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from benchmarks import drift
from benchmarks.drifting import report, scoped, textual
from benchmarks.drifting.forms import Refused
from benchmarks.drifting.judge import expected, said
from benchmarks.drifting.sample import KINDS, Change, Drawn, drawn
from tests.workspaces import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD = '''\
"""A module."""

import os
import sys

LIMIT = 8
NAME = "first"


def first(items, flag=False):
    total = 0
    for item in items:
        if item is None:
            raise ValueError("no item")
        total += item
    os.makedirs("folder", exist_ok=True)
    return total


def second(items, flag=False):
    total = 0
    for item in items:
        if flag:
            sys.stdout.write("flag")
        total += item
    return total


class Box:
    """A box."""

    size = 4

    def open(self, mode="r"):
        self.mode = mode
        if self.size > LIMIT:
            print("large", end="")
            return None
        return open(self.mode, encoding="utf-8")

    def close(self):
        self.mode = None
        print("closed", end="", flush=True)
        return self.size
'''
NEW = (
    OLD.replace('    """A box."""\n', '    """A box that holds things."""\n\n    kind = "box"\n')
    .replace("def second(items, flag=False):\n    total = 0\n", "def second(items, flag=False):\n    total = 1\n")
    .replace("        self.mode = None\n", "        self.mode = None\n        self.closed = True\n")
    .replace(
        "    return total\n\n\ndef second",
        "    return total\n\n\ndef between(items):\n    return items\n\n\ndef second",
    )
)
PACKAGES = {"old": {"vllm/a.py": OLD.encode()}, "new": {"vllm/a.py": NEW.encode()}, "gone": {"vllm/b.py": b"A = 1\n"}}


@pytest.fixture
def random_() -> Random:
    return Random(7)  # noqa: S311 - a sample, not a secret


@pytest.fixture(scope="module")
def cases() -> Iterator[list[drift.Case]]:
    absent = {program for program in ("git", "patch") if not shutil.which(program)}
    forms = {name: form for name, form in drift.FORMS.items() if not any(program in name for program in absent)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(drift, "FORMS", forms)
        yield drift.measured(3, 24, "old", [("next", "new"), ("next", "gone")], PACKAGES.__getitem__)


def test_edits_of_every_kind_are_drawn_and_the_same_seed_draws_the_same(random_: Random) -> None:
    state = random_.getstate()
    found = [each.change for each in drawn(PACKAGES["old"], 24, random_)]
    random_.setstate(state)
    assert {change.kind for change in found} == set(KINDS)
    assert len(set(found)) == len(found)
    assert [each.change for each in drawn(PACKAGES["old"], 24, random_)] == found


def test_what_is_drawn_is_right_on_its_own_file_and_changes_it(random_: Random) -> None:
    for each in drawn(PACKAGES["old"], 24, random_):
        assert said(each.after) in expected(each.change, each.raw), each.change
        assert said(each.after) != said(each.raw)


def test_ours_is_right_wherever_it_can_be_and_never_wrong_or_silent(cases: list[drift.Case]) -> None:
    ours = [(case.possible, case.outcomes["scoped pattern"]) for case in cases]
    assert {came for _, came in ours} == {"right", "refused"}
    assert all(possible or came == "refused" for possible, came in ours)
    right = sum(came == "right" for _, came in ours)
    for form in drift.FORMS:
        assert right >= sum(case.outcomes[form] == "right" for case in cases), form
    assert right > len(cases) / 4


def test_where_the_file_is_gone_every_form_refuses(cases: list[drift.Case]) -> None:
    gone = [case for case in cases if case.to == "gone"]
    assert {came for case in gone for came in case.outcomes.values()} <= {"refused", "unwritten"}


def test_counts_add_up_and_the_tables_name_every_form(cases: list[drift.Case]) -> None:
    found = drift.counted(cases)
    for forms in found["groups"]["all"]["forms"].values():
        assert sum(forms.values()) == found["cases"] == len(cases)
    shown = report.page({"edits": 40, "bases": ["old"], "newest": "gone", "seed": 3} | found)
    assert all(form in shown for form in drift.FORMS)


INNER = """\
    def inner():
        return total

    return inner()
"""
CHANGE = Change("return", "vllm/a.py", "second", "Return(value=Name(id='total', ctx=Load()))", 0, 1, "return None")


def change_of_second() -> Drawn:
    first, _, rest = OLD.rpartition("    return total\n")
    return Drawn(CHANGE, OLD.encode(), f"{first}    return None\n{rest}".encode(), None)


def test_the_same_line_in_another_function_is_applied_wrong() -> None:
    right = NEW[: NEW.index("def second")] + NEW[NEW.index("def second") :].replace("return total", "return None", 1)
    wrong = NEW.replace("return total", "return None", 1)
    wanted = expected(CHANGE, NEW.encode())
    assert said(right.encode()) in wanted
    assert said(wrong.encode()) not in wanted


@pytest.mark.parametrize(
    ("what", "later"),
    [
        ("the function is gone", NEW.replace("def second", "def other")),
        ("the function is there twice", f"{NEW}\n\ndef second():\n    return total\n"),
        ("the statement is another", NEW.replace("total += item\n    return total", "total += item\n    return 2")),
        ("it is there twice", NEW.replace("total = 1\n", "total = 1\n    if flag:\n        return total\n")),
        ("it stands in a function within", NEW.replace("    return total\n\n\nclass", f"{INNER}\n\nclass")),
    ],
)  # fmt: skip
def test_where_the_part_is_not_to_be_found_nothing_is_right(what: str, later: str) -> None:
    assert later != NEW, what
    assert expected(CHANGE, later.encode()) == frozenset()


def test_an_anchor_that_is_gone_is_refused_or_silent() -> None:
    found, later = change_of_second(), NEW.replace("return total", "return total + 0").encode()
    assert textual.checked(1)(found)(later) == Refused("anchor")
    assert textual.unchecked(1)(found)(later) == later
    assert drift.outcome(textual.unchecked(1)(found), later, later, expected(CHANGE, later)) == "silent"


def test_an_anchor_has_as_many_lines_as_are_asked_for() -> None:
    for lines in (1, 3, 6):
        found = textual.anchor(change_of_second(), lines)
        assert found.old.count(b"\n") == lines
        assert OLD.encode().replace(found.old, found.new).count(b"return None") >= 1


def test_a_stage_that_is_in_already_writes_nothing_and_says_so() -> None:
    plan = scoped.planned("vllm/a.py", "", {"op": "assign", "name": "LIMIT", "from": "8", "value": "9"})
    assert not isinstance(plan, Refused)
    assert scoped.applied(plan, "vllm/a.py", OLD.encode().replace(b"LIMIT = 8", b"LIMIT = 9")) == Refused("already")


def test_the_page_says_what_was_counted() -> None:
    found = json.loads((ROOT / "docs" / "drift.json").read_text())
    assert (ROOT / "docs" / "drift.md").read_text(encoding="utf-8") == report.page(found)
    assert found["edits"] >= 300
