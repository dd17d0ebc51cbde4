"""Every configuration row compiled for its targets, and proof that the gate sees the faults that it is there for."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kernels import muh_dispatch
from tests.kernels import compile_gate
from tests.kernels.compile_gate import NEW, OLD, Case, Made, Pythons

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.triton

Judged = tuple[Case, Made, list[str]]


@pytest.fixture(scope="module")
def interpreters() -> Pythons:
    pytest.importorskip("triton")
    try:
        return compile_gate.pythons()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def judged(interpreters: Pythons) -> list[Judged]:
    return compile_gate.judged(compile_gate.cases(), interpreters)


def test_every_row_fits_spills_nothing_unsaid_and_reads_keys_and_values_in_wide_loads(
    judged: list[Judged], capsys: pytest.CaptureFixture[str]
) -> None:
    if os.environ.get("CI") == "true":
        with capsys.disabled():
            print("\n" + compile_gate.table(judged))  # noqa: T201 - the log of a CI run keeps it
    wrong = [one for one in judged if one[2]]
    assert not wrong, "\n" + compile_gate.table(wrong)


def test_every_row_of_both_tables_is_compiled_for_each_of_its_targets(judged: list[Judged]) -> None:
    seen = {(case.row.key, case.triton, case.job.capability) for case, made, _ in judged if made.registers}
    rows: list[muh_dispatch.Config] = [*muh_dispatch.DECODE.values(), *muh_dispatch.PREFILL.values()]
    for row in rows:
        for triton, capability in compile_gate.TARGETS[row.device]:
            if (row.dtype, capability) != ("bfloat16", 75):
                assert (row.key, triton, capability) in seen, row.label


def test_the_bi100s_rows_spill_nothing_in_half_precision_and_have_its_threads() -> None:
    for case in compile_gate.cases():
        if case.row.device == "bi100":
            warps = case.row.merge_warps if case.variant == "second launch" else case.row.num_warps
            assert case.job.num_warps * 32 == warps * 64
            assert case.row.spilled == 0 or case.row.dtype == "float32"


# Each is a cause by itself of loads of one element, or of buffers that do not fit: KERNELS' causes, put back.
DECODE_MUTANTS = {
    "a mask on the load of the block table": {
        "page = tl.load(table + (following + token) // PAGE)": (
            "page = tl.load(table + (following + token) // PAGE, mask=following + token < end, other=0)"
        )
    },
    "a mask along the slots of the values": {
        "        v = _value_load(values, dim, D, D_TILE)\n        keys = ": (
            "        v = tl.load(values, mask=(n < end)[:, None], other=0.0)\n        keys = "
        )
    },
    "an innermost extent that is no constant": {
        "    X: tl.constexpr,\n    GROUP": "    X,\n    GROUP",
        "    X: tl.constexpr,\n    BLOCK_M: tl.constexpr,\n    BLOCK_N: tl.constexpr,\n    KEY_DIMS": (
            "    X,\n    BLOCK_M: tl.constexpr,\n    BLOCK_N: tl.constexpr,\n    KEY_DIMS"
        ),
    },
}
PREFILL_MUTANTS = {
    "a mask on the load of the block table": {
        "page = tl.load(pages_ptr + ahead // PAGE)\n": (
            "page = tl.load(pages_ptr + ahead // PAGE, mask=ahead < readable, other=0)\n"
        )
    },
    "a mask along the slots of the values": {
        "        values = _load(v_slots[:, None] + v_dims, dims[None, :], HEAD, HEAD_PADDED > HEAD)\n": (
            "        values = tl.load(v_slots[:, None] + v_dims, mask=(key < readable)[:, None], other=0.0)\n"
        )
    },
    "an innermost extent that is no constant": {"    X: tl.constexpr,\n    HAS_WINDOW": "    X,\n    HAS_WINDOW"},
}
MUTANTS = [
    pytest.param(file, operation, edits, id=f"{operation}: {name}")
    for file, operation, mutants in (
        ("paged_attention_v2_triton.py", "paged_decode_v2", DECODE_MUTANTS),
        ("prefix_prefill.py", "prefix_prefill", PREFILL_MUTANTS),
    )
    for name, edits in mutants.items()
]


def tight(operation: str) -> list[Case]:
    """Return the BI-V100's case with the largest tiles, once for each Triton."""
    return [
        case
        for case in compile_gate.cases()
        if (case.row.device, case.row.operation, case.row.dtype) == ("bi100", operation, "float16")
        and (case.row.head_size, case.job.capability, case.variant) == (128, 80, "")
        and case.row.block_m != 32  # of decode's two tiles of queries one will do
    ]


