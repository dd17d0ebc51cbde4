"""What is measured: cells of the decode and the prefill table, batch steps, and lengths far below their bound."""

from __future__ import annotations

from dataclasses import dataclass

K = 1 << 10
PAGE = 16
HALF_BYTES = 2


@dataclass(frozen=True)
class Heads:
    """Query heads, KV heads and head size of one rank."""

    query: int
    kv: int
    size: int

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.query // self.kv

    def __str__(self) -> str:
        return f"{self.query}q/{self.kv}kv d{self.size}"


@dataclass(frozen=True)
class Decode:
    """One new token a sequence, each behind `tokens` cached ones (the new one among them)."""

    heads: Heads
    batch: int
    tokens: int

    @property
    def lengths(self) -> list[int]:
        """Length of each sequence."""
        return [self.tokens] * self.batch

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values that have to be read once."""
        return 2 * self.batch * self.tokens * self.heads.kv * self.heads.size * HALF_BYTES

    def __str__(self) -> str:
        return f"decode {self.heads} B{self.batch} {in_k(self.tokens)}"


@dataclass(frozen=True)
class Prefill:
    """`new` new tokens a sequence behind `context` cached ones, causal."""

    heads: Heads
    batch: int
    context: int
    new: int = 2 * K

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values, cached and new."""
        return 2 * self.batch * (self.context + self.new) * self.heads.kv * self.heads.size * HALF_BYTES

    @property
    def flop(self) -> int:
        """Operations of both products, over the causal part only; a multiplication with its addition is two."""
        pairs = self.new * self.context + self.new * (self.new + 1) // 2
        return 4 * self.batch * self.heads.query * self.heads.size * pairs

    def __str__(self) -> str:
        return f"prefill {self.heads} B{self.batch} new {in_k(self.new)} context {in_k(self.context)}"


Cell = Decode | Prefill

LLAMA = Heads(32, 8, 128)
QWEN = Heads(16, 2, 256)
QWEN_RANK = Heads(4, 1, 256)
"""One rank of four: what the target runs."""


def in_k(count: int) -> str:
    """Return a count of tokens as people write it."""
    return f"{count // K}K" if count >= K and count % K == 0 else str(count)


def decode_cells() -> list[Decode]:
    """Return the decode table, the target's own shapes first."""
    single = [(1, 8 * K), (1, 32 * K), (1, 100 * K), (8, 2 * K), (8, 8 * K), (8, 32 * K)]
    wide = [(1, K), (1, 8 * K), (1, 32 * K), (1, 128 * K), (8, 8 * K), (64, K), (64, 8 * K)]
    cells = [Decode(heads, *shape) for heads in (QWEN_RANK, QWEN) for shape in single]
    return cells + [Decode(LLAMA, *shape) for shape in wide]


def prefill_cells() -> list[Prefill]:
    """Return the prefill table."""
    return [Prefill(heads, 1, context) for heads in (QWEN_RANK, QWEN, LLAMA) for context in (0, 8 * K, 32 * K)]


def quick_cells() -> list[Cell]:
    """Return a cell of each kind and head size."""
    return [Decode(QWEN_RANK, 8, 8 * K), Decode(LLAMA, 1, 8 * K), Prefill(QWEN_RANK, 1, 8 * K), Prefill(LLAMA, 1, 0)]


def tiny_cells() -> list[Cell]:
    """Return cells that a CPU does in milliseconds."""
    heads = Heads(4, 2, 32)
    return [Decode(heads, 2, 70), Decode(heads, 1, 600), Prefill(heads, 2, 33, 20), Prefill(heads, 1, 0, 40)]


STEP_HEADS = (QWEN_RANK, QWEN, LLAMA)
STEP_TOKENS = 4 * K
STEP_BATCHES = 64
BOUNDS = (100, 128 * K)
"""Real length of a captured graph's sequences, and the bound that it was captured with."""
