"""The variants: each edit matches the kernels as they are, and changes nothing else."""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING

import pytest
import torch

from benchmarks import ablation, attention
from benchmarks.paged import ours, warm
from benchmarks.paged.variants import Change, Variant, edited, variants
from kernels import muh_dispatch
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

EDITED = [variant for variant in variants() if variant.changes]


def source(variant: Variant) -> str:
    return (ours.FOLDER / f"{variant.module}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("variant", EDITED, ids=lambda v: f"{v.module} {v.name}")
def test_every_edit_matches_the_kernels_and_changes_only_what_it_says(variant: Variant) -> None:
    before = source(variant)
    after = edited(before, variant.changes, variant.module)
    ast.parse(after)
    differing = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] == "-"]
    assert 0 < len(differing) <= sum(change.count for change in variant.changes)


def test_an_edit_that_matches_nothing_or_more_than_it_says_is_refused() -> None:
    text = "def f():\n    a = g(1)\n    b = g(1)\n    return a + b\n"
    for change in (Change("f", "g(2)", "g(3)"), Change("f", "g(1)", "g(3)"), Change("h", "g(1)", "g(3)")):
        with pytest.raises(Rejected):
            edited(text, (change,), "f.py")
    assert edited(text, (Change("f", "g(1)", "g(3)", count=2),), "f.py").count("g(3)") == 2


def test_names_tell_variants_apart_and_every_base_is_there_and_comes_first() -> None:
    every = [(variant.module, variant.name) for variant in variants()]
    assert len(every) == len(set(every))
    for place, variant in enumerate(variants()):
        if variant.name != variant.base:
            assert (variant.module, variant.base) in every[:place]


def test_every_question_of_the_ablation_has_a_variant() -> None:
    groups = {(variant.module, variant.group) for variant in variants()}
    decode = {"masks and x", "order", "stages", "warps", "tile", "split", "group"}
    assert {(ours.DECODE, group) for group in decode} <= groups
    assert {(ours.PREFILL, group) for group in ("diagonal", "masks", "tile", "warps", "stages", "split")} <= groups


def test_a_changed_row_names_fields_of_the_table_s_rows() -> None:
    decode, prefill = (next(iter(rows.values())) for rows in (muh_dispatch.DECODE, muh_dispatch.PREFILL))
    for variant in variants():
        assert all(hasattr(decode if variant.module == ours.DECODE else prefill, field) for field in variant.row)


def test_a_pattern_chooses_variants_and_what_they_are_compared_with() -> None:
    found = [(variant.group, variant.name) for variant in ablation.chosen("masks and x: *values|masks and x values")]
    assert found == [("as it is", "as it is"), ("order", "by tokens"), ("masks and x", "values")]


def test_a_copy_of_the_kernels_is_a_package_of_its_own(tmp_path: Path) -> None:
    text = (ours.FOLDER / "muh_dispatch.py").read_text(encoding="utf-8")
    texts = [f"{text}\nMARK = {mark}\n" for mark in (1, 2)]
    first, second = (ours.copied(tmp_path, {"muh_dispatch.py": each}) for each in texts)
    assert [kernels.module("muh_dispatch").MARK for kernels in (first, second)] == [1, 2]


def test_without_a_device_it_says_how_to_try_the_variants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert ablation.main([]) == ablation.main(["--device", "cpu"]) == 2
    assert "TRITON_INTERPRET" in capsys.readouterr().err


@pytest.mark.parametrize("program", [attention, ablation], ids=["attention", "ablation"])
def test_a_process_that_compiles_starts_no_others(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("it starts processes")

    monkeypatch.setattr(program, "compile_in_processes", refuse)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    compiled: list[str] = []
    cls = program.Bench if program is attention else program.Ablation
    monkeypatch.setattr(cls, "compile_share", lambda _, share: compiled.append(share))
    monkeypatch.setattr(program, "machine", lambda _: {})
    assert program.main(["--warm", "8", "--compile", "3/8"]) == 0
    assert compiled == ["3/8"]
    with pytest.raises(AssertionError, match="it starts processes"):
        program.main(["--warm", "8"])


def test_compiling_ends_in_time_and_never_from_within_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"import os, sys, time\nassert os.environ['{warm.CHILD}']\ntime.sleep(60 * ('0/2' in sys.argv))\n"
    )
    assert warm.compile_in_processes(str(program), ["--warm", "2"], 2, limit=3) == 1
    monkeypatch.setenv(warm.CHILD, "1")
    with pytest.raises(RuntimeError, match="starts no others"):
        warm.compile_in_processes(str(program), [], 2)
