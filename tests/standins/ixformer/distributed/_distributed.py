"""The vendor's compiled collectives."""

from __future__ import annotations

from typing import Any

import torch


def broadcast(tensor: torch.Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - the library's signature
    """Send `tensor` of rank `src` to the ranks of `group`."""
    return torch.distributed.broadcast(tensor, src=src, group=group, async_op=async_op)
