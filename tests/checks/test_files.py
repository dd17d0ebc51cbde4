"""Checks on files: there or not, their bytes, their text, unchanged since the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator.checks.verdict import Status
from orchestrator.core.diagnostics import Place
from orchestrator.core.digest import digest

if TYPE_CHECKING:
    from tests.checks.conftest import Scene

FILE = "pkg/a.py"
CODE = "X = 1  # one\r\n\r\ndef f(a):\r\n    return a\r\n\r\nclass C:\r\n    def m(self): return 1\r\n"


def test_a_file_that_is_there_exists_in_the_tree_or_among_the_artefacts(scene: Scene) -> None:
    scene.files = {FILE: CODE}
    scene.artefacts = {"run.yaml": "a: 1\n"}
    found = scene.judge("file_exists", file=FILE)
    assert (found.status, found.evidence) == (Status.HOLDS, f"{FILE} is there, {len(CODE)} bytes")
    assert scene.judge("file_exists", file="run.yaml").holds
    found = scene.judge("file_absent", file=FILE)
    assert (found.status, found.evidence, found.place) == (
        Status.FAILS,
        f"{FILE} is there, {len(CODE)} bytes",
        Place(FILE),
    )


def test_a_file_that_is_not_there_is_absent_and_the_nearest_is_named(scene: Scene) -> None:
    scene.files = {FILE: CODE}
    found = scene.judge("file_exists", file="pkg/b.py")
    assert (found.status, found.evidence) == (Status.FAILS, f"pkg/b.py is not there; did you mean '{FILE}'?")
    found = scene.judge("file_absent", file="pkg/b.py")
    assert (found.status, found.evidence) == (Status.HOLDS, "pkg/b.py is not there")


def test_a_digest_holds_for_exactly_these_bytes(scene: Scene) -> None:
    scene.files = {FILE: CODE}
    right, wrong = digest(CODE.encode()), digest(b"other")
    found = scene.judge("sha256", file=FILE, equals=right)
    assert (found.status, found.evidence) == (Status.HOLDS, f"{FILE} has sha256 {right}")
    found = scene.judge("sha256", file=FILE, equals=wrong)
    assert (found.status, found.evidence) == (Status.FAILS, f"{FILE} has sha256 {right}, not {wrong}")


def test_a_text_is_counted_whatever_the_line_ends(scene: Scene) -> None:
    scene.files = {"pkg/t.h": "#define N 8\r\n#define M 8\r\n"}
    found = scene.judge("text_count", file="pkg/t.h", text="8\n#define", equals=1)
    assert (found.status, found.evidence, found.place) == (
        Status.HOLDS,
        "pkg/t.h has the text '8\\n#define' once, first in line 1",
        Place("pkg/t.h", 1, 1),
    )
    found = scene.judge("text_count", file="pkg/t.h", text="#define M", equals=2)
    assert (found.status, found.evidence) == (
        Status.FAILS,
        "pkg/t.h has the text '#define M' once, first in line 2, not 2",
    )
    assert scene.judge("text_count", file="pkg/t.h", text="absent", equals=0).evidence == (
        "pkg/t.h has the text 'absent' 0 times"
    )


def test_an_unchanged_file_has_the_bytes_of_the_base(scene: Scene) -> None:
    scene.files = {FILE: CODE}
    assert scene.judge("unchanged", file=FILE).evidence == (
        f"{FILE} has the bytes of the base, sha256 {digest(CODE.encode())}"
    )
    scene.base = {FILE: CODE.replace("return a", "return b")}
    found = scene.judge("unchanged", file=FILE)
    assert (found.status, found.evidence) == (
        Status.FAILS,
        f"{FILE} differs from the base: first in line 4, {len(CODE)} bytes before and {len(CODE)} now",
    )


@pytest.mark.parametrize("within", ["f", "C", "C.m"])
def test_a_definition_is_unchanged_whatever_happens_to_comments_and_to_others(scene: Scene, within: str) -> None:
    scene.files = {FILE: CODE}
    scene.base = {FILE: CODE.replace("# one", "# 1").replace("X = 1", "X = 2").replace("\r\n", "\n")}
    found = scene.judge("unchanged", file=FILE, within=within)
    assert found.status is Status.HOLDS
    assert found.evidence.startswith(f"`{within}` in {FILE} is the definition of the base, digest ")


def test_a_definition_that_differs_or_is_new_is_changed(scene: Scene) -> None:
    scene.files = {FILE: CODE}
    scene.base = {FILE: CODE.replace("return a", "return 2").replace("class C", "class D")}
    found = scene.judge("unchanged", file=FILE, within="f")
    assert (found.status, found.place) == (Status.FAILS, Place(FILE, 3, 1))
    assert found.evidence.startswith(f"`f` in {FILE} differs from the definition of the base, digest ")
    assert scene.judge("unchanged", file=FILE, within="C").evidence == f"`C` in {FILE} is not in the base tree"
    scene.base = {}
    assert scene.judge("unchanged", file=FILE).evidence == f"{FILE} is not in the base tree"
    assert scene.judge("unchanged", file=FILE, within="f").evidence == f"{FILE} is not in the base tree"
