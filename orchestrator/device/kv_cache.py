"""Capacity of the paged KV cache on one rank: bytes of a block, number of blocks, tokens, sequences.

Source: `CacheEngine.get_cache_block_size`, `Worker.determine_num_available_blocks` and
`raise_if_cache_size_invalid` of vLLM 0.6.3. Capacity is what is left of `memory · utilisation` after the peak of
weights and activations.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accounting:
    """How the engine counts a block on one rank: layers, KV heads, head size, tokens a block, bytes an element."""

    layers: int
    kv_heads: int
    head_dim: int
    block_tokens: int
    element_bytes: int

    def __post_init__(self) -> None:
        if min(self.layers, self.kv_heads, self.head_dim, self.block_tokens, self.element_bytes) < 1:
            raise ValueError("layers, heads, head size, tokens of a block and bytes of an element are at least 1")

    @property
    def block_bytes(self) -> int:
        """Bytes of one block: keys and values of its tokens in every layer that is counted."""
        return 2 * self.block_tokens * self.kv_heads * self.head_dim * self.element_bytes * self.layers

    @property
    def token_bytes(self) -> int:
        """Bytes of one token."""
        return self.block_bytes // self.block_tokens


def kv_heads_of_rank(kv_heads: int, ranks: int) -> int:
    """Return the KV heads of one rank: an even share, at least one (`ModelConfig.get_num_kv_heads`)."""
    return max(1, kv_heads // ranks)


def cache_bytes(memory_bytes: float, utilisation: float, peak_bytes: float) -> int:
    """Return the bytes that are left for the cache: `memory · utilisation - peak`, 0 where nothing is."""
    return max(0, int(memory_bytes * utilisation - peak_bytes))


def blocks_in(left_bytes: float, block_bytes: int) -> int:
    """Return how many blocks fit: whole ones alone."""
    return max(0, int(left_bytes // block_bytes))


def tokens_in(blocks: int, block_tokens: int) -> int:
    """Return the tokens that all blocks hold: the longest context that the engine starts with."""
    return blocks * block_tokens


def sequences_in(blocks: int, block_tokens: int, context_tokens: int) -> int:
    """Return how many sequences of this context length the cache holds at a time, each in whole blocks.

    Raises:
        ValueError: if the context is below 1.
    """
    if context_tokens < 1:
        raise ValueError("a context has at least one token")
    return blocks // -(-context_tokens // block_tokens)
