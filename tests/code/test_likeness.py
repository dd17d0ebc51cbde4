"""How alike two files are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.likeness import Body

_LINE = st.sampled_from([b"", b"}", b"return x + 1", b"    y = 2 * x", b"import os", b"\xff\xfe\x00line"])
_BODY = st.lists(_LINE, max_size=12).map(b"\n".join)


@given(_BODY, _BODY)
def test_likeness_is_a_share_that_does_not_depend_on_the_order(one: bytes, two: bytes) -> None:
    share = Body(one).likeness(Body(two))
    assert 0 <= share <= 1
    assert share == Body(two).likeness(Body(one))
    assert (share == 1) == (Body(one).lines == Body(two).lines and bool(Body(one).lines))


@given(_BODY)
def test_line_ends_and_indentation_do_not_count(body: bytes) -> None:
    spaced = b"\t" + body.replace(b"\n", b"\r\n  ") + b"\n\n"
    assert Body(spaced).digest == Body(body).digest
    assert Body(spaced).lines == Body(body).lines


def test_brackets_alone_are_no_likeness() -> None:
    assert Body(b"}\n)\n").likeness(Body(b"}\n)\n")) == 0


def test_half_of_the_lines_in_common_is_a_third_of_all() -> None:
    assert Body(b"one line\nsame line\n").likeness(Body(b"same line\nother line\n")) == 1 / 3
