"""Folding: what a name may be worth is never too few values, and nothing is ever run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.constants import Unknown, fold, normal
from orchestrator.code.fold import module_values, observed, outside_names, possible_values
from orchestrator.code.scopes import find
from orchestrator.code.states import MAX_PATHS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.code.scopes import ScopeNode


def function(body: str, parameters: str = "q, k, flag") -> ScopeNode:
    indented = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return find(ast.parse(f"def f({parameters}):\n{indented}\n"), "f")[0]


def values(body: str, name: str = "X", given: Mapping[str, Any] | None = None, **constants: Any) -> set[Any]:  # noqa: ANN401 - plain values
    return {p.value for p in possible_values(function(body), name, given or {}, constants)}


def expression(text: str, **names: Any) -> Any:  # noqa: ANN401 - plain values
    return fold(ast.parse(text, mode="eval").body, names, {})


# --------------------------------------------------------------------------------------------- expressions
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64 // 2", 32),
        ("-(3 ** 2) + 7 % 4", -6),
        ("1 << 5 | 1", 33),
        ("'a' + 'b'", "ab"),
        ("2 / 4", 0.5),
        ("1 < 2 < 3", True),
        ("1 < 2 > 3", False),
        ("'x' in ('x', 'y')", True),
        ("None is None", True),
        ("1 is not None", True),
        ("not []", True),
        ("0 or 5", 5),
        ("0 and 5", 0),
        ("64 if 1 > 2 else 32", 32),
        ("min(64, 32)", 32),
        ("max((1, 4, 2))", 4),
        ("(1, 2, 3)[-1]", 3),
        ("triton.next_power_of_2(80)", 128),
        ("triton.cdiv(9, 4)", 3),
        ("~1", -2),
        ("len('abc')", 3),
    ],
)
def test_an_expression_of_plain_values_folds_to_what_python_makes_of_it(text: str, value: object) -> None:
    assert expression(text) == value
    assert type(expression(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("f(1)", "`f(1)` is not known"),
        ("a.b + 1", "`a.b` is not known"),
        ("1 // 0", "what `1`, `0` make has no value"),
        ("'a' + 1", "what `'a'`, `1` make has no value"),
        ("(1, 2)[5]", "have no value"),
        ("10 ** 100000", "the power is out of bounds"),
        ("1 << 10 ** 9", "the shift is out of bounds"),
        ("'a' * 10 ** 9", "the repetition is out of bounds"),
        ("'%999999999d' % 1", "text formatting is not folded"),
        ("[1] * 10 ** 9", "the repetition is out of bounds"),
        ("1.0 @ 2", "the operation is not folded"),
        ("(-1) ** 0.5", "complex numbers are not folded"),
        ("1000 is 1000", "`1000 is 1000` is not known"),
        ("__import__('os').getcwd()", "is not known"),
        ("int('9' * 9000)", "`int('9' * 9000)` is not known|has no value"),
    ],
)
def test_what_cannot_be_folded_is_unknown_with_the_reason(text: str, reason: str) -> None:
    found = expression(text)
    assert isinstance(found, Unknown)
    assert any(part in found.reason for part in reason.replace("have no", "has no").split("|"))


def test_a_local_name_that_hides_a_builtin_is_not_called() -> None:
    assert isinstance(expression("min(1, 2)", min=Unknown("a parameter")), Unknown)


def test_deep_nesting_is_unknown_and_no_crash() -> None:
    node: ast.expr = ast.Constant(1)
    for _ in range(20_000):
        node = ast.UnaryOp(ast.USub(), node)
    assert isinstance(fold(node, {}, {}), Unknown)


_OPERATORS = ["+", "-", "*", "//", "%", "<", "<=", "==", "!=", "&", "|", "^", "and", "or"]
_NUMBERS = st.one_of(st.integers(-50, 50), st.booleans())
_TERMS = st.recursive(
    _NUMBERS.map(repr),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(_OPERATORS), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        inner.map(lambda t: f"(not {t})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
    ),
    max_leaves=12,
)


@given(_TERMS)
def test_folding_agrees_with_python_wherever_python_has_a_value(text: str) -> None:
    try:
        wanted = eval(text)  # noqa: S307 - the test's own expressions are the measure
    except ZeroDivisionError:
        return  # a part that Python does not reach may divide by zero too, so there is nothing to compare with
    found = expression(text)
    assert isinstance(found, Unknown) or (found == wanted and type(found) is type(wanted))


# ---------------------------------------------------------------------------------------------- statements
BLOCK = """
X = 128 if gate(80) else 64
if q.dtype is torch.float32:
    X = X // 2
