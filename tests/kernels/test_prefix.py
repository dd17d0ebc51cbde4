"""Prefill against a cached context: the tiled path gives the dense answer."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import paged_attention_pytorch
from tests.kernels import decode
from tests.kernels.dense import assert_close, slopes_of
from tests.kernels.prefill import Prefill, expected, prefill

HALF = torch.float16


def run(step: Prefill) -> torch.Tensor:
    return paged_attention_pytorch.prefix_attention(
        step.query,
        step.key,
        step.value,
        step.kv_cache_dtype,
        step.cached.key_cache,
        step.cached.value_cache,
        step.cached.block_tables,
        step.starts,
        step.seq_lens,
        step.cached.lengths,
        max(step.new, default=0),
        step.slopes,
        step.window,
        1.0,
        1.0,
    )


def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiles be as small as they can be: 64 queries, 64 keys."""
    monkeypatch.setattr(paged_attention_pytorch, "MAX_SCORES", 1 << 10)


@pytest.mark.parametrize("new", [1, 2, 63, 64, 65, 511, 512, 513, 1500])
@pytest.mark.parametrize("context", [0, 1, 16, 513])
def test_any_number_of_new_tokens_sees_its_context_and_its_past(new: int, context: int) -> None:
    step = prefill([context], [new])
    assert_close(run(step), expected(step))


@pytest.mark.parametrize(("context", "new"), [(8192, 3), (8193, 70), (32769, 2), (65537, 1)])
def test_a_long_context_is_right(context: int, new: int) -> None:
    step = prefill([context], [new], kv_heads=1, block_size=64)
    reference = expected(step)
    assert (run(step).double() - reference).norm() / reference.norm() < 1e-3


