"""Inputs that broke other people's kernels: every one of them is asked of every implementation.

The table below says where. `cpu` is PyTorch here, `interpreter` is Triton's, `gpu` needs a CUDA device; a cell that
names a file is tested there, and `-` says that the operation has no such input. On a CUDA device all cells of the first
three kinds are asked there too. The right answer is dense attention in float64 over the tokens that exist.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from tests.kernels import decode_cases, prefill_cases, prefill_triton_cases
from tests.kernels.implementations import Implementation

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COLUMNS = (("decode", "torch"), ("decode", "triton"), ("prefill", "torch"), ("prefill", "triton"))

# Where a cell is tested: one word for each of the columns above.
WHERE = {
    "stale NaN in unused slots of the last page": "cpu interpreter cpu interpreter",
    "an empty or fully masked partition": "cpu interpreter cpu interpreter",
    "a sliding window; tokens just outside it poisoned": "- - cpu interpreter",
    "a page whose offset overflows 32 bits": "cpu interpreter cpu interpreter",
    "the last table row ends the allocation": "cpu interpreter cpu interpreter",
    "garbage in the table beyond the length": "cpu interpreter cpu interpreter",
    "rows of length 0, or without new tokens": "cpu interpreter cpu interpreter",
    "head sizes that are no power of two": "cpu interpreter cpu interpreter",
    "groups of any size, the next rows untouched": "cpu interpreter cpu interpreter",
    "pages of any size": "cpu interpreter cpu interpreter",
    "a float32 cache, whose x is 4": "cpu interpreter cpu interpreter",
    "bfloat16, and every other type": "cpu gpu cpu gpu",
    "a quantised cache is refused before any launch": "cpu interpreter cpu interpreter",
    "ALiBi counts from the query": "cpu interpreter cpu interpreter",
    "more than 1,024 partitions": "cpu interpreter - -",
    "a maximum far above the lengths": "cpu interpreter cpu interpreter",
    "that maximum captured in a graph": "- gpu - gpu",
    "a compile probe that kills its process": "- test_trial.py - test_trial.py",
    "a row of the table that does not fit": "- test_muh_dispatch.py - test_muh_dispatch.py",
    "every row of the table compiled": "- test_triton_compile.py - test_triton_compile.py",
    "context 0 beside others, its table never read": "- - cpu interpreter",
    "a table narrower than the tokens": "cpu interpreter cpu interpreter",
    "long sums in half precision": "cpu interpreter cpu interpreter",
    "any shape (hypothesis)": "test_decode.py triton_decode_cases.py test_prefix.py interpreter",
}

# Which cases these are, of decode and of prefill.
CASES = {
    "stale NaN in unused slots of the last page": ("stale values in the last page do not reach the output",) * 2,
    "an empty or fully masked partition": (
        "a partition without tokens changes nothing",
        "any number of new tokens sees its context and its past",
    ),
    "a sliding window; tokens just outside it poisoned": (
        "",
        "windows hide what is too far; tokens outside every window are not read; a window of zero is no window",
    ),
    "a page whose offset overflows 32 bits": ("pages whose offset passes two to the 31 are read",) * 2,
    "the last table row ends the allocation": ("the last table row may end its allocation",) * 2,
    "garbage in the table beyond the length": (
        "table entries beyond the length may be anything",
        "table entries beyond the context may be anything",
    ),
    "rows of length 0, or without new tokens": (
        "padding rows are zero and leave the others exact",
        "sequences without new tokens are left alone",
    ),
    "head sizes that are no power of two": ("every head size is served",) * 2,
    "groups of any size, the next rows untouched": ("every group is served and its neighbours rows stay",) * 2,
    "pages of any size": ("every page size is served",) * 2,
    "a float32 cache, whose x is 4": ("a cache of float32 has pages of four",) * 2,
    "bfloat16, and every other type": ("every type is served",) * 2,
    "a quantised cache is refused before any launch": ("quantised caches are refused before any launch",) * 2,
    "ALiBi counts from the query": ("alibi counts from the last token", "alibi counts from the query"),
    "more than 1,024 partitions": ("more than 1024 partitions are joined", ""),
    "a maximum far above the lengths": (
        "a maximum that is only a bound changes nothing",
        "an input bound above the real lengths changes nothing",
    ),
    "that maximum captured in a graph": ("a captured graph follows the lengths",) * 2,
    "context 0 beside others, its table never read": (
        "",
        "sequences without context stand beside others; a sequence without context never reads its table",
    ),
    "a table narrower than the tokens": (
        "a table narrower than the maximum bounds it",
        "a table narrower than its context is refused or gives nan",
    ),
    "long sums in half precision": (
        "long half precision sums are right to a thousandth",
        "a long context is right to a thousandth",
    ),
    "any shape (hypothesis)": ("", "any shape and tile give the dense answer"),
}

ALL = {
    "decode": {**decode_cases.CASES, **decode_cases.OF_TRITON},
    "prefill": {**prefill_cases.CASES, **prefill_triton_cases.CASES},
}
KINDS = {"cpu", "interpreter", "gpu", "-"}


class Cell(NamedTuple):
    """One cell of the table."""

    what: str
    operation: str
    language: str
    where: str

    @property
    def names(self) -> list[str]:
        """The sentences of its cases."""
        sentences = CASES.get(self.what, ("", ""))[self.operation == "prefill"]
        return [name for name in sentences.split("; ") if name]


CELLS = [
    Cell(what, operation, language, where)
    for what, row in WHERE.items()
    for (operation, language), where in zip(COLUMNS, row.split(), strict=True)
]


def parameters(wanted: set[str]) -> list[object]:
    """Return the cases of the cells of some kinds."""
    return [
        pytest.param(cell, name, id=f"{cell.operation} {cell.language}: {name}")
        for cell in CELLS
        if cell.where in wanted
        for name in cell.names
    ]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.operation} {cell.language}: {cell.what}")
def test_no_cell_of_the_table_is_without_a_test(cell: Cell) -> None:
    if cell.where in KINDS - {"-"}:
        assert cell.names
        assert set(cell.names) <= set(ALL[cell.operation])
    elif cell.where != "-":
        assert (HERE / cell.where).exists()


@pytest.mark.parametrize("operation", ["decode", "prefill"])
def test_no_case_is_without_a_cell(operation: str) -> None:
    module = {"decode": decode_cases, "prefill": prefill_cases}[operation]
    named = {name for cell in CELLS if cell.operation == operation for name in cell.names}
    assert set(module.CASES) <= named


@pytest.mark.parametrize(("cell", "name"), parameters({"cpu"}))
def test_pytorch_gives_the_dense_answer(cell: Cell, name: str) -> None:
    case = ALL[cell.operation][name]
    for implementation in ("torch", "tiled torch") if cell.operation == "decode" else ("torch",):
        case(Implementation(implementation, "cpu"))


@lru_cache(maxsize=1)
def failures() -> dict[tuple[str, str], str | None]:
    """Run every case with the interpreter, one process for each operation; return each one's failure."""
    with ThreadPoolExecutor(len(ALL)) as pool:
        return {case: failure for found in pool.map(interpreted, ALL) for case, failure in found.items()}


