"""Cases of decode, for any implementation: each is given one, asks it, and compares with the dense answer.

`CASES` are for all of them, `OF_TRITON` speak of what only the Triton kernel promises.
"""

from __future__ import annotations

import importlib
import itertools
from dataclasses import replace

import pytest
import torch

from tests.kernels.decode import Step, expected
from tests.kernels.dense import assert_close, attention, cached, queries, slopes_of
from tests.kernels.implementations import Case, Implementation, registered

HALF = torch.float16
HEAD_SIZES = (64, 80, 96, 112, 120, 128, 192, 256)
GROUPS = (1, 3, 5, 6, 7, 12, 24)
PAGES = (8, 16, 24, 32, 40, 64)
FAR_PAGE = 131_072
"""From here on, 8 heads of 128 dimensions in pages of 16 are past 2^31 elements."""

CASES: dict[str, Case] = {}
OF_TRITON: dict[str, Case] = {}
case = registered(CASES)
case_of_triton = registered(OF_TRITON)


def check(run: Implementation, step: Step) -> None:
    """The implementation gives the dense answer."""
    assert_close(run.decode(step), expected(step))


def error_of(run: Implementation, step: Step) -> float:
    """Return the error of the whole answer, relative to it."""
    reference = expected(step)
    return float((run.decode(step).double() - reference).norm() / reference.norm())


@case
def stale_values_in_the_last_page_do_not_reach_the_output(run: Implementation) -> None:
    for count, length in itertools.product((1, 2), (1, 17, 63, 65)):
        with run.split(count):
            check(run, Step(queries(1, 4, 64, HALF), cached([length])))


@case
def a_partition_without_tokens_changes_nothing(run: Implementation) -> None:
    for count in (1, 3):
        with run.split(count):
            check(run, Step(queries(2, 4, 64, HALF), cached([513, 20]), max_seq_len=1400))


@case
def table_entries_beyond_the_length_may_be_anything(run: Implementation) -> None:
    for count in (1, 3):
        with run.split(count):
            check(run, Step(queries(2, 4, 64, HALF), cached([17, 100], spare_columns=70), max_seq_len=1000))


@case
def the_last_table_row_may_end_its_allocation(run: Implementation) -> None:
    for count, lengths in itertools.product((1, 3), ([33, 528], [64, 17], [5, 1])):
        pages = cached(lengths, spare_columns=0)
        tables = pages.block_tables
        exact = torch.full((tables.numel() + 64,), 2**30, dtype=torch.int32)[: tables.numel()].copy_(tables.flatten())
        with run.split(count):
            check(run, Step(queries(2, 4, 64, HALF), pages, block_tables=exact.view(2, -1)))


@case
def padding_rows_are_zero_and_leave_the_others_exact(run: Implementation) -> None:
    for count in (1, 4):
        step = Step(queries(4, 4, 64, HALF), cached([700, 1, 0, 513]))
        with run.split(count):
            found = run.decode(step)
        assert torch.equal(found[2], torch.zeros_like(found[2]))
        assert_close(found, expected(step))


@case
def every_head_size_is_served(run: Implementation) -> None:
    for head_size, dtype in itertools.product(HEAD_SIZES, run.one_dtype):
        with run.split(2):
            check(run, Step(queries(2, 4, head_size, dtype), cached([150, 9], head_size=head_size, dtype=dtype)))


@case
def every_type_is_served(run: Implementation) -> None:
    for dtype in run.dtypes:
        check(run, Step(queries(2, 4, 128, dtype), cached([530, 9], head_size=128, dtype=dtype)))


@case
def every_group_is_served_and_its_neighbours_rows_stay(run: Implementation) -> None:
    for group, count in itertools.product(run.some((*GROUPS, 17, 40)), (1, 2)):
        step = Step(queries(2, 2 * group, 64, HALF), cached([130, 20]))
        around = torch.full((4, 2 * group, 64), 9.0, dtype=HALF, device=run.device)
        with run.split(count):
            found = run.decode(step, around[1:3])
        assert_close(found, expected(step))
        assert bool((around[[0, 3]] == 9.0).all())


@case
def every_page_size_is_served(run: Implementation) -> None:
    for page, count in itertools.product(run.some(PAGES), (1, 3)):
        with run.split(count):
            check(run, Step(queries(3, 4, 64, HALF), cached([300, 128, 1], block_size=page)))


@case
def a_cache_of_float32_has_pages_of_four(run: Implementation) -> None:
    step = Step(queries(2, 4, 64, torch.float32), cached([70, 33], dtype=torch.float32))
    assert step.cached.key_cache.shape[-1] == 4
    check(run, step)


@case
def alibi_counts_from_the_last_token(run: Implementation) -> None:
    for length, count in itertools.product((1, 65, 300), (1, 2)):
        with run.split(count):
            dtype = run.dtypes[-1]
            check(run, Step(queries(1, 8, 64, dtype), cached([length], dtype=dtype), slopes=slopes_of(8)))


