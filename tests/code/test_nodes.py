"""The quick ways through a syntax tree say what the slow ones say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.nodes import parts_of
from orchestrator.code.source import Source
from orchestrator.code.spotting import has_word, lines_with, may_call

OWN = sorted(Path(__file__).parents[2].joinpath("orchestrator").rglob("*.py"))
ODD = """
match x:
    case {'a': b, **rest}: pass
    case C(k=[1, *more] | None): del y[f(*a, **b)[1:, ::2]]
"""
_NO_PARTS = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)


@pytest.mark.parametrize("text", [*(path.read_text(encoding="utf-8") for path in OWN[::7]), ODD])
def test_parts_are_the_children_but_for_contexts_and_operators(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        assert list(parts_of(node)) == [c for c in ast.iter_child_nodes(node) if not isinstance(c, _NO_PARTS)]


@pytest.mark.parametrize(
    "code",
    [
        "f(1)",
        "m.f (1)",
        "(f)(1)",
        "((m.f) )(1)",
        "(f # why\n (1))",
        "f\\\n(1)",
        "(m.\nf\n\t(1))",
        "x = f'{f(1)}'",
        "ä.f",
    ],
)
def test_a_call_in_any_spelling_is_not_overlooked(code: str) -> None:
    assert may_call(code.encode(), {"f", "other"})


@pytest.mark.parametrize("code", ["f = 1", "g(f)", "x[f]", "f # (1)\n", "from a import f, g\nh(1)"])
def test_a_name_without_a_call_is_told_by_the_bytes(code: str) -> None:
    assert not may_call(code.encode(), {"f"})
    assert not may_call(code.encode(), ())


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_with_a_name_are_the_same_in_one_search_as_line_by_line(end: str) -> None:
    lines = ["def f(a):", "  return a", "", "f(f(1))", "x = 'f'", "\fy = 2", "f"]
    source = Source("a.py", end.join(lines).encode())
    slow = [number for number, line in enumerate(source.lines, 1) if "f" in line.replace("\f", "")]
    assert lines_with(source, ["f"]) == slow
    assert lines_with(source, []) == []


@given(st.text("ab._ (é\n", max_size=30), st.text("ab_", min_size=1, max_size=3))
def test_a_file_has_a_word_where_it_stands_between_other_characters(text: str, name: str) -> None:
    slow = re.search(rb"(?<!\w)%b(?!\w)" % name.encode(), text.encode()) is not None
    assert has_word(text.encode(), name) == slow


@given(st.lists(st.text("ab_", min_size=1, max_size=3), max_size=40), st.text("ab._ \n", max_size=60))
def test_lines_with_names_are_those_that_have_one_however_many_are_asked(names: list[str], text: str) -> None:
    source = Source("m.py", text.encode())
    wanted = [number for number, line in enumerate(source.lines, 1) if any(name in line for name in names)]
    assert lines_with(source, names) == wanted
