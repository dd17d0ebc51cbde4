# ruff: noqa: ANN401 - the arguments of vLLM, handed on by their places
"""A kernel whose query heads take the KV heads in turn, and not by groups."""

from typing import Any

import torch

from . import right


def in_turn(query: Any, kv_heads: int) -> torch.Tensor:
    heads = query.shape[1]
    return torch.arange(heads, device=query.device).view(kv_heads, -1).t().reshape(-1)


def context_attention_fwd(*args: Any) -> None:
    order = in_turn(args[0], args[1].shape[1])
    turned = args[3].clone()
    right.context_attention_fwd(args[0][:, order.argsort()], *args[1:3], turned, *args[4:])
    args[3].copy_(turned[:, order])


def paged_attention_v2(*args: Any) -> None:
    order = in_turn(args[4], args[5].shape[1])
    turned = args[0].clone()
    right.paged_attention_v2(turned, *args[1:4], args[4][:, order.argsort()], *args[5:])
    args[0].copy_(turned[:, order])