@case
def more_than_1024_partitions_are_joined(run: Implementation) -> None:
    if run.name == "triton":
        with run.split(1025, block_n=16, whole_pages=False):
            step = Step(queries(1, 1, 16, HALF), cached([1025 * 16], kv_heads=1, head_size=16, block_size=64))
            assert error_of(run, step) < 1e-3
    else:
        step = Step(queries(1, 1, 8, HALF), cached([1024 * 512 + 1], kv_heads=1, head_size=8, block_size=64))
        assert error_of(run, step) < 1e-3


@case
def long_half_precision_sums_are_right_to_a_thousandth(run: Implementation) -> None:
    with run.split(1):
        assert error_of(run, Step(queries(1, 2, 64, HALF), cached([16_384], kv_heads=1, block_size=64))) < 1e-3


@case
def a_maximum_that_is_only_a_bound_changes_nothing(run: Implementation) -> None:
    step = Step(queries(2, 4, 64, HALF), cached([100, 3], spare_columns=8192))
    reference = run.decode(replace(step, max_seq_len=100))
    assert_close(reference, expected(step))
    for limit in (101, 600, 131_072):
        assert_close(run.decode(replace(step, max_seq_len=limit)), expected(step))


@case
def a_table_narrower_than_the_maximum_bounds_it(run: Implementation) -> None:
    check(run, Step(queries(2, 4, 64, HALF), cached([600, 32], spare_columns=0), max_seq_len=10**6))
    pages = cached([600])
    step = Step(queries(1, 4, 64, HALF), pages, max_seq_len=40)
    assert_close(run.decode(step), attention(step.query, pages.keys[0][:40], pages.values[0][:40], scale=step.scale))


@case
def pages_whose_offset_passes_two_to_the_31_are_read(run: Implementation) -> None:
    small = cached([16], kv_heads=8, head_size=128)
    shape = (FAR_PAGE + 2, 8, 16, 16, 8)
    # On a CPU nobody touches all but one page of it: address space, not memory.
    keys = torch.empty(shape, dtype=HALF, device=run.device)
    values = torch.empty(FAR_PAGE + 2, 8, 128, 16, dtype=HALF, device=run.device)
    page = small.block_tables[0, 0]
    keys[FAR_PAGE + 1] = small.key_cache[page].to(run.device)
    values[FAR_PAGE + 1] = small.value_cache[page].to(run.device)
    table = torch.tensor([[FAR_PAGE + 1]], dtype=torch.int32)
    check(run, Step(queries(1, 8, 128, HALF), replace(small, key_cache=keys, value_cache=values, block_tables=table)))


@case
def quantised_caches_are_refused_before_any_launch(run: Implementation) -> None:
    pages = cached([5])
    step = Step(queries(1, 4, 64, HALF), pages)
    for name in ("fp8", "fp8_e4m3", "fp8_e5m2"):
        refused(run, name, replace(step, kv_cache_dtype=name))
    refused(run, "uint8", replace(step, cached=replace(pages, key_cache=pages.key_cache.view(torch.uint8))))


def refused(run: Implementation, text: str, step: Step) -> None:
    """The step is refused, and nothing was written."""
    out = torch.full_like(step.query, 7.0)
    there = out.to(run.device, copy=True)
    with pytest.raises(NotImplementedError, match=text):
        run.decode(step, there)
    assert torch.equal(there.cpu(), out)


@case_of_triton
def a_captured_graph_follows_the_lengths(run: Implementation) -> None:
    """Captured at the longest length there may be, replayed with short ones and another table."""
    kernels = importlib.import_module("kernels.paged_attention_v2_triton")  # it imports Triton
    pages = cached([100, 3, 0, 2000], spare_columns=8192, kv_heads=1, head_size=128)
    step = Step(queries(4, 8, 128, HALF), pages, max_seq_len=131_072)
    query, tables, lengths = (tensor.to(run.device) for tensor in (step.query, step.tables, pages.lengths))
    caches = [cache.to(run.device) for cache in (pages.key_cache, pages.value_cache)]
    out, unused = torch.full_like(query, float("nan")), query[:0]
    others, narrow = torch.zeros_like(tables), torch.full_like(lengths, 1)

    def launch() -> None:
        kernels.paged_attention_v2(
            out,
            unused,
            unused,
            unused,
            query,
            *caches,
            1,
            step.scale,
            others,
            narrow,
            16,
            step.limit,
            None,
            "auto",
            1,
            1,
        )

    launch()  # what is compiled while a graph is captured would be lost
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    others.copy_(tables)
    narrow.copy_(lengths)
    graph.replay()
    assert_close(out.cpu(), expected(step))
