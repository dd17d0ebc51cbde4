"""Checks on single values of YAML and JSON files, and of names folded from code."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.checks.values import ValueEquals, same, steps
from orchestrator.checks.verdict import Status
from orchestrator.core.diagnostics import Place, Rejected

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

YAML = """concurrency: 8
command: [python3, --max-num-seqs, "8", --trust]
env:
  - {name: FAST, value: "1"}
  - {name: RATE, value: "0.9"}
deep: {list: [[1, 2], [3]], flag: true, none: null}
"""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("concurrency", 8),
        ("command[2]", "8"),
        ("command[2]", 8),
        ("command[-1]", "--trust"),
        ("env.FAST", "1"),
        ("env.FAST", 1),
        ("env.RATE", 0.9),
        ("env[0].name", "FAST"),
        ("deep.list[0][1]", 2),
        ("deep.list[1]", [3]),
        ("deep.flag", True),
        ("deep.none", None),
        ("command", ["python3", "--max-num-seqs", 8, "--trust"]),
    ],
)
def test_a_value_is_found_by_its_path(scene: Scene, path: str, value: Any) -> None:  # noqa: ANN401 - any plain value
    scene.artefacts = {"run.yaml": YAML}
    found = scene.judge("value_equals", file="run.yaml", path=path, equals=value)
    assert found.status is Status.HOLDS
    assert found.evidence.startswith(f"`{path}` of run.yaml is ")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("concurrency", 4, "`concurrency` of run.yaml is 8, not 4"),
        ("concurrency", "8", '`concurrency` of run.yaml is 8, not "8"'),
        ("deep.flag", 1, "`deep.flag` of run.yaml is true, not 1"),
        ("env.FAST", True, '`env.FAST` of run.yaml is "1", not true'),
        ("env.FAS", "1", "run.yaml has no `env.FAS`: nothing at `FAS`; did you mean 'FAST'?"),
        ("command[9]", "1", "run.yaml has no `command[9]`: nothing at `9`, which has 4 entries"),
        ("concurrent", 8, "run.yaml has no `concurrent`: nothing at `concurrent`; did you mean 'concurrency'?"),
        ("concurrency.x", 8, "run.yaml has no `concurrency.x`: nothing at `x`"),
        ("command[x]", 8, "`path: command[x]` cannot be read from character 8"),
    ],
)
def test_another_value_and_a_path_that_leads_nowhere_fail(
    scene: Scene,
    path: str,
    value: Any,  # noqa: ANN401 - any plain value
    said: str,
) -> None:
    scene.artefacts = {"run.yaml": YAML}
    found = scene.judge("value_equals", file="run.yaml", path=path, equals=value)
    assert (found.status, found.evidence) == (Status.FAILS, said)


def test_the_place_is_that_of_the_value(scene: Scene) -> None:
    scene.artefacts = {"run.yaml": YAML}
    assert scene.judge("value_equals", file="run.yaml", path="env.FAST", equals="2").place == Place(
        "run.yaml", 4, 25, 3
    )


def test_json_is_read_as_json(scene: Scene) -> None:
    scene.artefacts = {"run.json": '{"a":\t{"b": [1]}}', "bad.json": "{'a': 1}"}
    assert scene.judge("value_equals", file="run.json", path="a.b[0]", equals=1).holds
    found = scene.judge("value_equals", file="bad.json", path="a", equals=1)
    assert found.status is Status.FAILS
    assert found.evidence.startswith("bad.json: not JSON: ")


@pytest.mark.parametrize("wanted", ["--trust", ["--max-num-seqs", 8], ["--max-num-seqs", "8", "--trust"], "8"])
def test_a_list_contains_an_item_or_items_in_a_row(scene: Scene, wanted: Any) -> None:  # noqa: ANN401 - any plain value
    scene.artefacts = {"run.yaml": YAML}
    found = scene.judge("value_contains", file="run.yaml", path="command", contains=wanted)
    assert found.status is Status.HOLDS
    assert found.evidence.startswith("`command` of run.yaml has ")


def test_a_list_that_lacks_the_items_or_has_them_apart_fails(scene: Scene) -> None:
    scene.artefacts = {"run.yaml": YAML}
    shown = '["python3", "--max-num-seqs", "8", "--trust"]'
    found = scene.judge("value_contains", file="run.yaml", path="command", contains=["python3", "8"])
    assert (found.status, found.evidence) == (
        Status.FAILS,
        f'`command` of run.yaml does not have ["python3", "8"] in a row; it is {shown}',
    )
    found = scene.judge("value_contains", file="run.yaml", path="command", contains="--trus")
    assert found.evidence == f'`command` of run.yaml does not have "--trus"; it is {shown}'


def test_a_text_contains_a_text_and_a_number_contains_nothing(scene: Scene) -> None:
    scene.artefacts = {"run.yaml": YAML}
    assert scene.judge("value_contains", file="run.yaml", path="env.RATE", contains="0.").holds
    found = scene.judge("value_contains", file="run.yaml", path="concurrency", contains=8)
    assert (found.status, found.evidence) == (
        Status.FAILS,
        "`concurrency` of run.yaml is 8, neither a list nor a text that could have 8",
    )


CODE = """
SIZE = 4
TWICE = SIZE * 2
if gate(80):
    WIDE = True
