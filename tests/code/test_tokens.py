"""The quick tokeniser splits as `tokenize` does, or leaves the text to it."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code.tokens import _split, _tokenized

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
FILES = sorted(LIBRARY.glob("*.py"))[::9]
PIECES = [
    "x",
    "1",
    " ",
    "    ",
    "\n",
    "'a'",
    '"""b\n"""',
    "f'{x}'",
    "# c\n",
    "(",
    ")",
    ":",
    "if ",
    "def f():\n",
    "\\\n",
    "é",
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_real_file_is_split_as_tokenize_splits_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    assert _split(text) in (None, list(_tokenized(text)))


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join).map("{}\n".format))
def test_whatever_python_can_read_is_split_as_tokenize_splits_it(text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return
    assert _split(text) in (None, list(_tokenized(text)))
