"""Real interpreters of the target's Python version: find one, and let it compile sources without running them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLAGS = ("-I", "-S", "-B")  # no environment, no user folder, no site packages, no bytecode written
TELL = "import sys; print(sys.version_info[0], sys.version_info[1], sys.implementation.name)"
# Runs in the found interpreter, so it keeps to what every Python 3 has. One line before each file says which it is:
# where the compiler itself dies, the last of them names the culprit.
COMPILE = r"""
import base64, json, sys, warnings
warnings.simplefilter("ignore")
for path, source in sorted(json.loads(sys.stdin.read()).items()):
    print(json.dumps({"file": path}), flush=True)
    try:
        compile(base64.b64decode(source), path, "exec", dont_inherit=True)
    except SyntaxError as e:
        print(json.dumps({"message": str(e.msg), "line": e.lineno or 0, "column": e.offset or 0}), flush=True)
    except Exception as e:
        print(json.dumps({"message": str(e) or type(e).__name__, "line": 0, "column": 0}), flush=True)
print(json.dumps({"end": True}))
"""


def find_interpreter(version: tuple[int, int], environment: Mapping[str, str] | None = None) -> Path | None:
    """Return a CPython of this version that starts, or None: this one, one on PATH, one of pyenv's."""
    environment = os.environ if environment is None else environment
    return next((path for path in _candidates(version, environment) if _is_version(path, version)), None)


def compile_errors(interpreter: Path, files: Mapping[str, bytes], seconds: float = 120) -> tuple[Diagnostic, ...]:
    """Return one E501 for each file that `interpreter` does not compile; nothing is imported or run.

    One child process compiles them all, within `seconds`. A file on which it crashes or hangs gets its E501, and a
    note says that those after it were not looked at.
    """
    sources = {path: base64.b64encode(content).decode() for path, content in files.items()}
    command = [str(interpreter), *FLAGS, "-c", COMPILE]
    try:
        child = subprocess.run(  # noqa: S603 - the interpreter that the caller chose, with our own program
            command, input=json.dumps(sources).encode(), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as expired:
        return _read(expired.stdout or b"", interpreter, f"compiling took longer than {seconds:g} s")
    except OSError as error:
        message = f"the interpreter cannot be started: {error.strerror or error}"
        return (Diagnostic("E501", message, Place(str(interpreter)), help="Check its path and permissions."),)
    return _read(child.stdout, interpreter, f"the compiler ended with status {child.returncode}")


def _candidates(version: tuple[int, int], environment: Mapping[str, str]) -> Iterator[Path]:
    if sys.version_info[:2] == version and sys.executable:
        yield Path(sys.executable)
    name = f"python{version[0]}.{version[1]}"
    for folder in environment.get("PATH", "").split(os.pathsep):
        if folder and (found := shutil.which(name, path=folder)):
            yield Path(found)
    pyenv = Path(environment.get("PYENV_ROOT") or Path(environment.get("HOME") or "/nonexistent", ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version[0]}.{version[1]}.*/bin/python"), reverse=True)


def _is_version(path: Path, version: tuple[int, int]) -> bool:
    """Ask the interpreter itself: a shim may stand for a version that is not active, and a link may dangle."""
    try:
        child = subprocess.run(  # noqa: S603 - a Python found under its own name
            [str(path), *FLAGS, "-c", TELL], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return child.returncode == 0 and child.stdout.split() == f"{version[0]} {version[1]} cpython".encode().split()


def _read(output: bytes, interpreter: Path, what_went_wrong: str) -> tuple[Diagnostic, ...]:
    """Turn the child's lines into diagnostics; without its last line, blame the file it was at."""
    found: list[Diagnostic] = []
    current = ""
    for line in output.splitlines():
        try:
            record: dict[str, Any] = json.loads(line)
        except ValueError:  # cut off
            break
        if "end" in record:
            return tuple(found)
        if "file" in record:
            current = record["file"]
        else:
            place = Place(current, record["line"], max(record["column"], 1) if record["line"] else 0)
            help_ = "The target's Python must read this file: use only syntax that it knows."
            message = f"{interpreter} does not compile this: {record['message']}"
            found.append(Diagnostic("E501", message, place, help=help_))
    notes = ("the files after it were not looked at",) if current else ()
    place = Place(current or str(interpreter))
    help_ = "Make the file simpler (less deeply nested), or use another interpreter of this version."
    return (*found, Diagnostic("E501", what_went_wrong, place, notes=notes, help=help_))