else:
    WIDE = False

class K:
    limit = 2 ** 5

def f(x, y=3):
    block = 64 if gate(80) else SIZE
    if x:
        block = block // 2
    return block
"""


@pytest.mark.parametrize(
    ("within", "name", "value", "status", "said"),
    [
        (None, "TWICE", 8, Status.HOLDS, "`TWICE` of a.py is 8"),
        (None, "WIDE", True, Status.FAILS, "`WIDE` of a.py is false where `not (gate(80))`, not true"),
        ("K", "limit", 32, Status.HOLDS, "`limit` of `K` in a.py is 32"),
        ("f", "block", 64, Status.FAILS, "`block` of `f` in a.py is 32 where `gate(80)` and `x`, not 64"),
        ("f", "y", 3, Status.FAILS, "`y` of `f` in a.py is unknown, because the parameter `y` is not known, not 3"),
        (None, "TWIC", 8, Status.FAILS, "a.py does not bind `TWIC`; did you mean 'TWICE'?"),
    ],
)
def test_a_name_is_folded_from_its_code(  # noqa: PLR0913, PLR0917 - one row of the table
    scene: Scene,
    within: str | None,
    name: str,
    value: int,
    status: Status,
    said: str,
) -> None:
    scene.files = {"a.py": CODE}
    found = scene.judge("value_equals", file="a.py", within=within, name=name, equals=value)
    assert (found.status, found.evidence) == (status, said)


def test_the_facts_decide_what_they_know(scene: Scene) -> None:
    scene.files = {"a.py": CODE}
    scene.facts = dataclasses.replace(scene.facts, constants={"gate(80)": True})
    assert scene.judge("value_equals", file="a.py", name="WIDE", equals=True).holds
    found = scene.judge("value_equals", file="a.py", within="f", name="block", equals=64)
    assert found.evidence == "`block` of `f` in a.py is 32 where `x`, not 64"


def test_a_scope_that_never_ends_has_no_value(scene: Scene) -> None:
    scene.files = {"a.py": "def f():\n    x = 1\n    raise ValueError\n"}
    found = scene.judge("value_equals", file="a.py", within="f", name="x", equals=1)
    assert (found.status, found.evidence) == (Status.FAILS, "no path through `f` in a.py gets to its end")


@pytest.mark.parametrize("fields", [{}, {"path": "a", "name": "b"}, {"path": "a", "within": "f"}])
def test_a_value_is_named_in_exactly_one_way(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="path"):
        ValueEquals(check="value_equals", file="a.py", equals=1, **fields)


_KEY = st.text("abcXYZ_-09", min_size=1, max_size=5)


@given(st.lists(st.one_of(_KEY, st.integers(-9, 9)), min_size=1, max_size=5))
def test_a_path_is_read_back_into_its_parts(parts: list[str | int]) -> None:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    assert steps(text) == parts


@given(st.text("a.[]0-", min_size=1, max_size=8))
def test_every_text_is_a_path_or_refused(text: str) -> None:
    try:
        found = steps(text)
    except Rejected as error:
        assert error.diagnostics[0].code == "E530"  # noqa: PT017 - either outcome is right, each in its shape
    else:
        assert found


@given(st.one_of(st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False)))
def test_a_value_equals_itself_and_no_truth_value_equals_a_number(value: Any) -> None:  # noqa: ANN401 - any plain value
    assert same(value, value)
    assert not same(value, bool(value)) or isinstance(value, bool)
