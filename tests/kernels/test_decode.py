"""Decode over a paged cache: the batched V2 and the tiled one for long sequences give the dense answer."""

import dataclasses

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import paged_attention_pytorch, paged_attention_v2_pytorch
from tests.kernels import decode
from tests.kernels.decode import Decode, Step
from tests.kernels.dense import assert_close, attention, cached, queries, slopes_of

HALF = torch.float16


@pytest.fixture(params=[decode.v2, decode.long], ids=["v2", "long"])
def run(request: pytest.FixtureRequest) -> Decode:
    chosen: Decode = request.param
    return chosen


def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one partition of one sequence fill the budget: one sequence a group, one partition a tile."""
    monkeypatch.setattr(paged_attention_pytorch, "MAX_GATHERED", 1)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 511, 512, 513, 1024, 8192, 8193])
def test_one_sequence_of_any_length_is_right(run: Decode, length: int) -> None:
    step = Step(queries(1, 4, 64, HALF), cached([length]))
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize("length", [32769, 65537])
def test_a_very_long_sequence_keeps_its_relative_error_below_one_thousandth(run: Decode, length: int) -> None:
    step = Step(queries(1, 2, 64, HALF), cached([length], kv_heads=1, block_size=64))
    reference = decode.expected(step)
    error = (run(step).double() - reference).norm() / reference.norm()
    assert error < 1e-3


def test_more_than_1024_partitions_are_reduced(run: Decode) -> None:
    step = Step(queries(1, 1, 8, HALF), cached([1024 * 512 + 1], kv_heads=1, head_size=8, block_size=64))
    reference = decode.expected(step)
    assert (run(step).double() - reference).norm() / reference.norm() < 1e-3


def test_padding_rows_of_length_0_are_zero_and_leave_the_others_exact(run: Decode) -> None:
    step = Step(queries(4, 4, 64, HALF), cached([700, 1, 0, 513]))
    found = run(step)
    assert torch.equal(found[2], torch.zeros_like(found[2]))
    assert_close(found, decode.expected(step))


@pytest.mark.parametrize("lengths", [[0], [0, 0]])
def test_a_batch_of_nothing_but_padding_is_zero(run: Decode, lengths: list[int]) -> None:
    step = Step(queries(len(lengths), 4, 64, HALF), cached(lengths), max_seq_len=1000)
    assert torch.equal(run(step), torch.zeros_like(step.query))


def test_an_empty_batch_and_a_maximum_of_0_do_nothing(run: Decode) -> None:
    assert run(Step(queries(0, 4, 64, HALF), cached([]), max_seq_len=100)).shape == (0, 4, 64)
    step = Step(queries(1, 4, 64, HALF), cached([0]), max_seq_len=0)
    assert torch.equal(run(step), torch.zeros_like(step.query))


@pytest.mark.parametrize("limit", [18, 600, 8192, 131072])
def test_a_maximum_that_is_only_a_bound_changes_nothing(run: Decode, limit: int) -> None:
    pages = cached([17, 3], spare_columns=8192)
    step = Step(queries(2, 4, 64, HALF), pages, max_seq_len=limit)
    assert_close(run(step), decode.expected(step))


def test_a_maximum_beyond_the_table_is_bounded_by_the_table(run: Decode) -> None:
    step = Step(queries(2, 4, 64, HALF), cached([600, 32], spare_columns=0), max_seq_len=10**6)
    assert_close(run(step), decode.expected(step))


def test_a_length_beyond_the_maximum_reads_only_what_the_maximum_allows(run: Decode) -> None:
    pages = cached([600])
    step = Step(queries(1, 4, 64, HALF), pages, max_seq_len=40)
    first = attention(step.query, pages.keys[0][:40], pages.values[0][:40], scale=step.scale)
    assert_close(run(step), first)


def test_the_last_row_of_a_table_may_end_its_allocation(run: Decode) -> None:
    pages = cached([33, 528], spare_columns=0)
    exact = torch.empty(pages.block_tables.numel(), dtype=torch.int32)
    exact.copy_(pages.block_tables.flatten())
    step = Step(queries(2, 4, 64, HALF), pages, block_tables=exact.view(2, -1))
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize("group", [1, 3, 5, 6, 7, 12, 24])
def test_query_heads_are_grouped_by_kv_head(run: Decode, group: int) -> None:
    step = Step(queries(2, 2 * group, 64, HALF), cached([513, 20]))
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize("head_size", [64, 80, 96, 112, 120, 128, 192, 256])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_head_size_and_type_is_right(run: Decode, head_size: int, dtype: torch.dtype) -> None:
    step = Step(queries(2, 4, head_size, dtype), cached([530, 9], head_size=head_size, dtype=dtype))
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize("block_size", [8, 16, 24, 32, 40, 48, 64, 96, 1024])
def test_pages_need_not_divide_a_partition(run: Decode, block_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(queries(3, 4, 64, HALF), cached([1700, 512, 1], block_size=block_size))
    assert_close(run(step), decode.expected(step))
    small_tiles(monkeypatch)
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize("length", [1, 513, 2000])
def test_alibi_counts_from_the_last_token(run: Decode, length: int) -> None:
    step = Step(queries(1, 8, 64, torch.float32), cached([length], dtype=torch.float32), slopes=slopes_of(8))
    assert_close(run(step), decode.expected(step))


def test_huge_logits_and_a_partition_far_below_the_others_stay_finite(run: Decode) -> None:
    pages = cached([1100], dtype=torch.float32)
    step = Step(queries(1, 4, 64, torch.float32) * 1000, pages, slopes=slopes_of(4) * 1000)
    found = run(step)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found.double(), decode.expected(step), rtol=1e-3, atol=1e-3)


def test_groups_and_tiles_do_not_change_the_answer(run: Decode, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(queries(5, 4, 64, HALF), cached([1600, 0, 513, 1, 1025]), slopes=slopes_of(4))
    whole = run(step)
    small_tiles(monkeypatch)
    torch.testing.assert_close(run(step), whole, rtol=1e-3, atol=1e-3)
    assert_close(run(step), decode.expected(step))


def test_queries_and_caches_may_be_views_of_larger_tensors(run: Decode) -> None:
    pages = cached([40, 7])
    wide = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(3)).to(HALF)
    step = Step(wide[:, 4:8], dataclasses.replace(pages, lengths=pages.lengths.repeat_interleave(2)[::2]))
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize("kv_cache_dtype", ["fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16", "float32"])
def test_a_quantised_cache_is_refused_before_any_work(run: Decode, kv_cache_dtype: str) -> None:
    step = Step(queries(1, 4, 64, HALF), cached([5]), kv_cache_dtype=kv_cache_dtype)
    with pytest.raises(NotImplementedError, match=kv_cache_dtype):
        run(step)


def test_a_cache_of_bytes_is_refused_whatever_its_name(run: Decode) -> None:
    pages = cached([5])
    as_bytes = dataclasses.replace(pages, key_cache=pages.key_cache.view(torch.uint8))
    with pytest.raises(NotImplementedError, match="uint8"):
        run(Step(queries(1, 4, 64, HALF), as_bytes))


def test_heads_that_do_not_divide_are_refused(run: Decode) -> None:
    with pytest.raises(ValueError, match="5 query heads"):
        run(Step(queries(1, 5, 64, HALF), cached([5])))


STEPS = decode.steps(
    st.lists(st.one_of(st.integers(0, 40), st.integers(500, 1100)), min_size=1, max_size=4),
    (torch.float16, torch.bfloat16, torch.float32),
    3,
    (0, 0, 1, 700, 5000),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(step=STEPS)
def test_any_shape_gives_the_dense_answer(run: Decode, step: Step) -> None:
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize(
    "shapes", [((0,), (0,), (0,)), ((1, 4, 2), (1, 4, 2), (1, 4, 2, 64)), ((9, 4, 2), (1, 9, 2), (1, 4, 2, 9))]
)
def test_work_buffers_of_any_shape_are_left_alone(shapes: tuple[tuple[int, ...], ...]) -> None:
    step = Step(queries(1, 4, 64, HALF), cached([600]))
    work = decode.Buffers(*(torch.full(shape, -7.0) for shape in shapes))
    out = torch.full_like(step.query, float("nan"))
    decode.v2_into(step, out, work)
    assert_close(out, decode.expected(step))
    for buffer in (work.exp_sum, work.max_logits, work.tmp_out):
        assert (buffer == -7.0).all()


@pytest.mark.parametrize("few_rows", [0, 10**6], ids=["converted", "residual"])
@pytest.mark.parametrize("many", [0, 1 << 30], ids=["bits", "fill"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_factors_as_on_a_device_are_close(
    run: Decode, few_rows: int, many: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode.as_on_a_device(monkeypatch, few_rows=few_rows, many=many)
    pages = cached([1300, 0, 513, 5], dtype=dtype)
    step = Step(queries(4, 4, 64, dtype), pages, slopes=slopes_of(4))
    reference = decode.expected(step)
    assert (run(step).double() - reference).norm() / reference.norm() < (1e-3 if dtype == HALF else 6e-3)


@pytest.mark.parametrize("few_rows", [0, 10**6], ids=["converted", "residual"])
def test_large_logits_keep_their_accuracy_in_half_precision(
    run: Decode, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode.as_on_a_device(monkeypatch, few_rows=few_rows, many=0)
    step = Step((queries(1, 4, 64, HALF).float() * 15).to(HALF), cached([2000]))  # logits of 60: 0.03 apart in float16
    reference = decode.expected(step)
    assert (run(step).double() - reference).norm() / reference.norm() < 1e-3


@pytest.mark.parametrize("length", [2048, 8192, 20_000])
def test_many_small_weights_are_not_lost_beside_a_large_one(
    run: Decode, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode.as_on_a_device(monkeypatch)
    pages = cached([length], kv_heads=1, block_size=64)
    pages.value_cache.nan_to_num_(0.0, 0.0, 0.0).abs_()
    pages.values[0].abs_()
    step = Step(torch.zeros(1, 2, 64, dtype=HALF), pages)  # every weight is small, and every sum of one sign
    reference = decode.expected(step)
    assert (run(step).double() - reference).norm() / reference.norm() < 5e-4


def test_a_page_whose_offset_overflows_32_bits_is_found(run: Decode) -> None:
    page, block_size, head_size = 2**21 + 5, 16, 64
    try:  # 8.6 GB that nobody touches but for one page: address space, not memory
        keys = torch.empty(page + 1, 1, head_size // 8, block_size, 8, dtype=HALF)
        values = torch.empty(page + 1, 1, head_size, block_size, dtype=HALF)
    except RuntimeError:
        pytest.skip("this system does not hand out address space that is not used")
    assert page * block_size * head_size > 2**31
    small = cached([16], kv_heads=1)
    keys[page] = small.key_cache[small.block_tables[0, 0]]
    values[page] = small.value_cache[small.block_tables[0, 0]]
    table = torch.tensor([[page]], dtype=torch.int32)
    far = dataclasses.replace(small, key_cache=keys, value_cache=values, block_tables=table)
    step = Step(queries(1, 4, 64, HALF), far)
    assert_close(run(step), decode.expected(step))


def test_rows_beside_the_output_stay_as_they_were() -> None:
    step = Step(queries(2, 6, 64, HALF), cached([30, 600]))
    around = torch.full((4, 6, 64), 9.0, dtype=HALF)
    decode.v2_into(step, around[1:3], decode.buffers(step))
    assert_close(around[1:3], decode.expected(step))
    assert (around[[0, 3]] == 9.0).all()


@pytest.mark.parametrize("stride", [2, 16])
def test_block_sparse_attention_is_refused_before_any_work(stride: int) -> None:
    nothing = torch.empty(0)
    with pytest.raises(NotImplementedError, match="block-sparse"):
        paged_attention_v2_pytorch.paged_attention_v2(
            *(nothing,) * 7, 1, 1.0, nothing, nothing, 16, 1, None, "auto", 1.0, 1.0, 0, 0, stride
        )


def test_a_block_sparse_stride_of_none_means_dense() -> None:
    step = Step(queries(1, 4, 64, HALF), cached([20]))
    out = torch.empty_like(step.query)
    work = decode.buffers(step)
    paged_attention_v2_pytorch.paged_attention_v2(
        out,
        work.exp_sum,
        work.max_logits,
        work.tmp_out,
        step.query,
        step.cached.key_cache,
        step.cached.value_cache,
        2,
        step.scale,
        step.tables,
        step.cached.lengths,
        16,
        20,
        None,
        "auto",
        1.0,
        1.0,
        blocksparse_vert_stride=None,
    )
    assert_close(out, decode.expected(step))