def mutated(folder: Path, file: str, edits: Mapping[str, str]) -> None:
    """Put a copy of the kernels into a folder, with edits that each fit exactly one place."""
    shutil.copytree(compile_gate.ROOT / "kernels", folder / "kernels")
    path = folder / "kernels" / file
    text = path.read_text(encoding="utf-8")
    for before, after in edits.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("file", "operation", "edits"), MUTANTS)
def test_a_cause_of_narrow_loads_that_comes_back_is_seen(
    file: str, operation: str, edits: Mapping[str, str], interpreters: Pythons, tmp_path: Path
) -> None:
    mutated(tmp_path, file, edits)
    wanted = tight(operation)
    assert [case.triton for case in wanted] == [OLD, NEW]
    for case, made, wrong in compile_gate.judged(wanted, interpreters, tmp_path):
        assert any("loads" in fault for fault in wrong), (case.triton, made, wrong)


def test_a_choice_between_values_and_zeros_is_seen(interpreters: Pythons, tmp_path: Path) -> None:
    """Triton 2.3.1 fails on such an operand of a product without a pipeline, and gives it a buffer with one."""
    mutated(
        tmp_path,
        "paged_attention_v2_triton.py",
        {
            "        v = _value_load(values, dim, D, D_TILE)\n        s = _scores(": (
                "        v = tl.where((full_end + token < end)[:, None], _value_load(values, dim, D, D_TILE), 0.0)\n"
                "        s = _scores("
            )
        },
    )
    wanted = [
        case
        for case in compile_gate.cases()
        if (case.row.device, case.row.operation, case.row.dtype) == ("bi100", "paged_decode_v2", "float16")
        and (case.row.head_size, case.row.block_m, case.variant) == (128, 16, "")
        and case.triton == OLD
    ]
    assert {case.job.capability for case in wanted} == {75, 80}
    assert any(wrong for _, _, wrong in compile_gate.judged(wanted, interpreters, tmp_path))


def test_a_compiler_that_dies_is_a_fault_of_its_case_and_of_no_other(interpreters: Pythons, tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(compile_gate.ROOT / "kernels", kernels)
    path = kernels / "muh_dispatch.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n\n_padded = padded\n\n\ndef padded(head_size):\n"
                    "    if head_size == 80:\n        import os\n        os.abort()\n    return _padded(head_size)\n",
                    encoding="utf-8")  # fmt: skip
    wanted = [case for case in compile_gate.cases() if case.row.operation == "paged_decode_v2" and case.triton == OLD]
    around = [case for case in wanted if case.row.head_size == 128 and case.variant in {"slopes", "head size 80"}]
    found = compile_gate.judged(around, interpreters, tmp_path)
    assert {(case.variant, bool(made.death)) for case, made, _ in found} == {("slopes", False), ("head size 80", True)}
    assert all("the compiler died: exit status -6" in wrong[0] for _, made, wrong in found if made.death)


def test_what_is_judged_wrong_is_said(interpreters: Pythons) -> None:
    case = tight("prefix_prefill")[0]
    row = case.row
    assert compile_gate.faults(case, Made(shared=50_000, spilled=4)) == [
        "50000 B of shared memory, bi100 has 49152",
        f"50000 B of shared memory, the table's model says {row.shared_bytes}",
        "4 B spilled, the row accepts 0",
        "0 loops with products were found, not 4",
    ]
    assert interpreters[OLD] != interpreters[NEW]
