# mypy: disable-error-code="import-not-found, untyped-decorator, no-untyped-def"
# ruff: noqa: ANN001, ANN401, D - Triton reads the source; the arguments of vLLM, handed on by their places
"""A kernel that does not end on the device, where no signal reaches it; after some minutes it does, in case."""

from typing import Any

import torch
import triton
import triton.language as tl

from . import right  # noqa: F401 - it notes the run

MOST = 1 << 28


@triton.jit
def _spin(flag, most) -> None:
    turns = tl.load(flag + 1)
    stop = tl.load(flag, volatile=True)
    while (stop == 0) & (turns < most):
        stop = tl.load(flag, volatile=True)
        turns += 1
    tl.store(flag + 1, turns)


def context_attention_fwd(*args: Any) -> None:
    _spin[(1,)](torch.zeros(2, dtype=torch.int64, device=args[0].device), MOST)


paged_attention_v2 = context_attention_fwd
