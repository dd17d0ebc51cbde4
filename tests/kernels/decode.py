"""Both decode implementations behind one call, so that one test asks both."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import strategies as st

from kernels import paged_attention_pytorch, paged_attention_v2_pytorch
from tests.kernels.dense import Cached, attention, cached, queries, slopes_of


@dataclass(frozen=True)
class Step:
    """One decode step: what `PagedAttention.forward_decode` is given."""

    query: torch.Tensor
    cached: Cached
    max_seq_len: int | None = None
    slopes: torch.Tensor | None = None
    block_tables: torch.Tensor | None = None
    kv_cache_dtype: str = "auto"
    head_mapping: bool = False

    @property
    def scale(self) -> float:
        return float(self.query.shape[-1] ** -0.5)

    @property
    def limit(self) -> int:
        return int(self.cached.lengths.max()) if self.max_seq_len is None else self.max_seq_len

    @property
    def tables(self) -> torch.Tensor:
        return self.cached.block_tables if self.block_tables is None else self.block_tables


@dataclass(frozen=True)
class Buffers:
    """The work buffers that vLLM allocates for V2, full of NaN."""

    exp_sum: torch.Tensor
    max_logits: torch.Tensor
    tmp_out: torch.Tensor


def buffers(step: Step) -> Buffers:
    shape = (*step.query.shape[:2], -(-step.limit // 512))
    nan = float("nan")
    tmp_out = torch.full((*shape, step.query.shape[2]), nan, dtype=step.query.dtype)
    return Buffers(torch.full(shape, nan), torch.full(shape, nan), tmp_out)


def v2_into(
    step: Step,
    out: torch.Tensor,
    work: Buffers,
    attend: Callable[..., None] = paged_attention_v2_pytorch.paged_attention_v2,
) -> None:
    """Call an implementation of V2 as vLLM does."""
    heads, kv_heads = step.query.shape[1], step.cached.kv_heads
    mapping = torch.arange(kv_heads, dtype=torch.int32).repeat_interleave(heads // kv_heads)
    attend(
        out,
        work.exp_sum,
        work.max_logits,
        work.tmp_out,
        step.query,
        step.cached.key_cache,
        step.cached.value_cache,
        mapping if step.head_mapping else kv_heads,
        step.scale,
        step.tables,
        step.cached.lengths,
        step.cached.block_size,
        step.limit,
        step.slopes,
        step.kv_cache_dtype,
        1.0,
        1.0,
    )


def v2(step: Step) -> torch.Tensor:
    out = torch.full_like(step.query, float("nan"))
    v2_into(step, out, buffers(step))
    return out


@st.composite
def steps(
    draw: st.DrawFn,
    lengths: st.SearchStrategy[list[int]],
    dtypes: tuple[torch.dtype, ...],
    most_kv_heads: int,
    beyond: tuple[int, ...],
) -> Step:
    """Draw a step of any shape whose `max_seq_len` is one of `beyond` above the longest sequence."""
    drawn = draw(lengths)
    head_size = draw(st.sampled_from([64, 80, 96, 112, 120, 128, 192, 256]))
    dtype = draw(st.sampled_from(dtypes))
    pages = cached(
        drawn,
        kv_heads=draw(st.integers(1, most_kv_heads)),
        head_size=head_size,
        block_size=draw(st.sampled_from([8, 16, 24, 32, 40, 64])),
        dtype=dtype,
        spare_columns=draw(st.integers(1, 70)),
        seed=draw(st.integers(0, 2**20)),
    )
    heads = pages.kv_heads * draw(st.sampled_from([1, 2, 3, 5, 7, 8]))
    return Step(
        queries(len(drawn), heads, head_size, dtype, seed=draw(st.integers(0, 2**20))),
        pages,
        max_seq_len=max(drawn) + draw(st.sampled_from(beyond)),
        slopes=draw(st.sampled_from([None, slopes_of(heads)])),
        head_mapping=draw(st.booleans()),
    )


def long(step: Step) -> torch.Tensor:
    return paged_attention_pytorch.long_decode_attention(
        step.query,
        step.cached.key_cache,
        step.cached.value_cache,
        step.tables,
        step.cached.lengths,
        step.limit,
        step.kv_cache_dtype,
        step.scale,
        step.slopes,
        1.0,
        1.0,
    )


def as_on_a_device(monkeypatch: pytest.MonkeyPatch, *, few_rows: int = 64, many: int = 1 << 22) -> None:
    """Let a CPU use half-precision factors, and the ways of torch 2.1 to get float32 products of them."""
    monkeypatch.setattr(paged_attention_pytorch, "product_dtype", lambda query: query.dtype)
    monkeypatch.setattr(paged_attention_pytorch, "_FEW_ROWS", few_rows)
    monkeypatch.setattr(paged_attention_pytorch, "_MANY", many)
    monkeypatch.setattr(paged_attention_pytorch, "_MANY_ON_CPU", many)
    there, budget = torch.empty(0, device="meta"), paged_attention_pytorch._budget  # noqa: SLF001 - what is replaced
    monkeypatch.setattr(paged_attention_pytorch, "_budget", lambda _: budget(there))
    undivided = paged_attention_pytorch._UNDIVIDED  # noqa: SLF001 - the same
    monkeypatch.setattr(paged_attention_pytorch, "_UNDIVIDED_ON_CPU", undivided)


Decode = Callable[[Step], torch.Tensor]


def expected(step: Step) -> torch.Tensor:
    """Return the dense answer, float64, with zeros for sequences of length 0."""
    rows = [
        attention(step.query[row : row + 1], keys, values, scale=step.scale, slopes=step.slopes)
        for row, (keys, values) in enumerate(zip(step.cached.keys, step.cached.values, strict=True))
    ]
    return torch.cat(rows)
