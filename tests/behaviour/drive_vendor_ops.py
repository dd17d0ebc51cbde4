"""Drives `vllm._custom_ops`: the operators whose names the vendor's library has, and those it has not."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "gelu_tanh_and_mul": (torch.zeros(1, 2), torch.zeros(1, 4)),
    "cutlass_scaled_mm": (torch.zeros(16, 16), torch.zeros(16, 16), None, None, torch.float16),
    "static_scaled_int8_quant": (torch.zeros(1, 2), torch.ones(1)),
    "dynamic_scaled_int8_quant": (torch.zeros(1, 2),),
}
"""Where the operator looks at its arguments before it calls the library; elsewhere anything will do."""

SYMBOLS = {
    "gelu_tanh_and_mul": "gelu_tanh_and_mul",
    "batched_rotary_embedding": "vllm_batched_rotary_embedding",
    "advance_step_flashattn": "advance_step_flashattn",
    "cutlass_scaled_mm": "w8a8",
    "static_scaled_int8_quant": "static_scaled_int8_quant",
    "dynamic_scaled_int8_quant": "dynamic_scaled_int8_quant",
    "moe_align_block_size": "vllm_moe_align_block_size",
    "invoke_fused_moe_kernel": "vllm_invoke_fused_moe_kernel",
    "topk_softmax": "vllm_moe_topk_softmax",
    "reshape_and_cache_flash": "reshape_and_cache_flash",
    "reshape_and_cache_flashinfer": "paged_attention_cache_appended",
}
"""Operator of vLLM → the name of `ixformer.functions` that it calls and the image has not."""


def caches(layers: int, blocks: int, first: int) -> list[torch.Tensor]:
    """Return caches `[2, blocks, 4]` whose every block holds another number."""
    return [torch.arange(2 * blocks).view(2, blocks, 1).repeat(1, 1, 4) + first + 100 * n for n in range(layers)]


def copied(pairs: list[list[int]]) -> list[Any]:
    """Return each layer's caches after copying blocks, as the cache engine asks for it."""
    backend: Any = importlib.import_module("vllm.attention.backends.xformers").XFormersBackend
    held = caches(2, 6, 0)
    backend.copy_blocks(held, torch.tensor(pairs, dtype=torch.int64).view(-1, 2))
    return [cache[:, :, 0].tolist() for cache in held]


def swapped(pairs: list[list[int]]) -> list[Any]:
    """Return source and target cache after swapping blocks out, as the cache engine asks for it."""
    backend: Any = importlib.import_module("vllm.attention.backends.xformers").XFormersBackend
    source, target = caches(1, 6, 0)[0], caches(1, 6, 1000)[0]
    backend.swap_blocks(source, target, torch.tensor(pairs, dtype=torch.int64).view(-1, 2))
    return [source[:, :, 0].tolist(), target[:, :, 0].tolist()]


def called(operator: str) -> str:
    """Call an operator of vLLM."""
    ops: Any = importlib.import_module("vllm._custom_ops")
    function = getattr(ops, "scaled_int8_quant" if operator.endswith("scaled_int8_quant") else operator)
    wanted = len(inspect.signature(function).parameters)  # the fork's and the replica's differ
    function(*ARGUMENTS.get(operator, ({"BLOCK_SIZE_M": 16},) * wanted))
    return "computed"


def served() -> list[float]:
    """Return what an operator computes whose name appears in the library later."""
    ops: Any = importlib.import_module("vllm._custom_ops")
    library: Any = importlib.import_module("ixformer.functions")
    library.gelu_tanh_and_mul = lambda x, out: out.copy_(x[:, :2] + 1)
    try:
        out = torch.zeros(1, 2)
        ops.gelu_tanh_and_mul(out, torch.ones(1, 4))
    finally:
        del library.gelu_tanh_and_mul
    found: list[float] = out[0].tolist()
    return found


DRIVES: dict[str, Callable[[], Any]] = {
    "copied": lambda: copied([[0, 3], [1, 4], [0, 5]]),
    "copied nothing": lambda: copied([]),
    "swapped": lambda: swapped([[0, 3], [4, 1]]),
    "swapped twice": lambda: swapped([[0, 3], [0, 1]]),
    **{f"call of {operator}": lambda operator=operator: called(operator) for operator in SYMBOLS},  # type: ignore[misc]  # bound early
    "served later": served,
}