"""


def test_a_known_condition_chooses_and_an_unknown_one_explores_both() -> None:
    assert values(BLOCK) == {128, 64, 32}
    assert values(BLOCK, given={"gate(80)": True}) == {128, 64}
    assert values(BLOCK, given={"gate(80)": True, "q.dtype  is torch.float32": False}) == {128}
    assert values(BLOCK, given={"gate(80)": False, "q.dtype is torch.float32": True}) == {32}


def test_the_conditions_tell_the_values_apart() -> None:
    found = possible_values(function(BLOCK), "X", {"gate(80)": True}, {})
    assert {(p.value, p.conditions) for p in found} == {
        (64, ("q.dtype is torch.float32",)),
        (128, ("not (q.dtype is torch.float32)",)),
    }


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("X = 1\nX = 2", {2}),
        ("X = 1\nX += 3", {4}),
        ("X: int = 5", {5}),
        ("X = Y = 7", {7}),
        ("X, Y = 1, 2", {1}),
        ("Y, (X, Z) = 1, (2, 3)", {2}),
        ("X, Y = (1, 2) if flag else (3, 4)", {1, 3}),
        ("P = (1, 2)\nY, X = P", {2}),
        ("Y = 4\nX = 5\nX, Y = Y, X", {4}),
        ("if (X := 3) > 2:\n    pass", {3}),
        ("if flag:\n    X = 1\nelse:\n    X = 2", {1, 2}),
        ("if not flag:\n    X = 1\nelif flag:\n    X = 2\nelse:\n    X = 3", {1, 2}),
        ("if flag is None:\n    X = 1\nif flag is not None:\n    X = 2", {1, 2}),
        ("X = 1\nif flag and False:\n    X = 2", {1}),
        ("X = 1\nif flag or True:\n    X = 2", {2}),
        ("X = 1\nwith lock():\n    X = 2", {2}),
        ("X = 1\nif flag:\n    raise ValueError\nX = 2", {2}),
        ("X = 1\nif flag:\n    return\nX = 2", {1, 2}),
        ("X = 1\nfor _ in q:\n    X = 2", {1, 2}),
        ("X = 1\nwhile flag:\n    X = 2\n    break\nelse:\n    X = 3", {2, 3}),
        ("X = 1\nwhile True:\n    X = 2\n    if flag:\n        break", {2}),
        ("X = 1\nwhile False:\n    X = 2", {1}),
        ("X = 1\nfor _ in q:\n    if flag:\n        continue\n    X = 2", {1, 2}),
        ("try:\n    X = 64\n    risky()\nexcept Exception:\n    X = 32", {64, 32}),
        ("X = 1\ntry:\n    X = 64\nexcept OSError:\n    pass", {1, 64}),
        ("try:\n    pass\nfinally:\n    X = 3", {3}),
        ("try:\n    X = 1\n    return\nfinally:\n    X = 2", {2}),
        ("X = 1\nwhile True:\n    try:\n        break\n    finally:\n        X = 2", {2}),
        ("X = 1\nmatch flag:\n    case 2:\n        X = 2\n    case _:\n        X = 3", {1, 2, 3}),
        ("N = 32\nX = N * 2", {64}),
        ("N = 64 if flag else 32\nX = N * 2", {128, 64}),
        ("def g():\n    X = 9\nX = 1", {1}),
        ("X = 1\nX = X + (4 if flag else 2)", {5, 3}),
    ],
)
def test_statements_are_executed_in_order(body: str, wanted: set[int]) -> None:
    found = values(body)
    known = {value for value in found if not isinstance(value, Unknown)}
    assert known == wanted
    assert known == found


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("X = pick(q)", "`pick(q)` is not known"),
        ("X = q", "the parameter `q` is not known"),
        ("X = Y\nY = 1", "`Y` is not bound before it is used"),
        ("for X in (1, 2):\n    pass", "bound by `a loop`"),
        ("X = 1\nfor _ in q:\n    X = X * 2", "bound by `a loop`"),
        ("X = 1\ndel X", "bound by `delete`"),
        ("import X", "bound by `import`"),
        ("with q as X:\n    pass", "bound by `with`"),
        ("X, Y = q", "`q` is not known"),
        ("X = 1\ndef g():\n    nonlocal X\n    X = 2\ng()", "also assigned by a nested function"),
        ("if flag and (X := 3):\n    pass", "assigned inside an expression"),
    ],
)
def test_what_may_be_anything_is_unknown_with_the_reason(body: str, reason: str) -> None:
    reasons = [value.reason for value in values(body) if isinstance(value, Unknown)]
    assert any(reason in found for found in reasons), reasons


def test_a_given_fact_is_forgotten_once_the_name_in_it_is_bound_again() -> None:
    body = "k = other(k)\nX = 64 if k.shape[-1] <= 128 else 32"
    assert values(body, given={"k.shape[-1]": 256}) == {64, 32}
    assert values(body.split("\n")[1], given={"k.shape[-1]": 256}) == {32}


def test_a_given_fact_about_an_attribute_is_forgotten_once_it_is_assigned() -> None:
    assert values("q.size = 3\nX = 1 if q.size == 2 else 0", given={"q.size": 2}) == {1, 0}
    assert values("X = 1 if q.size == 2 else 0", given={"q.size": 2}) == {1}


def test_a_given_parameter_is_its_value_until_it_is_assigned() -> None:
    assert values("X = q * 2", given={"q": 8}) == {16}
    assert values("q = 1\nX = q * 2", given={"q": 8}) == {2}


def test_a_constant_of_the_world_is_hidden_by_a_local_of_the_same_name() -> None:
    assert values("X = SIZE", SIZE=4) == {4}
    assert all(isinstance(v, Unknown) for v in values("X = SIZE\nSIZE = 1", SIZE=4))


def test_a_condition_assumed_once_holds_for_the_rest_of_the_path() -> None:
    body = "X = 1\nif flag:\n    X = 2\nif flag:\n    X = X + 10"
    assert values(body) == {1, 12}
    assert values(
        body.replace("X = X + 10", "X = X + 10", 1).replace("if flag:\n    X = X", "flag = q\nif flag:\n    X = X")
    ) == {
        1,
        2,
        11,
        12,
    }


def test_twenty_conditions_that_do_not_matter_cost_nothing() -> None:
    noise = "\n".join(f"if q.a{i}:\n    y{i} = {i}" for i in range(200))
    assert values(f"X = 1\n{noise}\nX = X + 1") == {2}


def test_more_paths_than_the_cap_become_one_unknown_value() -> None:
    body = "X = 0\n" + "\n".join(f"if q.a{i}:\n    X = X + {2**i}" for i in range(MAX_PATHS.bit_length() + 2))
    found = values(body)
    assert any(isinstance(v, Unknown) and f"more than {MAX_PATHS} paths" in v.reason for v in found)
    assert len(found) <= MAX_PATHS + 1


def test_values_are_seen_where_they_are_asked_for() -> None:
    scope = function("X = 64\nlaunch(X)\nX = 128\nif flag:\n    launch(X)")
    calls = [s for s in ast.walk(scope) if isinstance(s, ast.Expr)]
    found = observed(scope, {s: [ast.Name("X", ast.Load())] for s in calls}, {}, {})
    assert [(s.statement is calls[i], s.values) for i, s in enumerate(found)] == [(True, (64,)), (True, (128,))]


def test_what_is_asked_together_is_answered_together() -> None:
    scope = function("X = 64\nS = 1\nif flag:\n    X = 32\n    S = 3")
    asked: list[ast.expr] = [ast.Name("X", ast.Load()), ast.Name("S", ast.Load())]
    assert {s.values for s in observed(scope, {None: asked}, {}, {})} == {(64, 1), (32, 3)}


def test_a_module_level_name_counts_only_where_it_has_one_value() -> None:
    tree = ast.parse(
        "A = 8\nB = A * 2\nif probe():\n    C = 1\nelse:\n    C = 2\nD = 1\ndef g():\n    global D\n    D = 2\n"
    )
    assert module_values(tree, {"A", "B", "C", "D", "E"}, {}) == {"A": 8, "B": 16}


def test_the_names_that_a_function_takes_from_outside_are_those_it_does_not_bind() -> None:
    assert outside_names(function("X = SIZE + q\nY = X")) == {"SIZE"}


def test_facts_are_compared_in_one_spelling() -> None:
    assert normal('f( "a",b )') == "f('a', b)"
    assert normal("not ( python") == "not ( python"


_PIECES = st.sampled_from(
    """