@pytest.mark.parametrize("tiles", ["large", "small"])
def test_sequences_without_context_stand_beside_others(tiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiles == "small":
        small_tiles(monkeypatch)
    step = prefill([33, 0, 700, 0, 15], [1, 80, 200, 1, 17])
    assert_close(run(step), expected(step))


@pytest.mark.parametrize("table", [(2, 0), (0,), (2, 1)])
def test_a_sequence_without_context_never_reads_its_table(table: tuple[int, ...]) -> None:
    step = prefill([0, 0], [20, 5])
    bare = replace(step, cached=replace(step.cached, block_tables=torch.full(table, 2**30, dtype=torch.int32)))
    assert_close(run(bare), expected(step))


def test_without_any_context_the_cache_may_be_empty() -> None:
    step = prefill([0], [20])
    empty = replace(step.cached, key_cache=step.cached.key_cache[:0], value_cache=step.cached.value_cache[:0])
    assert_close(run(replace(step, cached=empty)), expected(step))


def test_sequences_without_new_tokens_are_skipped() -> None:
    step = prefill([20, 30, 0, 5], [0, 4, 0, 3])
    assert_close(run(step), expected(step))


def test_tokens_that_belong_to_no_sequence_give_zeros() -> None:
    step = prefill([20], [4])
    nan = torch.full((3, 4, 64), float("nan"), dtype=HALF)
    padded = replace(step, query=torch.cat((step.query, nan)), key=torch.cat((step.key, nan[:, :2])))
    found = run(padded)
    assert_close(found[:4], expected(step))
    assert torch.equal(found[4:], torch.zeros_like(found[4:]))


@pytest.mark.parametrize("window", [1, 2, 8, 64, 512, 4095])
@pytest.mark.parametrize(("context", "new"), [(0, 200), (600, 1), (600, 150), (4500, 70)])
@pytest.mark.parametrize("tiles", ["large", "small"])
def test_a_sliding_window_hides_what_is_older(
    window: int, context: int, new: int, tiles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tiles == "small":
        small_tiles(monkeypatch)
    step = replace(prefill([context], [new], kv_heads=1), window=window)
    assert_close(run(step), expected(step))


@pytest.mark.parametrize("window", [1, 8, 300])
def test_tokens_outside_every_window_are_not_read(window: int) -> None:
    step = replace(prefill([600], [40]), window=window)
    reference = expected(step)
    table = step.cached.block_tables[0]
    first_visible = 600 - window + 1
    for token in range(first_visible):
        page, slot = table[token // 16], token % 16
        step.cached.key_cache[page, :, :, slot] = float("nan")
        step.cached.value_cache[page, :, :, slot] = float("inf")
    table[: first_visible // 16] = 2**30
    assert_close(run(step), reference)


@pytest.mark.parametrize("window", [None, 0, -1])
def test_no_window_is_written_in_three_ways(window: int | None) -> None:
    step = prefill([40], [30])
    assert torch.equal(run(replace(step, window=window)), run(step))


@pytest.mark.parametrize("group", [1, 3, 5, 6, 7, 12, 24])
def test_query_heads_are_grouped_by_kv_head(group: int) -> None:
    step = prefill([100, 3], [70, 2], group=group)
    assert_close(run(step), expected(step))


@pytest.mark.parametrize("head_size", [64, 80, 96, 112, 120, 128, 192, 256])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_head_size_and_type_is_right(head_size: int, dtype: torch.dtype) -> None:
    step = prefill([70, 0], [20, 9], head_size=head_size, dtype=dtype)
    assert_close(run(step), expected(step))


@pytest.mark.parametrize("window", [None, 90])
@pytest.mark.parametrize("tiles", ["large", "small"])
def test_alibi_counts_from_each_query(window: int | None, tiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiles == "small":
        small_tiles(monkeypatch)
    step = prefill([130, 0], [100, 70], group=4, dtype=torch.float32)
    biased = replace(step, slopes=slopes_of(8), window=window)
    assert_close(run(biased), expected(biased))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("few_rows", [0, 10**6], ids=["converted", "residual"])
@pytest.mark.parametrize("tiles", ["large", "small"])
def test_products_in_half_precision_as_on_a_device_are_close(
    dtype: torch.dtype, few_rows: int, tiles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tiles == "small":
        small_tiles(monkeypatch)
    decode.as_on_a_device(monkeypatch, few_rows=few_rows, many=0)
    step = replace(prefill([300, 0], [90, 20], dtype=dtype), window=250)
    reference = expected(step)
    assert (run(step).double() - reference).norm() / reference.norm() < (1e-3 if dtype == HALF else 6e-3)


@pytest.mark.parametrize("few_rows", [0, 10**6], ids=["converted", "residual"])
@pytest.mark.parametrize("scores", [1 << 23, 1 << 14])
def test_large_logits_keep_their_accuracy_in_half_precision(
    few_rows: int, scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode.as_on_a_device(monkeypatch, few_rows=few_rows, many=0)
    monkeypatch.setattr(paged_attention_pytorch, "MAX_SCORES", scores)
    step = prefill([2000], [30])
    large = replace(step, query=(step.query.float() * 15).to(HALF))  # logits of 60: 0.03 apart in float16
    reference = expected(large)
    assert (run(large).double() - reference).norm() / reference.norm() < 1e-3


def test_large_values_do_not_overflow_half_precision_products(monkeypatch: pytest.MonkeyPatch) -> None:
    decode.as_on_a_device(monkeypatch)
    step = prefill([1000], [3], head_size=256)
    step.cached.value_cache.fill_(60000.0)
    step.value.fill_(60000.0)
    step.query.fill_(30.0)
    step.key.fill_(30.0)  # q·k is 230,400, which float16 cannot hold; scaled it can
    step.cached.key_cache.fill_(30.0)
    torch.testing.assert_close(run(step), torch.full_like(step.query, 60000.0), rtol=1e-3, atol=0)


def test_projections_may_be_views_of_one_tensor() -> None:
    step = prefill([50], [20])
    fused = torch.cat((step.query, step.key, step.value), 1)
    query, key, value = fused[:, :4], fused[:, 4:6], fused[:, 6:]
    assert torch.equal(run(replace(step, query=query, key=key, value=value)), run(step))


def test_lengths_are_read_from_the_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def count(name: str) -> None:
        original = getattr(torch.Tensor, name)

        def counting(tensor: torch.Tensor, *args: object) -> object:
            reads.append(name)
            return original(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, counting)

    step = prefill([33, 0, 700], [1, 80, 200])
    for name in ("tolist", "item", "__bool__", "__int__", "__index__", "__float__", "cpu", "numpy", "nonzero"):
        count(name)
    run(step)
    assert reads == ["tolist"]


def test_a_table_narrower_than_the_context_is_refused() -> None:
    step = prefill([16, 33], [1, 1])
    narrow = replace(step.cached, block_tables=step.cached.block_tables[:, :2])
    with pytest.raises(ValueError, match=r"sequence 1: its context of 33 tokens takes 3 pages, .* names 2"):
        run(replace(step, cached=narrow))


def test_lengths_that_contradict_each_other_are_refused() -> None:
    step = prefill([16, 33], [1, 1])
    with pytest.raises(ValueError, match="sequence 1: 33 cached and 1 new tokens are not its length 44"):
        run(replace(step, seq_lens=torch.tensor([17, 44], dtype=torch.int32)))


def test_more_tokens_than_the_query_has_are_refused() -> None:
    step = prefill([16], [5])
    with pytest.raises(ValueError, match="names 5 tokens, the query has 4"):
        run(replace(step, query=step.query[:4]))


@pytest.mark.parametrize("kv_cache_dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_a_quantised_cache_is_refused(kv_cache_dtype: str) -> None:
    with pytest.raises(NotImplementedError, match=kv_cache_dtype):
        run(replace(prefill([16], [5]), kv_cache_dtype=kv_cache_dtype))


@st.composite
def prefills(draw: st.DrawFn) -> Prefill:
    seqs = draw(st.integers(1, 4))
    length = st.one_of(st.integers(0, 40), st.integers(100, 400))
    contexts, new = (draw(st.lists(length, min_size=seqs, max_size=seqs)) for _ in range(2))
    step = prefill(
        contexts,
        new,
        group=draw(st.sampled_from([1, 2, 3, 5, 7, 8])),
        kv_heads=draw(st.integers(1, 3)),
        head_size=draw(st.sampled_from([64, 80, 96, 112, 120, 128, 192, 256])),
        block_size=draw(st.sampled_from([8, 16, 24, 32, 40, 64])),
        dtype=draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32])),
        spare_columns=draw(st.integers(0, 3)),
        seed=draw(st.integers(0, 2**20)),
    )
    return replace(
        step,
        slopes=draw(st.sampled_from([None, slopes_of(step.query.shape[1])])),
        window=draw(st.one_of(st.none(), st.integers(1, 500))),
    )


@settings(max_examples=60)
@given(step=prefills(), scores=st.sampled_from([1 << 10, 1 << 16, 1 << 23]))
def test_any_shape_gives_the_dense_answer(step: Prefill, scores: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged_attention_pytorch, "MAX_SCORES", scores)
        assert_close(run(step), expected(step))
