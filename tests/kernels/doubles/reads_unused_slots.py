# ruff: noqa: ANN401 - the arguments of vLLM, handed on by their places
"""A kernel that multiplies what unused slots hold by 0, which is not 0 for NaN."""

from typing import Any

from . import right


def context_attention_fwd(*args: Any) -> None:
    right.context_attention_fwd(*args)
    args[3].add_(args[6][args[7].long()].sum() * 0)


def paged_attention_v2(*args: Any) -> None:
    right.paged_attention_v2(*args)
    args[0].add_(args[6][args[9].long()].sum() * 0)
