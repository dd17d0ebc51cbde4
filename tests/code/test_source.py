"""A file's positions: `ast` counts bytes, everything else counts characters; splices touch nothing else."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.indent import string_lines, with_unit
from orchestrator.code.source import Source, Span, Splice
from orchestrator.core.diagnostics import Place, Rejected

if TYPE_CHECKING:
    from pathlib import Path

TEXT = st.text(st.sampled_from("aä€😀 \t#\r\n\f"), max_size=40)
ENCODED = [("utf-8", ""), ("utf-8-sig", "\ufeff"), ("latin-1", "# coding: latin-1\n"), ("cp1252", "# coding: cp1252\n")]


@given(TEXT, st.lists(st.integers(0, 40), max_size=6), TEXT)
def test_a_splice_changes_nothing_but_its_spans(text: str, cuts: list[int], new: str) -> None:
    source = Source("a.py", text.encode())
    points = sorted({min(cut, len(text)) for cut in cuts})
    spans = [Span(a, b) for a, b in zip(points[::2], points[1::2], strict=False)]
    after = source.splice(Splice(span, new) for span in spans).text
    kept = [
        text[a:b] for a, b in zip([0, *(s.end for s in spans)], [*(s.start for s in spans), len(text)], strict=True)
    ]
    assert after == new.join(kept)


@given(TEXT)
def test_lines_are_where_python_sees_them(text: str) -> None:
    source = Source("a.py", text.encode())
    assert "".join(source.lines) == text
    ends = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [line.rstrip("\r\n") for line in source.lines] == (ends if ends[-1] else ends[:-1])


@given(TEXT, st.integers(0, 40))
def test_a_position_is_found_again_by_its_place(text: str, index: int) -> None:
    source = Source("a.py", text.encode())
    index = min(index, max(0, len(text) - 1))
    place = source.place_of(index)
    line = source.lines[place.line - 1] if source.lines else ""
    assert source.offset(place.line, len(line[: place.column - 1].encode())) == index


@pytest.mark.parametrize(("encoding", "head"), ENCODED, ids=[name for name, _ in ENCODED])
def test_a_name_behind_characters_of_several_bytes_is_cut_out_exactly(encoding: str, head: str) -> None:
    text = "s = 'äöü'; wanted = 1\n"
    raw = (head.removeprefix("\ufeff") + text).encode(encoding)
    source = Source("a.py", raw)
    name = next(n for n in ast.walk(source.tree) if isinstance(n, ast.Name) and n.id == "wanted")
    assert source.segment(name) == "wanted"
    assert source.encoded(source.text) == raw


def test_overlapping_splices_are_a_fault_of_the_program() -> None:
    with pytest.raises(ValueError, match="overlapping"):
        Source("a.py", b"abc").splice([Splice(Span(0, 2), ""), Splice(Span(1, 3), "")])


def test_a_decorated_definition_starts_at_its_decorator() -> None:
    source = Source("a.py", b"x = 1\n\n@ d(\n  2)\n# c\nclass A: pass\n")
    assert source.segment(source.tree.body[1]).startswith("@ d(")


def test_bytes_that_are_not_of_the_encoding_have_a_place() -> None:
    with pytest.raises(Rejected) as caught:
        _ = Source("a.py", b"x = 1\ny = '\xff'\n").text
    assert [(d.code, str(d.place)) for d in caught.value.diagnostics] == [("E409", "a.py:2:1")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a = '''x\n y'''\n", {2}, id="a string over lines"),
        pytest.param("a = 'x\\\n y'\n", {2}, id="a string with a continuation"),
        pytest.param("a = f'''x\n{1}\n'''\n", {2, 3}, id="an f-string over lines"),
        pytest.param("a = f('x'\n      'y')\n", set(), id="strings side by side"),
        pytest.param("a = 1 + \\\n  2\n", set(), id="a continuation outside of a string"),
        pytest.param("# '''\na = 1\n", set(), id="quotes in a comment"),
    ],
)
def test_lines_that_start_inside_a_string_are_known(text: str, expected: set[int]) -> None:
    assert string_lines(text) == expected


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        pytest.param("if a:\n    b\n", "  ", "if a:\n  b\n", id="four blanks to two"),
        pytest.param("if a:\n  if b:\n    c\n", "\t", "if a:\n\tif b:\n\t\tc\n", id="two blanks to tabs"),
        pytest.param("if a:\n    f(1,\n      2)\n", "  ", "if a:\n  f(1,\n    2)\n", id="an alignment moves along"),
        pytest.param("if a:\n    b = '''\n    x'''\n", "  ", "if a:\n  b = '''\n    x'''\n", id="a string stays"),
        pytest.param("if a:\n    # c\n    b\n", "  ", "if a:\n  # c\n  b\n", id="a comment moves along"),
        pytest.param("f(1,\n  2)\n", "\t", "f(1,\n  2)\n", id="no block"),
        pytest.param("if a: b\nelse:\n    c\n", "  ", "if a: b\nelse:\n  c\n", id="a one-line block beside another"),
    ],
)
def test_blocks_take_another_unit(text: str, unit: str, expected: str) -> None:
    assert with_unit(text, unit) == expected
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(expected))


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("x = 1\n", ""),
        ("if x: y\n", ""),
        ("if x:\n  y\n", "  "),
        ("if x: y\nclass A:\n\tdef f(): pass\n", "\t"),
        ("def f():\n    if x:\n      y\n", "    "),
    ],
)
def test_the_unit_of_a_file_is_that_of_its_first_block(text: str, unit: str) -> None:
    assert Source("a.py", text.encode()).indent_unit == unit


def test_the_place_of_an_error_comes_from_the_source_and_no_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_bytes("é = é\n".encode() * 3)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Rejected) as rejected:
        _ = Source("a.py", b"\xef\xbb\xbfdef f(:\n    pass\n").tree
    assert rejected.value.diagnostics[0].place == Place("a.py", 1, 7)
