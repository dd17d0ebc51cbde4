"""Collectives: those of torch, under the vendor's names."""

from __future__ import annotations

from typing import Any

import torch

from . import _distributed

__all__ = ["_distributed", "all_reduce"]


def all_reduce(tensor: torch.Tensor, group: Any = None, async_op: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - the library's signature
    """Sum `tensor` over the ranks of `group` in place."""
    return torch.distributed.all_reduce(tensor, group=group, async_op=async_op)
