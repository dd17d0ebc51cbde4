# ruff: noqa: ANN401 - the arguments of vLLM, handed on by their places
"""A kernel that meets a full device."""

from typing import Any


class OutOfMemoryError(RuntimeError):
    """As torch's own."""


def context_attention_fwd(*_args: Any) -> None:
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


paged_attention_v2 = context_attention_fwd
