"""Interpreters that are really here, compiling in a real child process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from orchestrator.origin.interpreter import compile_errors, find_interpreter

HERE = Path(sys.executable)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_this_interpreter_is_found_for_its_own_version() -> None:
    version = (sys.version_info[0], sys.version_info[1])
    assert find_interpreter(version) == HERE


def test_a_version_that_nobody_has_is_none() -> None:
    assert find_interpreter((3, 99)) is None
    assert find_interpreter((3, 99), {}) is None


def test_a_name_on_the_path_counts_only_if_it_is_that_version(tmp_path: Path) -> None:
    script(tmp_path / "a" / "python3.98", "echo 'version not installed' >&2; exit 127")
    script(tmp_path / "b" / "python3.98", f'exec {HERE} "$@"')
    environment = {"PATH": f"{tmp_path}/a:{tmp_path}/b:"}
    assert find_interpreter((3, 98), environment) is None
    good = script(tmp_path / "c" / "python3.98", "echo 3 98 cpython")
    assert find_interpreter((3, 98), {"PATH": f"{environment['PATH']}{tmp_path}/c"}) == good


def test_pyenv_is_looked_at(tmp_path: Path) -> None:
    good = script(tmp_path / ".pyenv" / "versions" / "3.98.1" / "bin" / "python", "echo 3 98 cpython")
    assert find_interpreter((3, 98), {"HOME": str(tmp_path)}) == good
    assert find_interpreter((3, 98), {"PYENV_ROOT": str(tmp_path / ".pyenv")}) == good


def test_every_broken_file_gets_its_place_and_good_ones_none() -> None:
    files = {
        "demo/good.py": "# -*- coding: latin-1 -*-\r\nx = 'é'\r\n".encode("latin-1"),
        "demo/bom.py": b"\xef\xbb\xbfx = 1\n",
        "demo/bad.py": b"x = 1\ny = = 2\n",
        "demo/late.py": b"def f():\n    pass\nreturn 1\n",
        "demo/null.py": b"x = 1\0\n",
        "demo/bytes.py": b"x = '\xff'\n",
        "demo/warns.py": b"x = 1 is 1\ny = '\\d'\n",
    }
    found = {d.place.file: d for d in compile_errors(HERE, files) if d.place}
    assert set(found) == {"demo/bad.py", "demo/late.py", "demo/null.py", "demo/bytes.py"}
    assert {d.code for d in found.values()} == {"E501"}
    place = found["demo/bad.py"].place
    assert place is not None
    assert (place.line, place.column) == (2, 5)


def test_nothing_is_run_imported_or_written(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "demo.py").write_bytes(b"")
    source = f"open({str(mark)!r}, 'w')\nimport demo\n".encode()
    assert compile_errors(HERE, {str(tmp_path / "demo.py"): source}) == ()
    assert [p.name for p in tmp_path.iterdir()] == ["demo.py"]


def test_the_tools_own_environment_does_not_reach_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_bytes(b"raise SystemExit(3)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert compile_errors(HERE, {"a.py": b"x = 1\n"}) == ()


@pytest.mark.parametrize("minor", [6, 8, 9, 10, 12, 13])
def test_the_version_decides_what_is_syntax(minor: int) -> None:
    other = find_interpreter((3, minor), {**os.environ})
    if other is None:
        pytest.skip(f"no Python 3.{minor} here")
    match = b"match x:\n    case 1:\n        pass\n"
    assert [d.code for d in compile_errors(other, {"a.py": match, "b.py": b"x = 1\n"})] == ["E501"] * (minor < 10)


def test_a_compiler_that_crashes_names_the_file_it_was_at(tmp_path: Path) -> None:
    dies = script(tmp_path / "python", 'echo \'{"file": "a.py"}\'; kill -SEGV $$')
    (found,) = compile_errors(dies, {"a.py": b"", "b.py": b""})
    assert (found.code, str(found.place), bool(found.notes)) == ("E501", "a.py", True)


def test_a_compiler_that_hangs_is_stopped(tmp_path: Path) -> None:
    hangs = script(tmp_path / "python", 'echo \'{"file": "a.py"}\'; exec sleep 60')
    (found,) = compile_errors(hangs, {"a.py": b""}, seconds=0.5)
    assert (found.code, str(found.place)) == ("E501", "a.py")


def test_an_interpreter_that_is_not_there_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    (found,) = compile_errors(tmp_path / "none", {"a.py": b""})
    assert found.code == "E501"


def test_very_deep_nesting_is_an_error_and_no_traceback() -> None:
    (found,) = compile_errors(HERE, {"deep.py": b"x = " + b"(" * 5000 + b")" * 5000})
    assert (found.code, found.place is not None) == ("E501", True)
