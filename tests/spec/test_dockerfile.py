"""The environment that a Dockerfile sets, read as Docker reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.spec.dockerfile import environment_of, image_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FROM x\nENV A=1 B=2\n", {"A": "1", "B": "2"}),
        ("FROM x\nENV A 1 and more\n", {"A": "1 and more"}),
        ("FROM x\nENV A=\"1 2\" B='3'\n", {"A": "1 2", "B": "3"}),
        ("FROM x\nENV A=1 \\\n    # a comment between\n    B=2\n", {"A": "1", "B": "2"}),
        ("FROM x\nENV A=1\nENV A=2\n", {"A": "2"}),
        ("FROM x\nenv A=1\n", {"A": "1"}),
        ("FROM x\nENV A=1\nENV B=$A C=${A}2 D=$NONE E=\\$A\n", {"A": "1", "B": "1", "C": "12", "D": "", "E": "$A"}),
        ("FROM x\nENV PATH=/new:$PATH\n", {"PATH": "/new:/bin"}),
        ("FROM x AS first\nENV A=1\nFROM y\nENV B=2\n", {"B": "2"}),
        ("FROM x\n# ENV A=1\nRUN echo ENV A=1\nLABEL a=b\n", {}),
        ("FROM x\nENV\n", {}),
        ("FROM x\nENV A=1 stray\n", {"A": "1"}),
        ('FROM x\nENV A="open\n', {"A": '"open'}),
        ("", {}),
    ],
)
def test_the_last_stage_s_variables_are_found(text: str, found: dict[str, str]) -> None:
    assert environment_of(text, {"PATH": "/bin"}) == found


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(environment_of(text, {}), dict)
    assert isinstance(image_of(text), str)


@given(
    st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.from_regex(r"[a-z0-9/:.]{0,8}", fullmatch=True))
)
def test_what_is_written_is_read_back(variables: dict[str, str]) -> None:
    lines = "".join(f"ENV {name}={value}\n" for name, value in variables.items())
    assert environment_of(f"FROM x\n{lines}", {}) == variables


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("FROM a\nFROM b AS last\n", "b"),
        ("FROM --platform=linux/amd64 a:1\n", "a:1"),
        ("ARG X\nFROM registry:9443/a:1\n", "registry:9443/a:1"),
        ("RUN x\n", ""),
        ("FROM\n", ""),
    ],
)
def test_the_image_is_what_the_last_stage_is_built_on(text: str, image: str) -> None:
    assert image_of(text) == image
