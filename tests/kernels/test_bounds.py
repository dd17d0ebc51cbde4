"""What the kernels promise beside the answer: bounded memory, and decode that never reads the device."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from kernels import paged_attention_pytorch
from tests.kernels import decode, test_prefix
from tests.kernels.decode import Decode, Step
from tests.kernels.dense import cached, queries
from tests.kernels.prefill import prefill

HALF = torch.float16


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch does not annotate it
    """Shows the results of every operation to a function."""

    def __init__(self, see: Callable[[str, list[torch.Tensor]], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch does not annotate it
        self._see = see

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        self._see(str(func), [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)])
        return result


def largest_storage(known: list[torch.Tensor], work: Callable[[], object]) -> int:
    """Return the elements of the largest storage that an operation allocates; views of what was there do not count."""
    before = {tensor.untyped_storage().data_ptr() for tensor in known}
    sizes = [0]

    def see(_: str, results: list[torch.Tensor]) -> None:
        for tensor in results:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in before:
                sizes.append(storage.nbytes() // tensor.element_size())

    with Watch(see):
        work()
    return max(sizes)


def inputs(step: Step) -> list[torch.Tensor]:
    return [step.query, step.cached.key_cache, step.cached.value_cache, step.cached.block_tables]


def largest(step: Step) -> int:
    return largest_storage(inputs(step), lambda: decode.long(step))


@pytest.mark.parametrize("length", [3000, 12_000])
@pytest.mark.parametrize("seqs", [1, 5])
@pytest.mark.parametrize("budget", [1, 1 << 18])
def test_long_decode_stays_within_its_bound_whatever_the_batch_and_the_length(
    length: int, seqs: int, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_attention_pytorch, "MAX_GATHERED", budget)
    step = Step(queries(seqs, 4, 64, HALF), cached([length] * seqs))
    assert largest(step) <= max(budget, 512 * 2 * 64, step.query.numel())


def test_long_decode_stays_within_the_default_bound() -> None:
    step = Step(queries(3, 8, 64, HALF), cached([65_537] * 3, block_size=64))
    assert step.cached.lengths.sum() * 2 * 64 > paged_attention_pytorch.MAX_GATHERED
    assert largest(step) <= paged_attention_pytorch.MAX_GATHERED


@pytest.mark.parametrize("seqs", [1, 9])
@pytest.mark.parametrize("budget", [1, 1 << 18, 1 << 20])
def test_v2_stays_within_its_bound_or_takes_one_sequence_at_a_time(
    seqs: int, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_attention_pytorch, "MAX_GATHERED", budget)
    step = Step(queries(seqs, 4, 64, HALF), cached([3000] * seqs))
    work, out = decode.buffers(step), torch.empty_like(step.query)
    known = [*inputs(step), work.exp_sum, work.max_logits, work.tmp_out, out]
    assert largest_storage(known, lambda: decode.v2_into(step, out, work)) <= max(
        budget, 3072 * 2 * 64, step.query.numel()
    )


@pytest.mark.parametrize(("context", "new"), [(0, 3000), (20_000, 50), (5000, 1200)])
@pytest.mark.parametrize("budget", [1 << 16, 1 << 18])
def test_prefill_stays_within_its_bound_whatever_the_lengths(
    context: int, new: int, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_attention_pytorch, "MAX_SCORES", budget)
    monkeypatch.setattr(paged_attention_pytorch, "MAX_GATHERED", budget)
    step = prefill([context], [new])
    known = [step.query, step.key, step.value, step.cached.key_cache, step.cached.value_cache, step.cached.block_tables]
    two_pages = 2 * 16 * 2 * 64
    assert largest_storage(known, lambda: test_prefix.run(step)) <= max(budget + two_pages, step.query.numel())


def faked(step: Step, mode: FakeTensorMode) -> Step:
    """Return the step with tensors that have no data: whoever reads one gets an exception."""
    fake = mode.from_tensor
    pages = replace(
        step.cached,
        key_cache=fake(step.cached.key_cache),
        value_cache=fake(step.cached.value_cache),
        block_tables=fake(step.cached.block_tables),
        lengths=fake(step.cached.lengths),
    )
    slopes = None if step.slopes is None else fake(step.slopes)
    return replace(step, query=fake(step.query), cached=pages, slopes=slopes)


@pytest.mark.parametrize("run", [decode.v2, decode.long], ids=["v2", "long"])
@pytest.mark.parametrize("block_size", [16, 24])
@pytest.mark.parametrize("slopes", [None, torch.ones(4)], ids=["plain", "alibi"])
@pytest.mark.parametrize("budget", [1, 1 << 24])
def test_decode_never_reads_the_device(
    run: Decode, block_size: int, slopes: torch.Tensor | None, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_attention_pytorch, "MAX_GATHERED", budget)
    step = Step(queries(3, 4, 64, HALF), cached([1700, 0, 5], block_size=block_size), max_seq_len=1700, slopes=slopes)
    with FakeTensorMode() as mode:
        assert run(faked(step, mode)).shape == (3, 4, 64)


def test_reading_the_device_would_be_noticed() -> None:
    step = prefill([33], [4])
    with FakeTensorMode() as mode, pytest.raises(DataDependentOutputException):
        mode.from_tensor(step.cached.lengths).tolist()


@pytest.mark.parametrize("run", [decode.v2, decode.long], ids=["v2", "long"])
def test_the_work_does_not_depend_on_the_lengths(run: Decode) -> None:
    recorded = []
    pages = cached([1700, 900], spare_columns=200)
    for lengths in ([1700, 900], [1, 0]):
        fixed = replace(pages, lengths=torch.tensor(lengths, dtype=torch.int32))
        seen: list[tuple[str, tuple[torch.Size, ...]]] = []

        def see(name: str, results: list[torch.Tensor], seen: list[Any] = seen) -> None:
            seen.append((name, tuple(result.shape for result in results)))

        with Watch(see):
            run(Step(queries(2, 4, 64, HALF), fixed, max_seq_len=1700))
        recorded.append(seen)
    assert recorded[0] == recorded[1]


def operations(work: Callable[[], object]) -> int:
    """Return how many operations are dispatched, which decides what a short call costs."""
    seen: list[str] = []
    with Watch(lambda name, _: seen.append(name)):
        work()
    return len(seen)


def without_data(step: Step) -> Step:
    """Return the step on the device that has no memory: what is done there is what is done on any but a CPU."""
    pages = replace(
        step.cached,
        key_cache=step.cached.key_cache.to("meta"),
        value_cache=step.cached.value_cache.to("meta"),
        block_tables=step.cached.block_tables.to("meta"),
        lengths=step.cached.lengths.to("meta"),
    )
    return replace(step, query=step.query.to("meta"), cached=pages)


def one_after_the_other(step: Step, lengths: list[int]) -> None:
    """Decode as a loop over sequences: keys and values gathered by index, all arithmetic in float32."""
    kv_heads = step.cached.kv_heads
    for row, length in enumerate(lengths):
        pages = step.tables[row, : -(-length // step.cached.block_size)]
        keys = step.cached.key_cache[pages].permute(1, 0, 3, 2, 4).flatten(1, 2).flatten(2)[:, :length]
        values = step.cached.value_cache[pages].permute(1, 0, 3, 2).flatten(1, 2)[:, :length]
        query = step.query[row].float().view(kv_heads, -1, step.query.shape[2]) * step.scale
        weights = torch.softmax(query @ keys.float().transpose(1, 2), -1)
        step.query[row] = (weights @ values.float()).flatten(0, 1)


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
@pytest.mark.parametrize("lengths", [[40], [1000], [8192], [40, 700]])
def test_even_one_sequence_takes_fewer_operations_than_a_loop(lengths: list[int], dtype: torch.dtype) -> None:
    step = Step(queries(len(lengths), 4, 64, dtype), cached(lengths, dtype=dtype), max_seq_len=max(lengths))
    step, out, work = without_data(step), torch.empty_like(step.query, device="meta"), decode.buffers(step)
    ours = operations(lambda: decode.v2_into(step, out, work))
    assert ours <= 0.9 * operations(lambda: one_after_the_other(step, lengths))


@pytest.mark.parametrize(("kv_heads", "most"), [(1, 25), (2, 30)])
def test_prefill_without_context_takes_few_operations(kv_heads: int, most: int) -> None:
    step = prefill([0], [64], kv_heads=kv_heads, dtype=torch.float32)
    assert operations(lambda: test_prefix.run(step)) <= most
