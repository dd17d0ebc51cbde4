"""Random paged keys and values, in vLLM 0.6's layout and in the one that others read, and the float64 answer.

A *set* is one copy of the working data of its own: calls rotate over sets that together exceed the L2 several times, so
that none finds its data there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from benchmarks.paged.cells import PAGE, Cell, Decode, Heads

if TYPE_CHECKING:
    from collections.abc import Sequence

X = 8
"""Elements of 16 bytes in half precision: the innermost extent of the keys' layout."""

MOST_SETS = 64
FEWEST_SETS = 2
L2_MULTIPLE = 4
CHECKED_ROWS = 16
"""Rows of a full-size output that are compared with float64."""

Pair = tuple[torch.Tensor, torch.Tensor]


def sets_for(cell_bytes: int, l2_bytes: int, most: int = MOST_SETS) -> int:
    """Return how many sets exceed the L2 by `L2_MULTIPLE`."""
    return max(FEWEST_SETS, min(most, -(-L2_MULTIPLE * l2_bytes // max(1, cell_bytes))))


@dataclass
class Paged:
    """Caches of a batch: `lengths` cached tokens in shuffled pages, the same table for every set.

    `caches` holds for each set the keys `[pages, kv, size / X, PAGE, X]` and the values `[pages, kv, size, PAGE]`.
    With `poison`, the unused slots of each sequence's last page are NaN.
    """

    heads: Heads
    lengths: Sequence[int]
    device: str
    sets: int = 1
    poison: bool = False
    dtype: torch.dtype = torch.float16
    table: torch.Tensor = field(init=False)
    caches: list[Pair] = field(init=False)

    def __post_init__(self) -> None:
        self.width = max(1, -(-max(self.lengths) // PAGE))
        pages = self.width * len(self.lengths)
        order = torch.randperm(pages, device=self.device)
        self.table = order.view(len(self.lengths), self.width).to(torch.int32)
        kv, size = self.heads.kv, self.heads.size
        shapes = ((pages, kv, size // X, PAGE, X), (pages, kv, size, PAGE))
        self.caches = [self._random(shapes) for _ in range(self.sets)]

    def _random(self, shapes: Sequence[tuple[int, ...]]) -> Pair:
        key, value = (torch.randn(shape, dtype=self.dtype, device=self.device) for shape in shapes)
        if self.poison:
            for row, length in enumerate(self.lengths):
                if length % PAGE:
                    last = int(self.table[row, length // PAGE])
                    key[last, :, :, length % PAGE :] = float("nan")
                    value[last, :, :, length % PAGE :] = float("nan")
        return key, value

    @cached_property
    def lens(self) -> torch.Tensor:
        """The lengths as vLLM passes them."""
        return torch.tensor(list(self.lengths), dtype=torch.int32, device=self.device)

    @cached_property
    def by_token(self) -> list[Pair]:
        """For each set, keys and values as `[pages, PAGE, kv, size]`."""
        return [
            (k.permute(0, 3, 1, 2, 4).flatten(3).contiguous(), v.permute(0, 3, 1, 2).contiguous())
            for k, v in self.caches
        ]

    def dense(self, index: int, row: int) -> Pair:
        """Return the keys and the values of one sequence of one set, `[kv, tokens, size]`."""
        pages = self.table[row].long()
        key, value = self.caches[index]
        k = key[pages].permute(1, 0, 3, 2, 4).flatten(3).flatten(1, 2)
        v = value[pages].permute(1, 0, 3, 2).flatten(1, 2)
        length = self.lengths[row]
        return k[:, :length], v[:, :length]


@dataclass
class Step:
    """A decode step: one query a sequence, `[batch, heads, size]`."""

    paged: Paged
    bound: int
    query: torch.Tensor

    @property
    def scale(self) -> float:
        """Factor of `q·k`."""
        return float(self.paged.heads.size**-0.5)

    @classmethod
    def of(cls, paged: Paged, bound: int = 0) -> Step:
        """Return a step over these caches; `bound` is the longest length that the call is told of."""
        shape = (len(paged.lengths), paged.heads.query, paged.heads.size)
        return cls(paged, bound or max(paged.lengths), torch.randn(shape, dtype=paged.dtype, device=paged.device))

    def dense_of(self, index: int, row: int) -> Pair:
        """Return keys and values of one sequence, `[kv, tokens, size]`."""
        return self.paged.dense(index, row)

    @cached_property
    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows that are compared and their outputs on set 0, in float64."""
        rows = spread(len(self.paged.lengths), CHECKED_ROWS)
        heads = self.paged.heads
        outputs = []
        for row in rows.tolist():
            k, v = (part.double() for part in self.paged.dense(0, row))
            query = self.query[row].double().view(heads.kv, heads.group, heads.size)
            weights = torch.softmax(query @ k.transpose(1, 2) * self.scale, -1)
            outputs.append((weights @ v).view(heads.query, heads.size))
        return rows, torch.stack(outputs)


@dataclass
class Chunk:
    """New tokens behind a cached context: queries `[tokens, heads, size]`, keys and values of the new ones per set."""

    paged: Paged
    new: Sequence[int]
    query: torch.Tensor
    pairs: list[Pair]

    @classmethod
    def of(cls, paged: Paged, new: Sequence[int]) -> Chunk:
        """Return a chunk of `new` tokens a sequence."""
        heads = paged.heads

        def random(count: int) -> torch.Tensor:
            return torch.randn(sum(new), count, heads.size, dtype=paged.dtype, device=paged.device)

        return cls(paged, new, random(heads.query), [(random(heads.kv), random(heads.kv)) for _ in range(paged.sets)])

    @property
    def starts(self) -> list[int]:
        """Where each sequence's new tokens begin, and their number."""
        return [sum(self.new[:row]) for row in range(len(self.new) + 1)]

    @cached_property
    def start_loc(self) -> torch.Tensor:
        """The same as vLLM passes it."""
        return torch.tensor(self.starts, dtype=torch.int32, device=self.paged.device)

    @cached_property
    def totals(self) -> torch.Tensor:
        """Context and new tokens of each sequence."""
        return self.paged.lens + torch.tensor(list(self.new), dtype=torch.int32, device=self.paged.device)

    def dense_of(self, index: int, row: int) -> Pair:
        """Return keys and values of one sequence, context first, `[kv, tokens, size]`."""
        part = slice(self.starts[row], self.starts[row + 1])
        cached = self.paged.dense(index, row)
        fresh = (tensor[part].transpose(0, 1) for tensor in self.pairs[index])
        k, v = (torch.cat(both, 1) for both in zip(cached, fresh, strict=True))
        return k, v

    @cached_property
    def answer(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens that are compared and their outputs on set 0, in float64."""
        heads, tokens, outputs = self.paged.heads, [], []
        for row, new in enumerate(self.new):
            chosen = spread(new, CHECKED_ROWS)
            k, v = (part.double() for part in self.dense_of(0, row))
            query = self.query[self.starts[row] + chosen.to(self.query.device)].double()
            query = query.view(-1, heads.kv, heads.group, heads.size).permute(1, 2, 0, 3)
            scores = query @ k.unsqueeze(1).transpose(2, 3) * heads.size**-0.5
            position = self.paged.lengths[row] + chosen.to(scores.device)
            hidden = torch.arange(k.shape[1], device=scores.device) > position.unsqueeze(1)
            found = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v.unsqueeze(1)
            outputs.append(found.permute(2, 0, 1, 3).flatten(1, 2))
            tokens.append(self.starts[row] + chosen)
        return torch.cat(tokens), torch.cat(outputs)


Data = Step | Chunk


def spread(count: int, most: int) -> torch.Tensor:
    """Return at most `most` indices below `count`, the first and the last among them."""
    return torch.linspace(0, count - 1, min(count, most)).round().long()


def data_for(cell: Cell, device: str, sets: int, dtype: torch.dtype = torch.float16) -> Data:
    """Return the data of a cell, the same ones every time."""
    torch.manual_seed(7)
    if isinstance(cell, Decode):
        return Step.of(Paged(cell.heads, cell.lengths, device, sets, dtype=dtype))
    lengths = [cell.context] * cell.batch
    return Chunk.of(Paged(cell.heads, lengths, device, sets, dtype=dtype), [cell.new] * cell.batch)


def small_data(
    kind: str, heads: Heads, device: str, *, poison: bool = True, dtype: torch.dtype = torch.float16
) -> Data:
    """Return ragged data, with NaN in unused slots if wanted: what a contender has to get right before it is timed."""
    torch.manual_seed(11)
    if kind == "decode":
        return Step.of(Paged(heads, [1, 17, 700, 1029], device, poison=poison, dtype=dtype))
    return Chunk.of(Paged(heads, [0, 33, 600, 16], device, poison=poison, dtype=dtype), [40, 1, 130, 200])


def error_of(output: torch.Tensor, data: Data) -> float:
    """Return the relative error (Euclidean) of the compared rows; NaN where the output has one."""
    rows, expected = data.answer
    found = output[rows.to(output.device)].double()
    return float((found - expected).norm() / expected.norm())
