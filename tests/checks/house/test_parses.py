from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.house import judge_house_rules
from orchestrator.checks.view import Facts, View
from orchestrator.core.diagnostics import Severity
from orchestrator.core.tree import Tree

if TYPE_CHECKING:
    from tests.checks.house.conftest import Judged


def test_all_files_that_do_not_parse_are_reported_with_their_places(judged: Judged) -> None:
    found = judged({"pkg/a.py": "x = 'open\n", "pkg/b.py": "x = 1\n", "pkg/c.py": "y = 1\ndef f(:\n"})
    assert [(d.code, str(d.place)) for d in found] == [("E501", "pkg/a.py:1:5"), ("E501", "pkg/c.py:2:7")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("'''doc'''\nimport os\nfrom __future__ import annotations\n", 3),
        ("x = 1\nreturn x\n", 2),
        ("for x in ():\n    pass\nbreak\n", 3),
        ("def f(a, a): pass\n", 1),
        ("x = 1\n\x00", 0),
    ],
)
def test_what_only_the_compiler_refuses_is_refused(judged: Judged, text: str, line: int) -> None:
    (found,) = judged({"pkg/a.py": text})
    assert found.code == "E501"
    assert found.place is not None
    assert found.place.line == line


def test_a_file_in_an_unknown_encoding_is_refused() -> None:
    tree = Tree({"pkg/a.py": b"# coding: no-such-thing\n", "pkg/b.py": b"x = '\xff'\n"})
    found = judge_house_rules(View(tree, Tree()), frozenset(tree))
    assert [d.code for d in found if d.code != "E513"] == ["E501", "E501"]


NEWER = [
    ((3, 10), "try:\n    pass\nexcept* ValueError:\n    pass\n"),
    ((3, 10), "x = [1]\ny = {}\nz = y[*x]\n"),
    ((3, 10), "x = [1]\ny = {}\nz = y[0, *x]\n"),
    ((3, 10), "x = []\ndef f(*args: *x): pass\n"),
    ((3, 9), "x = 1\nmatch x:\n    case 1:\n        pass\n"),
    ((3, 7), "if (x := 1):\n    pass\n"),
    ((3, 7), "def f(a, /): pass\n"),
]


@pytest.mark.parametrize(("python", "text"), NEWER)
def test_syntax_newer_than_the_target_is_refused(judged: Judged, python: tuple[int, int], text: str) -> None:
    (found,) = judged({"pkg/a.py": text}, facts=Facts(python=python))
    assert found.code == "E501"
    assert f"{python[0]}.{python[1]}" in found.message


@pytest.mark.parametrize(("python", "text"), NEWER)
def test_the_same_syntax_is_fine_one_version_later(judged: Judged, python: tuple[int, int], text: str) -> None:
    assert judged({"pkg/a.py": text}, facts=Facts(python=(python[0], python[1] + 1))) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = [1]\ny = [0, *x]\n",
        "x = [1]\ny = {}\nz = y[(0, *x)]\n",
        "def f(*args: int) -> None: pass\n",
        "try:\n    pass\nexcept (ValueError, TypeError):\n    pass\n",
        "s = 'except* E: x[*y]'\n",
        "s = '\\d'\n",
        "x = 1\ns = f'{x} {x!r:>{x}}'\n",
    ],
)
def test_old_syntax_that_looks_like_newer_is_fine(judged: Judged, text: str) -> None:
    assert judged({"pkg/a.py": text}) == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python cannot read such f-strings at all")
@pytest.mark.parametrize("inner", ["x['a']", "'\\n'.join(x)", "x  # why\n"])
def test_an_f_string_of_python_3_12_is_refused_for_an_older_target(judged: Judged, inner: str) -> None:
    text = f"x = {{}}\ns = f'{{{inner}}}'\n"
    (found,) = judged({"pkg/a.py": text}, facts=Facts(python=(3, 11)))
    assert "f-string" in found.message
    assert judged({"pkg/a.py": text}, facts=Facts(python=(3, 12))) == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python cannot read it at all")
@pytest.mark.parametrize("text", ["type X = int\n", "def f[T](x: T): pass\n", "class K[T]: pass\n"])
def test_type_parameters_are_refused_before_3_12(judged: Judged, text: str) -> None:
    assert [d.code for d in judged({"pkg/a.py": text}, facts=Facts(python=(3, 11)))] == ["E501"]


def test_a_target_newer_than_this_python_gets_a_warning_only(judged: Judged) -> None:
    newer = (3, sys.version_info[1] + 1)
    (found,) = judged({"pkg/a.py": "syntax of tomorrow\n"}, facts=Facts(python=newer))
    assert found.severity is Severity.WARNING


def test_code_nested_beyond_what_python_can_read_is_a_finding(judged: Judged) -> None:
    (found,) = judged({"pkg/a.py": "x = " + "(" * 500 + ")" * 500 + "\n"})
    assert found.code == "E501"


def test_files_that_are_not_python_or_not_touched_are_not_read(judged: Judged) -> None:
    files = {"pkg/a.json": "{", "pkg/b.py": "def (", "pkg/c.py": "x = 1\n"}
    assert judged(files, "pkg/a.json", "pkg/c.py", "pkg/gone.py") == []
