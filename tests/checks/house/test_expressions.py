"""What stands in changed code is found once, without its conditions; those are the same when they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.checks.house.expressions import accesses, guard_of, standing
from orchestrator.code.source import Source

OWN = sorted(Path(__file__).parents[3].joinpath("orchestrator", "code").glob("*.py"))
ODD = """
def f(a, b=lambda x: x.y(1)):
    if a and (z := a.b(c.d)):
        return [g(h.i) for h in a.b() if h.j() for k in h if k.l or m.n()]
    try:
        assert a.o(), a.p
    except a.E:
        return {q: r.s(q) for q in (lambda: a.t())()} if a.u else a.v()
    else:
        with a.w() as x.y:
            f(a.b)(c.d).e(f"{a.b(c)!r:{d.e()}}")
"""


@pytest.mark.parametrize("text", [*(path.read_text(encoding="utf-8") for path in OWN), ODD])
def test_what_stands_somewhere_is_what_is_accessed_there_in_the_same_order(text: str) -> None:
    source = Source("a.py", text.encode())
    slow = list(accesses(source))
    assert list(standing(source)) == [(node, statement, guard.scopes) for node, statement, guard in slow]
    lines = list(range(1, len(source.lines), 5))
    some = list(accesses(source, lines))
    assert list(standing(source, lines)) == [(node, statement, guard.scopes) for node, statement, guard in some]
    for node, statement, guard in slow[::29]:
        assert guard_of(node, statement, source) == guard
