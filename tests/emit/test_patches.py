"""Patches: `git apply` makes the same bytes of the same base, whatever the bytes are."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.emit.patches import patch_of, stat

_line = st.binary(max_size=6).filter(lambda raw: b"\n" not in raw and b"\0" not in raw)
_end = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
_lines = st.lists(st.tuples(_line, _end), max_size=12).map(lambda rows: b"".join(a + b for a, b in rows))
_file = st.builds(lambda body, tail: body + tail, _lines, st.sampled_from([b"", b"", b"last", b"caf\xe9"]))


def applied(before: dict[str, bytes], patch: bytes) -> dict[str, bytes]:
    """Return what git makes of `before` with the patch."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for path, content in before.items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_bytes(content)
        subprocess.run(["git", "init", "-q"], cwd=top, check=True)
        subprocess.run(["git", "apply", "--whitespace=nowarn"], cwd=top, input=patch, check=True)
        files = (path for path in top.rglob("*") if path.is_file() and ".git" not in path.relative_to(top).parts)
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in files}


@settings(max_examples=60)
@given(_file, _file)
@example(b"a\n", b"a")
@example(b"a", b"a\n")
@example(b"a\r\nb\r\n", b"a\r\nc\r\n")
@example(b"\xff\n", b"\xfe\n")
@example(b"", b"a")
@example(b"a\n", b"")
@example(b"a\x0cb\n", b"a\x0cc\n")
@example(b"a\x85\xe2\x80\xa8b\n", b"c\x85\xe2\x80\xa8b\n")
@example(b"--- a\n+++ b\n@@ x\n", b"-- a\n++ b\n@ x\n")
def test_a_changed_file_comes_out_byte_for_byte(before: bytes, after: bytes) -> None:
    patch = patch_of({"pkg/a.py": before}, {"pkg/a.py": after})
    if before == after:
        assert patch == b""
    else:
        assert applied({"pkg/a.py": before}, patch) == {"pkg/a.py": after}


@settings(max_examples=30)
@given(_file)
@example(b"")
@example(b"X = 1")
def test_a_new_file_comes_out_byte_for_byte(after: bytes) -> None:
    patch = patch_of({"pkg/new.py": None}, {"pkg/new.py": after})
    assert applied({"pkg/a.py": b""}, patch) == {"pkg/a.py": b"", "pkg/new.py": after}


def test_several_files_are_in_one_patch_sorted_by_path() -> None:
    before = {"pkg/b.py": b"b\n", "pkg/a.py": b"a\n", "pkg/c.py": None, "pkg/d.py": b"d\n"}
    after = {"pkg/b.py": b"B\n", "pkg/a.py": b"A\n", "pkg/c.py": b"C\n", "pkg/d.py": b"d\n"}
    patch = patch_of(before, after)
    assert [line for line in patch.splitlines() if line.startswith(b"diff ")] == [
        b"diff --git a/pkg/a.py b/pkg/a.py",
        b"diff --git a/pkg/b.py b/pkg/b.py",
        b"diff --git a/pkg/c.py b/pkg/c.py",
    ]
    assert applied({k: v for k, v in before.items() if v is not None}, patch) == after


@pytest.mark.parametrize("path", ["pkg/with blank.py", "pkg/größe.py", "pkg/a'b.py", 'pkg/a"b.py', "pkg/a\\b.py"])
def test_a_path_of_any_spelling_is_applied(path: str) -> None:
    assert applied({path: b"a\n"}, patch_of({path: b"a\n"}, {path: b"b\n"})) == {path: b"b\n"}
    assert applied({}, patch_of({path: None}, {path: b"b\n"})) == {path: b"b\n"}
    assert applied({}, patch_of({path: None}, {path: b""})) == {path: b""}


@given(_file, _file)
def test_the_numbers_of_lines_are_those_of_git(before: bytes, after: bytes) -> None:
    rows = stat({"a": before}, {"a": after})
    if before == after:
        assert rows == []
        return
    (row,) = rows
    body = patch_of({"a": before}, {"a": after}).split(b"\n@@ ", 1)[-1].split(b"\n")[1:]
    assert row == (
        "a",
        sum(line.startswith(b"+") for line in body),
        sum(line.startswith(b"-") for line in body),
    )
    assert row[1] - row[2] == _count(after) - _count(before)


def _count(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
