# ruff: noqa: ANN401 - the arguments of vLLM, handed on by their places
"""A kernel whose numbers are a little wrong everywhere."""

from typing import Any

from . import right


def context_attention_fwd(*args: Any) -> None:
    right.context_attention_fwd(*args)
    args[3].mul_(1.05)


def paged_attention_v2(*args: Any) -> None:
    right.paged_attention_v2(*args)
    args[0].mul_(1.05)
