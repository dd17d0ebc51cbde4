"""What inserted code reads must be bound before it, on every path."""

from __future__ import annotations

import pytest

from tests.code.editing import inserting, refusal, replacing, unbound

PATHS = "`x` may be unbound here: not every path to this line assigns it"
NOTHING = "nothing binds `x`, which the inserted code reads"
FURTHER_DOWN = "`x` may be unbound here: it is bound only further down"

UNBOUND_IN_FUNCTION = {
    "bound further down": "HERE\nx = 1",
    "if without else": "if a: x = 1\nHERE",
    "one branch only": "if a: x = 1\nelse: y = 1\nHERE",
    "elif without else": "if a: x = 1\nelif b: x = 2\nHERE",
    "a for that may run zero times": "for i in a: x = 1\nHERE",
    "a for's target after it": "for x in a: pass\nHERE",
    "a while that may run zero times": "while a: x = 1\nHERE",
    "an else of a loop that may be left": "for i in a:\n    if i: break\nelse:\n    x = 1\nHERE",
    "a try that may fail": "try: x = f()\nexcept E: pass\nHERE",
    "a handler that is not entered": "try: f()\nexcept E: x = 1\nHERE",
    "the name of an exception after its handler": "try: f()\nexcept E as x: pass\nHERE",
    "a finally after a try that failed": "try: x = f()\nfinally:\n    HERE",
    "deleted": "x = 1\ndel x\nHERE",
    "deleted on one path": "x = 1\nif a: del x\nHERE",
    "a match without a last case": "match a:\n    case 1: x = 1\nHERE",
    "another case's capture": "match a:\n    case [x]: pass\n    case _:\n        HERE",
    "a walrus that is not always evaluated": "a and (x := f())\nHERE",
    "a walrus of the other branch": "if a and (x := f()): pass\nelse:\n    HERE",
    "bound in a nested function only, and later here": "def g(): x = 1\nHERE\nx = 2",
    "imported further down": "HERE\nimport x",
    "a function defined further down": "HERE\ndef x(): pass",
    "before the loop binds it": "while a:\n    HERE\n    x = 1",
    "a break before it in a loop without end": "while True:\n    if a: break\n    x = 1\n    break\nHERE",
}

BOUND_IN_FUNCTION = {
    "both branches": "if a: x = 1\nelse: x = 2\nHERE",
    "the other branch returns": "if a: x = 1\nelse: return\nHERE",
    "the other branch raises": "if a: x = 1\nelse: raise E\nHERE",
    "the other branch goes on with the loop": "for i in a:\n    if i: x = 1\n    else: continue\n    HERE",
    "a for's target inside it": "for x in a:\n    HERE",
    "a with's target": "with a as x:\n    HERE",
    "after a with": "with a: x = 1\nHERE",
    "every handler binds or leaves": "try: x = f()\nexcept E: x = 1\nexcept F: return\nHERE",
    "the else of a try": "try: x = f()\nexcept E: pass\nelse:\n    HERE",
    "a finally that binds": "try: f()\nfinally: x = 1\nHERE",
    "an exception's name in its handler": "try: f()\nexcept E as x:\n    HERE",
    "a match with a last case": "match a:\n    case 1: x = 1\n    case _: x = 2\nHERE",
    "a capture of the case": "match a:\n    case [x, *_]:\n        HERE",
    "a walrus in a condition": "if (x := f()) and a: pass\nHERE",
    "a walrus where the condition is true": "if a and (x := f()):\n    HERE",
    "a walrus where the condition is false": "if not (a and (x := f())): return\nHERE",
    "a walrus in a comparison": "while (x := f()) > 1: pass\nHERE",
    "a loop without end that is left behind it": "while True:\n    x = 1\n    if a: break\nHERE",
    "an import of a module": "import x.y\nHERE",
    "unpacked": "(a, [x, *b]) = f()\nHERE",
    "declared global": "global x\nHERE",
    "code that is never reached": "return 1\nHERE\nx = 1",
}


def in_function(lines: str) -> str:
    body = lines.replace("HERE", "anchor()").replace("\n", "\n    ")
    setter = "\n\ndef setter():\n    global x\n    x = 1\n" if "global" in lines else ""
    return f"import E, F, a, b, f, other\n\n\ndef function():\n    {body}\n{setter}"


@pytest.mark.parametrize("lines", UNBOUND_IN_FUNCTION.values(), ids=UNBOUND_IN_FUNCTION)
def test_a_local_that_some_path_leaves_unbound_is_refused(lines: str) -> None:
    found = refusal(replacing("anchor()", "other(x)"), in_function(lines), "function")
    assert (found.code, found.message) == ("E407", PATHS)
    assert found.help == "Read something that is bound earlier, or move the code down."


