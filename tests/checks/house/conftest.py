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
    return [d for d in found if not code or d.code == code]


@pytest.fixture
def judged() -> Judged:
    return _judged
