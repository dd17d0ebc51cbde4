"""Signatures: shown as Python writes them, bound as Python binds them."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.signature import binding_fault, differences, parameters_of, shown

SIGNATURES = [
    "()",
    "(a)",
    "(a, b=1)",
    "(a, /, b)",
    "(a, /)",
    "(*, a)",
    "(*, a, b=2)",
    "(*rest, a)",
    "(a, *rest, b=1, **more)",
    "(**more)",
    "(a: int, b: str = 'x', *, c: float = 1.0)",
]


def function(signature: str) -> ast.FunctionDef:
    node = ast.parse(f"def f{signature}: pass").body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def call(arguments: str) -> ast.Call:
    node = ast.parse(f"f{arguments}", mode="eval").body
    assert isinstance(node, ast.Call)
    return node


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_signature_is_shown_as_it_is_written(signature: str) -> None:
    assert shown(parameters_of(function(signature).args)) == signature


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_signature_does_not_differ_from_itself(signature: str) -> None:
    parameters = parameters_of(function(signature).args)
    assert differences(parameters, parameters) == ()


_CALLS = st.tuples(
    st.lists(st.just("1"), max_size=3),
    st.lists(st.sampled_from(["a", "b", "c", "z"]), max_size=3, unique=True),
).map(lambda t: f"({', '.join([*t[0], *(f'{name}=1' for name in t[1])])})")


@given(st.sampled_from(SIGNATURES), _CALLS)
def test_a_call_binds_exactly_where_python_binds_it(signature: str, arguments: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"def f{signature}: pass", namespace)  # noqa: S102 - the test's own code is the measure
    try:
        eval(f"f{arguments}", namespace)  # noqa: S307 - the same
        binds = True
    except TypeError:
        binds = False
    assert (binding_fault(call(arguments), function(signature)) == "") is binds


@pytest.mark.parametrize(
    ("arguments", "implicit", "said"),
    [
        ("(1, 2)", 0, "2 positional arguments, but f(a) takes 1"),
        ("(1, b=2)", 0, "keyword `b`, which f(a) does not take"),
        ("(1, a=2)", 0, "`a` is given twice to f(a)"),
        ("()", 0, "`a` is not given to f(a)"),
        ("(1)", 1, "1 positional argument, but f(a) takes 0"),
        ("()", 1, ""),
        ("(*x)", 0, ""),
        ("(**x)", 0, ""),
        ("(1, 2, *x)", 0, "2 positional arguments, but f(a) takes 1"),
    ],
)
def test_why_a_call_does_not_bind_is_said(arguments: str, implicit: int, said: str) -> None:
    assert binding_fault(call(arguments), function("(a)"), implicit) == said
