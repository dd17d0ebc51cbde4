"""Edits of real files change their statement alone; what libcst loses is edited right or refused, never damaged."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import round_trip
from benchmarks.round_trip import edited, is_sound, passed_through, transformed
from orchestrator.cli.steps import deeply
from tests.workspaces import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

STDLIB = Path(sysconfig.get_path("stdlib"))
TRAPS: dict[str, bytes] = {
    "a form feed before a definition": b"x = 1\n\f\ndef f():\n    return 1\n\f\ny = 2\n",
    "a form feed that indents": b"def f():\n\f    x = 1\n    return x\n",
    "a tail of blanks": b"def f():\n    return 1\n    \n\t\n   ",
    "blanks and no last newline": b"x = 1\ny = 2   ",
    "a blank before the colon of except": b"try:\n    a()\nexcept X :\n    b()\nexcept (Y , Z)  as e  :\n    c()\n",
    "blanks in an f-string": b'x = f"{a!r  :x}"\ny = f"{ b  = !s  : >{w  } }"\nz = 1\n',
    "an f-string over lines": b"x = f'''{a\n}\n  {b}'''\ny = 1\n",
    "a byte order mark": b"\xef\xbb\xbfx = 1\ny = 2\n",
    "a byte order mark and a coding line": b"\xef\xbb\xbf# coding: utf-8\nx = 'a'\ny = 2\n",
    "a byte order mark and another coding": b"\xef\xbb\xbf# coding: latin-1\nx = 1\ny = 2\n",
    "a coding that does not exist": b"# coding: nothing\nx = 1\n",
    "an annotated name in parentheses": b"(z): int = 1\n(a.b): str = 'x'\ny = 2\n",
    "carriage returns": b"def f():\r\n    x = 1\r\n    return x\r\n\r\ny = 2\r\n",
    "lone carriage returns": b"x = 1\ry = 2\rz = 3\r",
    "ends of lines of all kinds": b"x = 1\r\ny = 2\nz = 3\rw = 4\r\n",
    "another encoding": "# coding: latin-1\nx = 'é'\ny = 2\n".encode("latin-1"),
    "characters of several bytes": "x = 'ä€😀'; y = 1\nz = 'ä'\n".encode(),
    "tabs and blanks": b"if a:\n\tx = 1\n\tif b:\n\t  y = 2\n",
    "continued lines": b"x = 1 + \\\n  2\nif a and \\\n   b:\n    y = 1\nassert x, \\\n  y\n",
    "statements on one line": b"x = 1; y = 2;\nif a: b = 1; c = 2\nclass A: pass\n",
    "a comment at the end": b"x = 1\ny = 2  # end",
    "a match with a tuple": b"match x:\n    case 1, 2:\n        y = 1\n    case [a, *_]:\n        z = 2\n",
    "decorators with blanks": b"@ d (\n  1)\n# c\n@e\ndef f(): pass\n\n\nx = 1\n",
    "backslash in a string": b"x = 'a\\\nb'\ny = '''\n\\\n'''\nz = 1\n",
    "nothing": b"",
    "comments alone": b"# a\n\n  # b\n",
    "deep parentheses": b"x = " + b"(" * 90 + b"1" + b")" * 90 + b"\ny = 2\n",
    "deep operators": b"x = " + b"-" * 400 + b"1\ny = 2\n",
    "deep attributes": b"x = a" + b".b" * 400 + b"\ny = 2\n",
    "deep blocks": b"".join(b" " * at + b"if x:\n" for at in range(60)) + b" " * 60 + b"y = 1\n",
    "a long sum": b"x = 1" + b" + 1" * 600 + b"\ny = 2\n",
    "deep lists": b"x = " + b"[" * 190 + b"]" * 190 + b"\ny = 2\n",
    "deeper than Python reads": b"x = " + b"[" * 5000 + b"]" * 5000 + b"\ny = 2\n",
    "a null byte": b"x = 1\n\0y = 2\n",
}


def outcomes(raw: bytes) -> Iterator[tuple[str, str]]:
    for seed in range(3):
        yield from edited("root/a.py", raw, random.Random(seed), 4)  # noqa: S311 - a choice of samples


@pytest.mark.parametrize("raw", TRAPS.values(), ids=TRAPS)
def test_a_trap_is_edited_right_or_refused(raw: bytes) -> None:
    found = deeply(lambda: list(outcomes(raw)))
    assert {outcome for _, outcome in found} <= {"edited", "E206", "E405", "E406", "E408", "E409", "E410", "E411"}
    through = deeply(lambda: transformed("root/a.py", raw))
    assert through in {"edited", "E408", "E409", "E411", "E414"}


def test_most_traps_are_edited() -> None:
    found = {name: [outcome for _, outcome in deeply(lambda: list(outcomes(raw)))] for name, raw in TRAPS.items()}  # noqa: B023 - called at once
    never = {name for name, ends in found.items() if "edited" not in ends}
    assert never <= {
        "nothing",
        "comments alone",
        "deeper than Python reads",
        "a null byte",
        "blanks in an f-string",
    } | {
        "a byte order mark and another coding",
        "a coding that does not exist",
    }


def test_files_that_no_stage_works_on_come_out_byte_for_byte() -> None:
    files = {f"root/a{at}.py": raw for at, raw in enumerate(TRAPS.values())}
    tree = passed_through(files)
    assert {path: tree[path] for path in files} == files


FILES = [
    *sorted(STDLIB.glob("*.py"))[::25],
    *sorted((STDLIB / "test").glob("test_*.py"))[::160],
    *sorted((ROOT / "tests/golden").rglob("before/**/*.py"))[::12],
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_real_file_is_edited_or_refused(path: Path) -> None:
    raw = path.read_bytes()
    found = deeply(lambda: list(edited("root/a.py", raw, random.Random(path.name), 3)))  # noqa: S311 - samples
    assert {outcome for _, outcome in found} <= {"edited", "E405", "E408", "E410", "E411"}


BEFORE = b"a = 1  # one\n\nb = 2\n\n\ndef f():\n    c = 3\n"
DAMAGE = {
    "replace": [
        b"a = 1  # one\n\n_marker_(1)\n\ndef f():\n    c = 3\n",
        b"a = 1\n\n_marker_(1)\n\n\ndef f():\n    c = 3\n",
        b"a = 1  # one\n\n_marker_(1)\n\n\ndef f():\n    c = 4\n",
        BEFORE,
    ],
    "delete": [b"a = 1  # one\n\n\ndef f():\n    c = 3", b"a = 1  # one\n\n\n\n\ndef f():\n    c = 4\n", BEFORE],
    "before": [b"a = 1\n\n_marker_(1)\nb = 2\n\n\ndef f():\n    c = 3\n", BEFORE],
}


@pytest.mark.parametrize(("kind", "after"), [(kind, after) for kind, many in DAMAGE.items() for after in many])
def test_damage_is_seen(kind: str, after: bytes) -> None:
    assert not is_sound(kind, ast.parse(BEFORE).body[1], BEFORE, after)


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("replace", BEFORE.replace(b"b = 2", b"_marker_(1)")),
        ("delete", BEFORE.replace(b"b = 2\n", b"")),
        ("before", BEFORE.replace(b"b = 2", b"_marker_(1)\nb = 2")),
        ("after", BEFORE.replace(b"b = 2\n", b"b = 2\n_marker_(1)\n")),
    ],
)
def test_an_edit_that_is_right_is_no_damage(kind: str, after: bytes) -> None:
    assert is_sound(kind, ast.parse(BEFORE).body[1], BEFORE, after)


def test_a_folder_is_told_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_bytes(BEFORE)
    monkeypatch.setattr("sys.argv", ["round_trip.py", str(tmp_path), "--every", "1"])
    assert round_trip.main() == 0
    assert "1 files, 1 identical" in capsys.readouterr().out
