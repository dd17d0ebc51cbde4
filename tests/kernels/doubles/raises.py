# ruff: noqa: ANN401 - the arguments of vLLM, handed on by their places
"""A kernel that does not compile."""

from typing import Any


class CompilationError(Exception):
    """As Triton's own: its text has several lines."""


def context_attention_fwd(*_args: Any) -> None:
    raise CompilationError("at 3:8: tl.dot\n\n    a long excerpt of the source")


paged_attention_v2 = context_attention_fwd
