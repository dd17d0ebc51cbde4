"""Transforms: the user's function over the module, refused wherever it would damage the file."""

from __future__ import annotations

import pytest

from orchestrator.code.edits import Transform
from orchestrator.code.source import Source
from orchestrator.code.transforms import load_transform, run_transform, says_applied
from orchestrator.core.diagnostics import Rejected

HEAD = "import libcst as cst\nfrom pydantic import BaseModel\nclass Params(BaseModel):\n    name: str = 'x'\n"
RENAME = f"""{HEAD}
class Rename(cst.CSTTransformer):
    def __init__(self, name): self.name = name
    def leave_Name(self, old, new): return new.with_changes(value='y') if new.value == self.name else new
def transform(module, params): return module.visit(Rename(params.name))
"""


def transform_of(code: str) -> Transform:
    loaded = load_transform("t", "stages/t.py", code.encode())
    return Transform("t", loaded.function, loaded.params())


def ran(code: str, raw: bytes) -> bytes | None:
    rewritten = run_transform(transform_of(code), Source("a.py", raw), "stages/t.py")
    return rewritten.source.raw if rewritten else None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"x = 1\r\nz = x", b"y = 1\r\nz = y", id="CRLF and no last line end"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", b"\xef\xbb\xbfy = 1\n", id="byte order mark"),
        pytest.param(b"# coding: latin-1\nx = '\xe4'\n", b"# coding: latin-1\ny = '\xe4'\n", id="latin-1"),
        pytest.param(b"\tz\nx\n".lstrip(b"\t"), b"z\ny\n", id="a statement"),
    ],
)
def test_a_transform_changes_the_code_and_no_other_byte(before: bytes, after: bytes) -> None:
    assert ran(RENAME, before) == after
    assert ran(RENAME, after) is None


def test_its_sites_are_the_lines_before_and_its_new_lines_those_after() -> None:
    body = "return module.with_changes(body=[s for s in module.body if 'x' not in module.code_for_node(s)])"
    code = f"{HEAD}def transform(module, params): {body}"
    rewritten = run_transform(transform_of(code), Source("a.py", b"a\nx = 1\nb\n"), "stages/t.py")
    assert rewritten is not None
    assert [(str(site.place), site.code) for site in rewritten.sites] == [("a.py:2:1", "x = 1")]
    assert (rewritten.old_lines, rewritten.new_lines) == ((range(2, 3),), ())


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param(b"a\n\fdef x(): pass\n", "E414: libcst would not write a.py back", id="a form feed"),
        pytest.param(b"(x): int = 1\n", "E414: libcst cannot read a.py", id="what libcst cannot parse"),
    ],
)
def test_a_file_that_does_not_survive_libcst_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        ran(RENAME, raw)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("return module.code", "E415: transform `t` returned str", id="text"),
        pytest.param("return None", "E415: transform `t` returned NoneType", id="nothing"),
        pytest.param("raise KeyError('k')", "E415: the transform raised KeyError: 'k'", id="a fault"),
        pytest.param(
            "return module.with_changes(body=[*module.body, module.body[0]])",
            "E406: the transform changes its own result",
            id="no end",
        ),
        pytest.param(
            "return module.with_changes(body=[cst.Expr(cst.Integer('1')), cst.Expr(cst.Name('x'))])",
            "E411: the transform's result does not parse",
            id="code that does not parse",
        ),
    ],
)
def test_a_transform_that_goes_wrong_is_a_diagnostic(body: str, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        ran(f"{HEAD}def transform(module, params): {body}", b"x = 1\n")


def test_a_fault_has_the_line_of_the_transform() -> None:
    with pytest.raises(Rejected) as caught:
        ran(f"{HEAD}def transform(module, params):\n    raise KeyError('k')\n", b"x = 1\n")
    assert str(caught.value.diagnostics[0].place) == "stages/t.py:6:1"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def transform(module, params): pass", "E220"),
        (HEAD, "E220"),
        ("Params = int\ndef transform(m, p): pass", "E220"),
        ("x = 'a\nb'", "E408"),
        ("import no_such_module_at_all", "E415"),
    ],
)
def test_a_file_that_is_no_transform_is_refused(code: str, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        load_transform("t", "stages/t.py", code.encode())


def test_a_transform_may_say_itself_that_a_module_has_it_already() -> None:
    text = b"""
from pydantic import BaseModel
class Params(BaseModel): pass
def transform(module, params): return module
def applied(module, params): return "done" in module.code
"""
    loaded = load_transform("mark", "stages/mark.py", text)
    edit = Transform(loaded.name, loaded.function, loaded.params(), loaded.applied)
    assert says_applied(edit, Source("a.py", b"done = 1\n"), loaded.path)
    assert not says_applied(edit, Source("a.py", b"other = 1\n"), loaded.path)


def test_a_transform_without_a_word_on_it_is_never_taken_for_applied() -> None:
    assert not says_applied(
        Transform("mark", lambda module, _: module, None), Source("a.py", b"x = 1\n"), "stages/mark.py"
    )


def test_an_applied_that_raises_is_a_diagnostic() -> None:
    def fall(_module: object, _params: object) -> bool:
        raise LookupError("lost")

    with pytest.raises(Rejected) as caught:
        says_applied(
            Transform("mark", lambda module, _: module, None, fall), Source("a.py", b"x = 1\n"), "stages/mark.py"
        )
    assert caught.value.diagnostics[0].code == "E415"
