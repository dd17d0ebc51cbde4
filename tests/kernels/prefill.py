"""A prefill step, and the dense answer to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tests.kernels.dense import Cached, attention, cached, queries


@dataclass(frozen=True)
class Prefill:
    """One prefill step; `cached` holds the context alone."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    cached: Cached
    seq_lens: torch.Tensor
    new: tuple[int, ...]
    window: int | None = None
    slopes: torch.Tensor | None = None
    kv_cache_dtype: str = "auto"
    max_input_len: int | None = None

    @property
    def starts(self) -> torch.Tensor:
        return torch.tensor([0, *self.new], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def prefill(  # noqa: PLR0913 - every one is a dimension of the problem
    contexts: Sequence[int],
    new: Sequence[int],
    *,
    group: int = 2,
    kv_heads: int = 2,
    head_size: int = 64,
    block_size: int = 16,
    dtype: torch.dtype = torch.float16,
    spare_columns: int = 0,
    seed: int = 0,
) -> Prefill:
    """Return a step; without spare columns the last table row ends its allocation."""
    pages = cached(
        contexts,
        kv_heads=kv_heads,
        head_size=head_size,
        block_size=block_size,
        dtype=dtype,
        spare_columns=spare_columns,
        seed=seed,
    )
    query = queries(sum(new), kv_heads * group, head_size, dtype, seed + 1)
    key, value = (queries(sum(new), kv_heads, head_size, dtype, seed + offset) for offset in (2, 3))
    lengths = pages.lengths + torch.tensor(new, dtype=torch.int32)
    return Prefill(query, key, value, pages, lengths, tuple(new))


def expected(step: Prefill) -> torch.Tensor:
    """Return the dense answer, float64."""
    rows = []
    starts = step.starts.tolist()
    for index, (keys, values) in enumerate(zip(step.cached.keys, step.cached.values, strict=True)):
        new = slice(starts[index], starts[index + 1])
        rows.append(
            attention(
                step.query[new],
                torch.cat((keys, step.key[new])),
                torch.cat((values, step.value[new])),
                scale=step.query.shape[-1] ** -0.5,
                slopes=step.slopes,
                window=step.window,
            )
        )
    return torch.cat(rows)
