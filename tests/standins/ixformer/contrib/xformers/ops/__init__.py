"""Memory-efficient attention as a plain reference."""

from __future__ import annotations

from typing import Any

import torch

from . import fmha

__all__ = ["fmha", "memory_efficient_attention_forward"]

WIDEST_HEAD = 128  # beyond it the device's kernel fails or is silently wrong


def memory_efficient_attention_forward(  # noqa: PLR0913, PLR0917 - the library's signature
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: Any = None,  # noqa: ANN401 - a bias of this library or of xformers
    p: float = 0.0,
    scale: float | None = None,
    op: object = None,  # noqa: ARG001 - the only kernel there is
) -> torch.Tensor:
    """Return the attention (1, T, H, D) of `query` (1, T, H, D) over `key` and `value` (1, T, K, D), K divides H.

    Raises `RuntimeError` for heads wider than `WIDEST_HEAD`, which the device does not compute, and for dropout.
    """
    width = query.shape[-1]
    if width > WIDEST_HEAD:
        raise RuntimeError(f"head size {width}: the kernel takes at most {WIDEST_HEAD}")
    if p:
        raise RuntimeError("no dropout in inference")
    group = query.shape[2] // key.shape[2]
    keys, values = key.repeat_interleave(group, dim=2).float(), value.repeat_interleave(group, dim=2).float()
    scores = torch.einsum("bqhd,bkhd->bhqk", query.float(), keys) * (width**-0.5 if scale is None else scale)
    if attn_bias is not None:
        scores = scores + attn_bias.materialize(tuple(scores.shape), dtype=torch.float32, device=scores.device)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(dim=-1), values).to(query.dtype)