def interpreted(operation: str) -> dict[tuple[str, str], str | None]:
    """Run every case of an operation with the interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "TRITON_DEFAULT_FP_FUSION": "1"}
    environment["VLLM_MUH_DEVICE"] = "h200"  # its rows read whole pages, what others have is read as well
    names = [name for this, name in IN_THE_INTERPRETER if this == operation]
    command = [sys.executable, "-m", "tests.kernels.interpreted", operation, *names]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(operation, row["case"]): row["failure"] for row in found}


IN_THE_INTERPRETER = [
    (operation, name)
    for operation, cases in ALL.items()
    for name in cases
    if not any((cell.operation, cell.where) == (operation, "gpu") and name in cell.names for cell in CELLS)
]


@pytest.mark.triton
@pytest.mark.parametrize(("operation", "name"), IN_THE_INTERPRETER, ids=map(": ".join, IN_THE_INTERPRETER))
def test_triton_gives_the_dense_answer_in_its_interpreter(operation: str, name: str) -> None:
    pytest.importorskip("triton")
    failure = failures()[operation, name]
    assert failure is None, failure


@pytest.mark.gpu
@pytest.mark.parametrize(("cell", "name"), parameters({"cpu", "interpreter", "gpu"}))
def test_it_gives_the_dense_answer_on_a_cuda_device(cell: Cell, name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    case = ALL[cell.operation][name]
    both = (cell.operation, cell.language) == ("decode", "torch")
    for implementation in ("torch", "tiled torch") if both else (cell.language,):
        case(Implementation(implementation, "cuda"))
