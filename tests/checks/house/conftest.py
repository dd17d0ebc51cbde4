from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Protocol

import pytest

from orchestrator.checks.house import judge_house_rules
from orchestrator.checks.view import Facts, View
from orchestrator.core.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.core.diagnostics import Diagnostic

FACTS = Facts(packages=frozenset({"torch"}))
_ASKED_FOR = frozenset({"E513"})
"""Rules about what a run brings, which few small files fulfil: judged where a test asks for them."""


class Judged(Protocol):
    """Judges small files: those named in `touched`, else all of them."""

    def __call__(
        self,
        files: Mapping[str, str],
        *touched: str,
        base: Mapping[str, str] | None = None,
        facts: Facts = FACTS,
        code: str = "",
    ) -> list[Diagnostic]: ...


def _tree(files: Mapping[str, str]) -> Tree:
    return Tree({path: textwrap.dedent(text).encode() for path, text in files.items()})


def _judged(
    files: Mapping[str, str],
    *touched: str,
    base: Mapping[str, str] | None = None,
    facts: Facts = FACTS,
    code: str = "",
) -> list[Diagnostic]:
    view = View(_tree(files), _tree(base or {}), facts)
    found = judge_house_rules(view, frozenset(touched or files))
    return [d for d in found if d.code == code or (not code and d.code not in _ASKED_FOR)]


@pytest.fixture
def judged() -> Judged:
    return _judged
