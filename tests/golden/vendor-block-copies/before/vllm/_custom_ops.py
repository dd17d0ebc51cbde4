"""Operators, as far as the stage meets them."""
import ixformer.functions as ixf_F
import torch


def silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    ixf_F.silu_and_mul(x, out)


def copy_blocks(key_caches, value_caches,
                block_mapping: torch.Tensor) -> None:
    ixf_F.copy_blocks(key_caches, value_caches, block_mapping)


def swap_blocks(src: torch.Tensor, dst: torch.Tensor,
                block_mapping: torch.Tensor) -> None:
    # From one cache to another.
    ixf_F.swap_blocks(src, dst, block_mapping)
