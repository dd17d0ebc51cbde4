"""The answer that every attention kernel must give, computed the slow way, and the paged caches it is asked about."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
"""Relative and absolute: twice the rounding of an output of about 1."""

GARBAGE_PAGES = (2**30, -1)


@dataclass(frozen=True)
class Cached:
    """A paged cache, and the same keys and values as plain tensors `[tokens, kv_heads, head_size]`, one a sequence."""

    key_cache: torch.Tensor
    value_cache: torch.Tensor
    block_tables: torch.Tensor
    lengths: torch.Tensor
    keys: list[torch.Tensor]
    values: list[torch.Tensor]

    @property
    def block_size(self) -> int:
        return self.value_cache.shape[3]

    @property
    def kv_heads(self) -> int:
        return self.value_cache.shape[1]


def cached(  # noqa: PLR0913 - every one is a dimension of the problem
    lengths: Sequence[int],
    *,
    kv_heads: int = 2,
    head_size: int = 64,
    block_size: int = 16,
    dtype: torch.dtype = torch.float16,
    spare_columns: int = 2,
    seed: int = 0,
) -> Cached:
    """Return a cache in shuffled pages; unused slots hold NaN and infinities, unused table entries garbage."""
    random = torch.Generator().manual_seed(seed)
    pages_of = [-(-length // block_size) for length in lengths]
    num_blocks = sum(pages_of) + 3
    x = 16 // torch.empty(0, dtype=dtype).element_size()
    poison = torch.tensor([float("nan"), float("inf"), float("-inf")], dtype=dtype)
    flat = poison.repeat(-(-num_blocks * block_size * kv_heads * head_size // 3))
    slots = flat[: num_blocks * block_size * kv_heads * head_size]
    by_token = [slots.clone().view(num_blocks, block_size, kv_heads, head_size) for _ in range(2)]
    garbage = torch.tensor(GARBAGE_PAGES, dtype=torch.int32)
    width = max(pages_of, default=0) + spare_columns
    tables = garbage.repeat(-(-len(lengths) * width // 2) + 1)[: len(lengths) * width].view(len(lengths), width).clone()
    order = torch.randperm(num_blocks, generator=random)
    plain: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    taken = 0
    for row, length in enumerate(lengths):
        pages = order[taken : taken + pages_of[row]]
        taken += pages_of[row]
        tables[row, : pages_of[row]] = pages.to(torch.int32)
        positions = torch.arange(length)
        for cache, tensors in zip(by_token, plain, strict=True):
            tokens = torch.randn(length, kv_heads, head_size, generator=random).to(dtype)
            cache[pages[positions // block_size], positions % block_size] = tokens
            tensors.append(tokens)
    keys = by_token[0].view(num_blocks, block_size, kv_heads, head_size // x, x).permute(0, 2, 3, 1, 4).contiguous()
    values = by_token[1].permute(0, 2, 3, 1).contiguous()
    return Cached(keys, values, tables, torch.tensor(list(lengths), dtype=torch.int32), *plain)


def queries(tokens: int, heads: int, head_size: int, dtype: torch.dtype, seed: int = 1) -> torch.Tensor:
    """Return random queries `[tokens, heads, head_size]`."""
    return torch.randn(tokens, heads, head_size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def slopes_of(heads: int) -> torch.Tensor:
    """Return the slopes of the ALiBi paper, a geometric sequence."""
    return torch.tensor([2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)])


def attention(  # noqa: PLR0913 - the arguments of attention
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    slopes: torch.Tensor | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """Return float64 causal attention of `query` `[new, heads, head_size]`, the last of the `key` tokens."""
    new, heads, _ = query.shape
    tokens, kv_heads, _ = key.shape
    result = torch.zeros(query.shape, dtype=torch.float64)
    distance = torch.arange(tokens).unsqueeze(0) - torch.arange(tokens - new, tokens).unsqueeze(1)
    hidden = distance > 0
    if window:
        hidden |= distance <= -window
    for head in range(heads if tokens else 0):
        source = head // (heads // kv_heads)
        logits = query[:, head].double() @ key[:, source].double().T * scale
        if slopes is not None:
            logits += slopes[head].double() * distance
        weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
        result[:, head] = weights @ value[:, source].double()
    return result


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare with the tolerance of the actual type."""
    tolerance = TOLERANCE[actual.dtype]
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)
