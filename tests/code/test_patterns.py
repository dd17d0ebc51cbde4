"""Patterns: every field of every node counts, comments and formatting never do, holes take what they say."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.patterns import compile_pattern, find_matches
from orchestrator.code.rewrite import apply, examine
from orchestrator.code.sites import Pending
from orchestrator.code.source import Source
from orchestrator.code.template import compile_template
from orchestrator.core.diagnostics import Rejected
from tests.code.editing import assert_only_spliced, deleting, inserting, replacing

STDLIB = Path(sysconfig.get_path("stdlib"))


def count(pattern: str, text: str) -> int:
    return len(find_matches(compile_pattern(pattern, {}), ast.parse(text)))


MATCHES = [
    ("f()", "f()"),
    ("f( a,b )", "f(a,  # c\n  b)"),
    ("x = 1", "if a:\n    x = 1"),
    ("f(${x})", "f(*a)"),
    ("f(${x...})", "f()"),
    ("f(${x...}, k=${v})", "f(1, *b, k=2)"),
    ("[${x...}, 1]", "[0, 2, 1]"),
    ("${x} + ${x}", "f(1) + f(1)"),
    ("${_} + ${_}", "1 + 2"),
    ("u'a'", "'a'"),
    ("def ${f}(${p...}): ${b...}", "def g(a, /, b=1, *c, d, **e):\n    pass"),
    ("if ${c}:\n    ${b...}", "if x:\n    a\n    b"),
    ("a()\n${m...}\nb()", "a()\nx\ny\nb()"),
    ("import ${m}", "import a"),
    ("x.${a} = 1", "x.y = 1"),
    ("a < ${b} < c", "a < b < c"),
    ("case_ = ${v}", "match x:\n    case 1:\n        case_ = 2"),
    ("f'{a}'", "f'{a}'"),
]
NO_MATCHES = [
    ("f()", "f(1)"),
    ("f()", "f(k=1)"),
    ("return", "def g():\n    return 1"),
    ("x = 1", "x = 1.0"),
    ("x = 1", "x = True"),
    ("x = 1", "x: int = 1"),
    ("x = 0.0", "x = -0.0"),
    ("f(a=1, b=2)", "f(b=2, a=1)"),
    ("f(${x})", "f(1, 2)"),
    ("${x} + ${x}", "1 + 2"),
    ("for x in y: pass", "for x in y: pass\nelse: pass"),
    ("try: a\nexcept E: b", "try: a\nexcept E as e: b"),
    ("def f(a): pass", "def f(a, /): pass"),
    ("def f(a): pass", "def f(*, a): pass"),
    ("def f(a): pass", "async def f(a): pass"),
    ("def f(): pass", "@d\ndef f(): pass"),
    ("def f(): pass", "def f() -> int: pass"),
    ("x[1]", "x[1:]"),
    ("lambda: 1", "lambda x: 1"),
    ("'a'", "b'a'"),
    ("import a", "import a as b"),
    ("from a import b", "from .a import b"),
    ("f'{a}'", "f'{a!r}'"),
    ("f'{a}'", "f'{a:>3}'"),
    ("[x for x in y]", "[x async for x in y]"),
    ("a is b", "a is not b"),
    ("with a: pass", "with a as b: pass"),
]


@pytest.mark.parametrize(("pattern", "text"), MATCHES)
def test_a_pattern_matches(pattern: str, text: str) -> None:
    assert count(pattern, text) == 1


@pytest.mark.parametrize(("pattern", "text"), NO_MATCHES)
def test_a_pattern_does_not_match_what_differs_in_any_field(pattern: str, text: str) -> None:
    assert count(pattern, text) == 0


@pytest.mark.parametrize(
    ("pattern", "code", "words"),
    [
        ("", "E206", "the code is empty"),
        ("x =", "E206", "not valid Python"),
        ("${a...}", "E206", "the pattern matches anything"),
        ("x = ${parms.a}", "E204", "`${parms.a}` is not known"),
        ("x = ${1}", "E205", "`${1}` is neither a hole nor a value"),
        ("x = '${a}'", "E205", "a reference inside a string literal"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused(pattern: str, code: str, words: str) -> None:
    with pytest.raises(Rejected) as caught:
        compile_pattern(pattern, {"params.a": 1})
    found = caught.value.diagnostics[0]
    assert found.code == code
    assert words in found.message


@pytest.mark.parametrize(
    ("template", "code"),
    [("${b}", "E207"), ("", "E206"), ("x = (", "E206"), ("${params.b}", "E204"), ("f('${a}')", "E205")],
)
def test_a_template_that_means_nothing_is_refused(template: str, code: str) -> None:
    with pytest.raises(Rejected) as caught:
        compile_template(template, {"params.a": 1}, frozenset({"a"}))
    assert [d.code for d in caught.value.diagnostics] == [code]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_a_value_is_inserted_as_itself_never_as_text(value: object) -> None:
    edit = replacing("f(1)", "g(${params.x})", known={"params.x": value})
    source = Source("a.py", b"y = f(1)\n")
    state = examine(edit, source, None)
    assert isinstance(state, Pending)
    after = apply(edit, source, None, state).source.text
    namespace: dict[str, object] = {"g": lambda x: x}
    exec(after, namespace)  # noqa: S102 - the code is made of one plain value
    assert namespace["y"] == value


def statements() -> list[tuple[str, int, str]]:
    """Return seeded statements of the standard library: file, line, and text at the margin."""
    chance = random.Random(20)  # noqa: S311 - a choice of samples
    found = []
    files = sorted(STDLIB.glob("*.py")) + sorted((STDLIB / "asyncio").glob("*.py"))
    for path in chance.sample(files, 25):
        source = Source(path.name, path.read_bytes())
        every = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt)]
        for node in chance.sample(every, min(3, len(every))):
            text = ast.unparse(node).replace("${", "$${")
            found.append((str(path), node.lineno, text))
    return found


@pytest.mark.parametrize(("path", "line", "text"), statements(), ids=lambda value: Path(str(value)).name[:24])
def test_a_statement_of_the_standard_library_is_found_and_edited_or_refused(path: str, line: int, text: str) -> None:
    source = Source("a.py", Path(path).read_bytes())
    pattern = compile_pattern(text, {})
    matches = find_matches(pattern, source.tree)
    assert any(match.first.lineno == line or match.statement for match in matches)  # type: ignore[attr-defined]
    number = len(matches)
    for edit in (
        replacing(text, "_marker_(1)", number),
        replacing(text, "if _marker_:\n    a = '''x\n  y'''", number),
        deleting(text, number),
        inserting("before", text, "_marker_(2)"),
        inserting("after", text, "_marker_(2)"),
    ):
        try:
            state = examine(edit, source, None)
            assert isinstance(state, Pending)
            result = apply(edit, source, None, state)
        except Rejected as error:
            assert all(d.code.startswith("E4") and d.help for d in error.diagnostics)  # noqa: PT017 - both are right
        else:
            assert_only_spliced(source, result.source, state)
