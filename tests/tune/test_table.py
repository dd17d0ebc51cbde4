"""A row in the table's text: in its place, nothing else touched, and the table gives it back."""

from __future__ import annotations

import ast
import dataclasses
import types
from typing import Any

import pytest

from kernels import muh_dispatch
from kernels.muh_dispatch import DECODE, PREFILL, DecodeConfig, PrefillConfig
from orchestrator.core.diagnostics import Rejected
from orchestrator.tune import table
from orchestrator.tune.space import TABLE
from tests.workspaces import ROOT

RAW = (ROOT / TABLE).read_bytes()
ROWS: list[DecodeConfig | PrefillConfig] = [*DECODE.values(), *PREFILL.values()]
EMPTY = b"TUNED: tuple[Config, ...] = ()"


def defaults_of(kind: type) -> dict[str, Any]:
    return {f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}


def edited(raw: bytes, row: DecodeConfig | PrefillConfig) -> bytes:
    kind = type(row)
    return table.with_row(raw, kind.__name__, dataclasses.asdict(row), defaults_of(kind))


def loaded(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a module
    module = types.ModuleType("a_table")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    exec(compile(raw, TABLE, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the edited table
    return module


def rows_of(module: Any) -> dict[object, dict[str, Any]]:  # noqa: ANN401 - a module
    both = {**module.DECODE, **module.PREFILL}
    return {key: dataclasses.asdict(row) for key, row in both.items()}


@pytest.mark.parametrize("row", [ROWS[0], ROWS[5], ROWS[-1], ROWS[-4]], ids=lambda row: row.label)
def test_a_row_takes_the_place_of_the_one_with_its_key_and_no_other_row_changes(
    row: DecodeConfig | PrefillConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = dataclasses.replace(row, reason='said "so"\\', evidence="word " * 80, merge_stages=2)
    found = rows_of(loaded(edited(RAW, new), monkeypatch))
    expected = rows_of(muh_dispatch) | {row.key: dataclasses.asdict(new)}
    assert found == expected


def test_the_last_row_of_a_key_stands_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = ROWS[0], ROWS[-1]
    raw = RAW
    for row in (first, other, dataclasses.replace(first, resident=3), dataclasses.replace(other, spilled=7)):
        raw = edited(raw, row)
    module = loaded(raw, monkeypatch)
    assert len(module.TUNED) == 2
    assert (module.DECODE[first.key].resident, module.PREFILL[other.key].spilled) == (3, 7)


def test_rows_as_somebody_wrote_them_are_found_and_what_is_around_them_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in ROWS if isinstance(row, PrefillConfig) and row.device == "h200")
    hand = (
        "TUNED = (  # by hand\n"
        f"    PrefillConfig(num_stages=2, num_warps=4, block_n=32,block_m=64, resident=1, reason='r', evidence='e',\n"
        f"       head_size={row.head_size}, device='h200',\n  dtype='float16'),  # a note, with a comma\n"
        "    *(), # more\n)"
    )
    raw = RAW.replace(EMPTY, hand.encode())
    after = edited(raw, row)
    assert b"# a note, with a comma" in after
    assert b"# by hand" in after
    assert [type(one).__name__ for one in loaded(after, monkeypatch).TUNED] == ["PrefillConfig"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_byte_order_mark_stay(newline: str, mark: bytes) -> None:
    after = edited(mark + RAW.replace(b"\n", newline.encode()), ROWS[0])
    assert after.startswith(b"\xef\xbb\xbf") is bool(mark)
    assert (after.count(b"\n") == after.count(b"\r\n")) is (newline == "\r\n")
    assert after.replace(b"\r\n", b"\n").removeprefix(mark) == edited(RAW, ROWS[0])


@pytest.mark.parametrize(
    ("text", "code"),
    [("ROWS = ()", "E908"), ("TUNED = rows()", "E908"), ("TUNED: tuple[Config, ...]", "E908"), ("TUNED = (", "E408")],
)
def test_a_table_without_its_tuple_is_refused(text: str, code: str) -> None:
    with pytest.raises(Rejected) as refused:
        edited(f"{text}\n".encode(), ROWS[0])
    assert [found.code for found in refused.value.diagnostics] == [code]


def test_a_row_is_laid_out_as_the_formatter_would() -> None:
    row = dataclasses.replace(ROWS[0], evidence="one two three four five " * 12)
    text = "\n".join(table.row_lines("DecodeConfig", dataclasses.asdict(row), defaults_of(DecodeConfig)))
    assert max(map(len, text.splitlines())) <= 120
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert "merge_warps" not in {word.arg for word in call.keywords}  # it has its default
    assert ast.literal_eval(next(word.value for word in call.keywords if word.arg == "evidence")) == row.evidence
