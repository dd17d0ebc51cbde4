"""Shared memory of one block of the flash-attention prefill kernel: pure arithmetic.

Source: KERNELS.md §1.4, compiled for fp16 by Triton 2.3.1 and 3.6 and read off the result. The rule of thumb
`BLOCK_N · D · 2 B · 2` is not even an upper bound.
"""

from __future__ import annotations

LAUNCH_STAGES = 3  # what Triton takes where a launch passes no `num_stages` (KERNELS.md §1.4)
SMALLEST_TILE = 16  # `tl.dot` takes no side below this (KERNELS.md §2)


def flash_attention_tile_bytes(
    block_m: int, block_n: int, head_dim_padded: int, element_bytes: int, num_stages: int
) -> int:
    """Return the bytes of shared memory that one block of the kernel takes.

    `Q: BM·D·e  +  P: BM·BN·e  +  (num_stages = 1 ? BN·D·e : 2·(num_stages - 1)·BN·D·e)` with `e` the bytes of one
    element. `P` counts where its layout must change between the two products, which it must in these kernels.

    Args:
        block_m: query rows of a tile.
        block_n: keys of a tile.
        head_dim_padded: head size, padded to a power of two.
        element_bytes: bytes of one element of Q, K and V.
        num_stages: pipeline stages of the launch.

    Raises:
        ValueError: if any of them is below 1.
    """
    if min(block_m, block_n, head_dim_padded, element_bytes, num_stages) < 1:
        raise ValueError("tile, head size, element size and stages are at least 1")
    key_tile = block_n * head_dim_padded * element_bytes
    buffers = 1 if num_stages == 1 else 2 * (num_stages - 1)
    return block_m * head_dim_padded * element_bytes + block_m * block_n * element_bytes + buffers * key_tile


def padded(head_dim: int) -> int:
    """Return the next power of two: what a kernel pads its head size to."""
    return 1 << max(0, head_dim - 1).bit_length()


def largest_tile(head_dim: int, element_bytes: int, num_stages: int, limit: int) -> int | None:
    """Return the largest square power-of-two tile whose bytes are at most `limit`, None if even the smallest is not."""
    width = padded(head_dim)
    best, tile = None, SMALLEST_TILE
    while flash_attention_tile_bytes(tile, tile, width, element_bytes, num_stages) <= limit:
        best, tile = tile, tile * 2
    return best
