"""Adapters."""
from typing import Callable

import torch

from vllm.triton_utils import HAS_TRITON

if HAS_TRITON:
    from vllm.lora.kernels import shrink


def lowered(x: torch.Tensor, then: Callable) -> torch.Tensor:
    return then(shrink(x))