@pytest.mark.parametrize("lines", BOUND_IN_FUNCTION.values(), ids=BOUND_IN_FUNCTION)
def test_a_local_that_every_path_binds_is_accepted(lines: str) -> None:
    assert unbound(replacing("anchor()", "other(x)"), in_function(lines), "function") == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("a = x", [NOTHING], id="a name that nothing binds"),
        pytest.param("a = [x for x in b]", [], id="a comprehension's own name"),
        pytest.param("a = [b for b in x]", [NOTHING], id="what a comprehension goes through"),
        pytest.param("a = lambda x: x", [], id="a lambda's parameter"),
        pytest.param("a = lambda b=x: b", [NOTHING], id="a lambda's default"),
        pytest.param("x += 1", [PATHS], id="a name that is only added to"),
        pytest.param("x = x + 1", [PATHS], id="its own value"),
        pytest.param("x: int", [], id="an annotation alone"),
        pytest.param("if (x := b): print(x)", [], id="a walrus before it"),
        pytest.param("with b as x, x as c: print(c)", [], id="an earlier item of a with"),
        pytest.param("for x in b: print(x)", [], id="a loop's target"),
        pytest.param("match b:\n    case [x] if x: print(x)", [], id="a match's capture"),
        pytest.param("def x(): return x", [], id="a function in itself"),
        pytest.param("def c(x): return x", [], id="a parameter"),
        pytest.param("def c(d=x): return d", [NOTHING], id="a default"),
        pytest.param("def c():\n    return b, x", [NOTHING], id="a nested function's global"),
        pytest.param("@x\ndef c(): pass", [NOTHING], id="a decorator"),
        pytest.param("print(__file__, len(b))", [], id="a builtin"),
        pytest.param("import x\nprint(x)", [], id="an import in the code"),
        pytest.param("c = lambda: d\nd = 1", [], id="what a lambda reads later"),
    ],
)
def test_what_inserted_code_binds_for_itself_counts(code: str, expected: list[str]) -> None:
    text = "import b\n\n\ndef f(p):\n    anchor()\n"
    assert unbound(inserting("before", "anchor()", code), text, "f") == expected


@pytest.mark.parametrize(
    ("text", "within", "expected"),
    [
        pytest.param("anchor()\nx = 1\n", None, [FURTHER_DOWN], id="a module's name above its binding"),
        pytest.param("x = 1\nanchor()\n", None, [], id="a module's name below its binding"),
        pytest.param(
            "if a: import x\nanchor()\n", None, [], id="a module's name under a condition, a house rule's business"
        ),
        pytest.param("def f():\n    anchor()\nx = 1\n", "f", [], id="a module's name in a function above it"),
        pytest.param(
            "class A:\n    x = 1\n    def f(self):\n        anchor()\n",
            "A.f",
            [NOTHING],
            id="a class's name in its method",
        ),
        pytest.param("class A:\n    x = 1\n    anchor()\n", "A", [], id="a class's name in its body"),
        pytest.param("class A:\n    anchor()\n    x = 1\n", "A", [FURTHER_DOWN], id="a class's name above its binding"),
        pytest.param(
            "x = 0\nclass A:\n    anchor()\n    x = 1\n", "A", [], id="a module's name that the class binds later"
        ),
        pytest.param("def f(x):\n    def g():\n        anchor()\n", "f.g", [], id="an enclosing function's parameter"),
        pytest.param(
            "def f():\n    def g():\n        anchor()\n    x = 1\n    g()\n",
            "f.g",
            [],
            id="an enclosing function's local",
        ),
        pytest.param(
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        anchor()\n", "f.g", [], id="nonlocal"
        ),
        pytest.param("def f():\n    global x\n    anchor()\n", "f", [], id="global that is set nowhere else"),
        pytest.param("from a import *\nanchor()\n", None, [], id="a star import may bind anything"),
        pytest.param(
            "def f():\n    x = [x for x in a]\n    anchor()\n", "f", [], id="a local beside a comprehension's name"
        ),
        pytest.param(
            "def f():\n    y = [x for x in a]\n    anchor()\n", "f", [NOTHING], id="a comprehension's name after it"
        ),
    ],
)
def test_names_are_looked_up_the_way_python_does(text: str, within: str | None, expected: list[str]) -> None:
    assert unbound(replacing("anchor()", "print(x)"), text, within) == expected


def test_what_the_place_read_unbound_before_is_not_the_edits_doing() -> None:
    text = "def f(a):\n    if a: x = 1\n    if a: g(x)\n\ndef g(b): pass\n"
    assert unbound(replacing("g(x)", "g(x + 1)"), text, "f") == []


def test_a_name_that_is_nearly_one_in_sight_is_suggested() -> None:
    found = refusal(replacing("anchor()", "print(valeu)"), "def f(value):\n    anchor()\n", "f")
    assert found.message == "nothing binds `valeu`, which the inserted code reads"
    assert found.help == "did you mean 'value'?"


def test_the_place_is_that_of_the_read() -> None:
    found = refusal(replacing("anchor()", "print(1,\n      x)"), "def f(value):\n    anchor()\n", "f")
    assert str(found.place) == "a.py:3:11"
