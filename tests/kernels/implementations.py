"""Both implementations of decode and of prefill behind one call each, on whichever device.

The kernels are imported when they are asked, since Triton's interpreter has to be chosen before Triton is imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from tests.kernels.decode import Step
    from tests.kernels.dense import Cached
    from tests.kernels.prefill import Prefill

DECODE = {
    "torch": "kernels.paged_attention_v2_pytorch",
    "tiled torch": "kernels.paged_attention_pytorch",
    "triton": "kernels.paged_attention_v2_triton",
    "compiled": "kernels.paged_attention_v2_compiled",
}
PREFILL = {"torch": "kernels.paged_attention_pytorch", "triton": "kernels.prefix_prefill"}


@dataclass(frozen=True)
class Implementation:
    """One implementation on one device; Triton on the CPU is its interpreter, CUDA code there a host compiler's."""

    name: str
    device: str

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """Types that are right here: products of bfloat16 are garbage in the interpreter."""
        if self.name == "compiled":
            return (torch.float16, torch.bfloat16)
        interpreted = (self.name, self.device) == ("triton", "cpu")
        return (torch.float16, torch.float32) if interpreted else (torch.float16, torch.bfloat16, torch.float32)

    @property
    def one_dtype(self) -> tuple[torch.dtype, ...]:
        """The types, or on a CUDA device the one that only it can tell: there each combination is compiled anew."""
        return self.dtypes if self.device == "cpu" else (torch.bfloat16,)

    def some(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Return the values, or on a CUDA device every second one, for the same reason."""
        return values if self.device == "cpu" else values[::2]

    def decode(self, step: Step, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return what decode makes of `out`, which is full of NaN if none is given; work buffers are full of NaN."""
        out = torch.full_like(step.query, float("nan")) if out is None else out
        kernels = importlib.import_module(DECODE[self.name])
        query, there = step.query.to(self.device), out.to(self.device)
        cached, tables = self._there(step.cached), step.tables.to(self.device)
        slopes = None if step.slopes is None else step.slopes.to(self.device)
        if self.name == "tiled torch":
            found = kernels.long_decode_attention(
                query,
                cached.key_cache,
                cached.value_cache,
                tables,
                cached.lengths,
                step.limit,
                step.kv_cache_dtype,
                step.scale,
                slopes,
                1.0,
                1.0,
            )
            return there.copy_(found).cpu()
        parts = (*query.shape[:2], -(-step.limit // 512))
        work = [
            torch.full(shape, float("nan"), device=self.device) for shape in (parts, parts, (*parts, query.shape[2]))
        ]
        kernels.paged_attention_v2(
            there,
            work[0],
            work[1],
            work[2].to(query.dtype),
            query,
            cached.key_cache,
            cached.value_cache,
            cached.kv_heads,
            step.scale,
            tables,
            cached.lengths,
            cached.block_size,
            step.limit,
            slopes,
            step.kv_cache_dtype,
            1.0,
            1.0,
        )
        return there.cpu()

    def prefill(self, step: Prefill, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return what prefill makes of `out`, which is full of NaN if none is given."""
        out = torch.full_like(step.query, float("nan")) if out is None else out
        kernels = importlib.import_module(PREFILL[self.name])
        query, key, value, there = (tensor.to(self.device) for tensor in (step.query, step.key, step.value, out))
        cached = self._there(step.cached)
        totals = step.seq_lens.to(self.device)
        slopes = None if step.slopes is None else step.slopes.to(self.device)
        longest = max(step.new, default=0) if step.max_input_len is None else step.max_input_len
        before = (query, key, value)
        caches = (step.kv_cache_dtype, cached.key_cache, cached.value_cache, cached.block_tables)
        if self.name == "torch":
            lengths = (step.starts.to(self.device), totals, cached.lengths, longest)
            found = kernels.prefix_attention(*before, *caches, *lengths, slopes, step.window, 1.0, 1.0)
            there[: len(found)] = found
        else:
            lengths = (step.starts[:-1].to(self.device), totals, cached.lengths, longest)
            kernels.context_attention_fwd(*before, there, *caches, *lengths, 1.0, 1.0, slopes, step.window)
        return there.cpu()

    def _there(self, cached: Cached) -> Cached:
        moved = {
            name: getattr(cached, name).to(self.device)
            for name in ("key_cache", "value_cache", "block_tables", "lengths")
        }
        return replace(cached, **moved)

    @contextlib.contextmanager
    def split(self, count: int, **row: Any) -> Iterator[None]:  # noqa: ANN401 - any field of a row
        """Let Triton split each sequence in `count` parts, with changes to the row; PyTorch has its own partitions.

        The compiled kernel splits at least so often: its parts have a largest size.
        """
        if self.name == "compiled":
            compiled = importlib.import_module(DECODE[self.name])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(compiled, "part_tokens", functools.partial(_part_tokens, compiled.MOST_PART, count))
                yield
            return
        if self.name != "triton":
            yield
            return
        decode, prefill = (importlib.import_module(module["triton"]) for module in (DECODE, PREFILL))
        chosen = decode.decode_config
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decode, "split_count", lambda *_: count)
            patch.setattr(prefill, "splits_of", lambda *_: count)
            if row:
                patch.setattr(decode, "decode_config", lambda *given: replace(chosen(*given), **row))
            decode._plan.cache_clear()  # noqa: SLF001 - it remembers the splits
            yield
        decode._plan.cache_clear()  # noqa: SLF001 - the same


def _part_tokens(most: int, count: int, *given: int) -> int:
    """Return the whole pages that make `count` parts of the tokens, or more parts of at most `most` tokens."""
    _rows, limit, page, _multiprocessors = given
    return min(-(-limit // count // page), most // page) * page


Case = Callable[[Implementation], None]


def registered(cases: dict[str, Case]) -> Callable[[Case], Case]:
    """Return a decorator that enters a case under its sentence."""

    def enter(case: Case) -> Case:
        cases[case.__name__.replace("_", " ")] = case
        return case

    return enter
