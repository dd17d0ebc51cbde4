"""Every diagnostic code that the source uses is explained, and nothing is explained that is not used."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.core.codes import CODES, FAMILIES, INSTALLER_CODES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "orchestrator"
TABLE = PACKAGE / "core" / "codes.py"
INSTALLER = PACKAGE / "emit" / "patchset.py"


def constants(path: Path, shape: str) -> Iterator[tuple[str, int]]:
    """Yield the string constants of a file that have this shape, with their lines; compared ones are not uses."""
    tree = ast.parse(path.read_bytes())
    compared = {id(n) for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.BinOp) for n in ast.walk(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in compared and re.fullmatch(shape, text):
                yield text, node.lineno


def used(shape: str, *paths: Path) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        for code, line in constants(path, shape):
            found[code].append(f"{path.relative_to(ROOT)}:{line}")
    return dict(found)


USED = used(r"[EW]\d{3}", *(path for path in sorted(PACKAGE.rglob("*.py")) if path != TABLE))


def test_every_code_that_the_source_uses_is_in_the_table() -> None:
    assert {code: places for code, places in USED.items() if code not in CODES} == {}


def test_every_code_in_the_table_is_used() -> None:
    assert sorted(set(CODES) - set(USED)) == []


def test_the_table_is_in_the_order_of_the_families() -> None:
    prefixes = [family.prefix for family in FAMILIES]
    places = [next(i for i, prefix in enumerate(prefixes) if code.startswith(prefix)) for code in CODES]
    assert list(CODES) == [code for _, code in sorted(zip(places, CODES, strict=True))]


def test_the_installer_s_codes_are_those_that_it_uses() -> None:
    assert set(used(r"[A-Z]{4,}", INSTALLER)) == set(INSTALLER_CODES)


@pytest.mark.parametrize("code", [*CODES, *INSTALLER_CODES])
def test_every_code_has_its_entry_in_the_docs(code: str) -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    assert re.search(rf"^(### {code}\b|\| `{code}` \|)", text, re.MULTILINE)


def test_a_code_that_is_only_compared_is_not_taken_for_used(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text('"""About E101."""\nif code == "E102": fault("E103")\nfound = codes & {"E104"}\n')
    assert [code for code, _ in constants(file, r"E\d{3}")] == ["E103"]
