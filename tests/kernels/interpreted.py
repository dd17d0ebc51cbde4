"""Runs cases with Triton in its interpreter, in a process of its own: `python -m tests.kernels.interpreted`.

The environment has to choose the interpreter before Triton is imported (`TRITON_INTERPRET=1`). `decode` or `prefill`
says of what, the other words are the names of cases. Prints one JSON object a line: the case's name, and its failure or
null.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from typing import TYPE_CHECKING

import torch

from tests.kernels import decode_cases, prefill_cases, prefill_triton_cases
from tests.kernels.implementations import Case, Implementation

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = {
    "decode": {**decode_cases.CASES, **decode_cases.OF_TRITON},
    "prefill": {**prefill_cases.CASES, **prefill_triton_cases.CASES},
}


def failure(case: Case) -> str | None:
    """Run one case; return its failure."""
    try:
        case(Implementation("triton", "cpu"))
    except Exception:  # noqa: BLE001 - it is reported by name
        return traceback.format_exc()[-3000:]
    return None


def main(operation: str, wanted: Sequence[str]) -> None:
    """Run the wanted cases of an operation."""
    warnings.filterwarnings("error")
    # The interpreter multiplies with numpy, which remarks on NaN in keys that are masked afterwards.
    warnings.filterwarnings("ignore", "invalid value encountered in matmul", RuntimeWarning)
    torch.set_num_threads(1)
    for name in wanted:
        sys.stdout.write(json.dumps({"case": name, "failure": failure(CASES[operation][name])}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
