"""What every file of the repository keeps to."""

from __future__ import annotations

import re

import pytest

from tests.repository.sources import files, name

ALLOWED_LINES = 300
# Longer than one sitting, each for a reason.
LONG = {
    "orchestrator/core/codes.py": "a table: one entry for each code",
    "orchestrator/emit/patchset.py": "goes into the image as one file, whatever it is",
    "kernels/paged_attention_pytorch.py": "deployed as one file beside the code that calls it",
    "kernels/muh_dispatch.py": "one table, with what refuses a row that does not fit",
    "kernels/paged_attention_v2_triton.py": "deployed as one file beside the code that calls it",
    "kernels/trust.py": "deployed as one file, which also answers `live` on its own",
    "kernels/prefix_prefill.py": "deployed as one file in vLLM's place of it",
    "orchestrator/checks/house/names.py": "one resolver: a case for each kind of expression, and their caches",
    "orchestrator/cli/steps.py": "the steps of a run, in the order in which they are taken",
    "orchestrator/code/fold.py": "one interpreter: a case for each kind of statement and expression",
    "orchestrator/code/imports.py": "all that is known of import statements, read and written",
    "orchestrator/code/operations.py": "one function for each operation of an edit, side by side",
    "orchestrator/code/patterns.py": "compiler and matcher share the meaning of a hole",
    "orchestrator/code/template.py": "compiler and printer share the meaning of a hole",
    "orchestrator/engine/plan.py": "compiles each part of a stage, side by side",
    "orchestrator/engine/run.py": "the fold over the stages, with the state between two of them",
}
TEXT = re.compile(
    r"\.(py|md|yaml|toml|json|j2|cu|cuh|cpp|h|txt|typed|lock|svg)$|(^|/)(Makefile|LICENSE|run|\.gitignore)$"
)
# A machine of whoever wrote it; a file may speak of a home folder in a test of its own.
PRIVATE = re.compile(r"(?<![\w.])(/home/\w|/Users/\w|/root/\w|/work/\w|/tmp/w\b|[A-Z]:\\Users)")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Return place and text of every line that a pattern finds."""
    return [
        f"{name(path)}:{number}: {line}"
        for path in files()
        if TEXT.search(name(path)) and path.name != "test_text.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_place_on_somebody_s_machine() -> None:
    assert lines_with(PRIVATE) == []


def test_nothing_is_left_to_do() -> None:
    assert lines_with(UNFINISHED) == []


def test_no_line_ends_in_blanks() -> None:
    found = lines_with(re.compile(r"[ \t]$"))
    # The vendor's files have such lines, and so have the skeletons that stand for them.
    assert [line for line in found if not line.startswith("tests/golden/")] == []


def test_every_text_file_is_utf_8_with_plain_line_ends_and_a_last_newline() -> None:
    contents = {name(path): path.read_bytes() for path in files() if TEXT.search(name(path))}
    wrong = [file for file, raw in contents.items() if b"\r" in raw or (raw and not raw.endswith(b"\n"))]
    assert wrong == []


def test_a_file_that_is_not_known_as_text_is_no_surprise() -> None:
    assert [name(path) for path in files() if not TEXT.search(name(path))] == []


def test_a_module_fits_one_sitting() -> None:
    lengths = {name(path): path.read_bytes().count(b"\n") for path in files(".py")}
    too_long = {file: length for file, length in lengths.items() if length > ALLOWED_LINES and file not in LONG}
    # A test file is a list of cases: nobody reads it in one sitting.
    assert {file: length for file, length in too_long.items() if not file.startswith("tests/")} == {}


@pytest.mark.parametrize("file", LONG)
def test_an_exception_is_still_needed(file: str) -> None:
    lengths = {name(path): path.read_bytes().count(b"\n") for path in files(".py")}
    assert lengths[file] > ALLOWED_LINES
