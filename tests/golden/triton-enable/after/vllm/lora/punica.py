"""Adapters."""
from typing import Callable

import torch

HAS_TRITON = False

if HAS_TRITON:
    from vllm.lora.kernels import shrink


def lowered(x: torch.Tensor, then: Callable) -> torch.Tensor:
    return then(shrink(x))