X = 1
---
X = 2
---
X = X + 1
---
if flag:
    X = 3
---
if not flag:
    X = X * 2
else:
    X = 5
---
for _ in range(n):
    X = X + 1
---
while n > 3:
    n = n - 1
    X = 7
---
try:
    X = 8
    if flag:
        raise ValueError
    X = 9
except ValueError:
    pass
---
X = 4 if flag else X
---
flag = not flag
---
n = 2
---
if n == 2:
    X = 6
---
Y = X
X = 0
X, Y = Y, X
---
if flag:
    X = 3
    if n > 2:
        return X
---
try:
    X = 5
    if n:
        raise ValueError
    X = 6
except ValueError:
    X = X + 1
else:
    X = X * 2
---
try:
    try:
        X = 80
        raise KeyError
    finally:
        X = 81
except KeyError:
    pass
---
while n > 0:
    n -= 1
    try:
        if flag:
            break
        X = 12
    finally:
        X = 13
---
for i in range(n):
    if i == 1:
        continue
    if i == 3:
        break
    X = i
else:
    X = 11
---
match n:
    case 1:
        X = 20
    case 2 | 3:
        X = 21
    case other:
        X = 22
---
X = (n := 2) + 1
---
a, (b, X) = 1, (2, n)
---
if n > 2 and flag or not n:
    X = 50
else:
    flag = not flag
---
def g():
    nonlocal X
    X = 60
if flag:
    g()
---
del X
X = 70
""".strip().split("\n---\n")
)


@given(st.lists(_PIECES, min_size=1, max_size=6), st.booleans(), st.integers(0, 5))
def test_every_real_run_ends_with_a_value_that_was_foreseen(pieces: list[str], flag: bool, n: int) -> None:  # noqa: FBT001 - drawn
    body = "\n".join(["X = 0", *pieces, "return X"])
    scope = function(body, "flag, n")
    module = ast.Module([scope], [])  # type: ignore[list-item]  # `function` returns a definition
    namespace: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(module), "<test>", "exec"), namespace)  # noqa: S102 - the test's own code
    real = namespace["f"](flag, n)
    for known in ({}, {"flag": flag}, {"n": n}, {"flag": flag, "n": n}):
        found = [p.value for p in possible_values(scope, "X", known, {})]
        assert real in found or any(isinstance(value, Unknown) for value in found)
