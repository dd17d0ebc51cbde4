"""Operators, as far as the stage meets them."""
import ixformer.functions as ixf_F
import torch


def silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    ixf_F.silu_and_mul(x, out)


def copy_blocks(key_caches, value_caches,
                block_mapping: torch.Tensor) -> None:
    targets: dict = {}
    for source, target in block_mapping.tolist():
        targets.setdefault(source, []).append(target)
    ixf_F.vllm_copy_cache(key_caches, value_caches, targets)


def swap_blocks(src: torch.Tensor, dst: torch.Tensor,
                block_mapping: torch.Tensor) -> None:
    # From one cache to another.
    pairs = block_mapping.tolist()
    target_of = dict(pairs)
    if len(target_of) != len(pairs):
        raise ValueError("a block cannot be swapped to two places at once")
    ixf_F.vllm_swap_blocks(src, dst, target_of)
