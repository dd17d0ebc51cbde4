"""Cases of prefill, for any implementation: each is given one, asks it, and compares with the dense answer.

What only the Triton kernel has is in `prefill_triton_cases.py`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from tests.kernels.dense import assert_close, slopes_of
from tests.kernels.implementations import Case, Implementation, registered
from tests.kernels.prefill import Prefill, expected, prefill

HALF = torch.float16
HEAD_SIZES = (64, 80, 96, 112, 120, 128, 192, 256)
GROUPS = (1, 3, 5, 6, 7, 12, 24)
PAGES = (8, 16, 24, 32, 40, 64)

CASES: dict[str, Case] = {}
case = registered(CASES)


def check(run: Implementation, step: Prefill) -> None:
    """The implementation gives the dense answer."""
    assert_close(run.prefill(step), expected(step))


def refused(run: Implementation, kind: type[Exception], text: str, step: Prefill) -> None:
    """The step is refused, and nothing was written."""
    out = torch.full_like(step.query, 7.0)
    there = out.to(run.device, copy=True)
    with pytest.raises(kind, match=text):
        run.prefill(step, there)
    assert torch.equal(there.cpu(), out)


@case
def stale_values_in_the_last_page_do_not_reach_the_output(run: Implementation) -> None:
    for context in (1, 17, 63, 64, 65, 130):
        check(run, prefill([context], [5]))


@case
def any_number_of_new_tokens_sees_its_context_and_its_past(run: Implementation) -> None:
    for new, context in itertools.product((1, 2, 31, 33, 64, 65, 200), (0, 16, 100)):
        check(run, prefill([context], [new], group=1))


@case
def sequences_without_context_stand_beside_others(run: Implementation) -> None:
    check(run, prefill([33, 0, 200, 0, 15], [1, 80, 100, 1, 17]))


@case
def a_sequence_without_context_never_reads_its_table(run: Implementation) -> None:
    step = prefill([0, 0], [70, 5])
    for table in ((2, 0), (2, 1)):
        tables = torch.full(table, 2**30, dtype=torch.int32)
        bare = replace(step, cached=replace(step.cached, block_tables=tables))
        assert_close(run.prefill(bare), expected(step))
    empty = replace(step.cached, key_cache=step.cached.key_cache[:0], value_cache=step.cached.value_cache[:0])
    assert_close(run.prefill(replace(step, cached=empty)), expected(step))


@case
def table_entries_beyond_the_context_may_be_anything(run: Implementation) -> None:
    check(run, prefill([17, 100], [3, 40], spare_columns=3))


@case
def every_head_size_is_served(run: Implementation) -> None:
    for head_size, dtype in itertools.product(HEAD_SIZES, run.one_dtype):
        check(run, prefill([70, 33], [20, 3], head_size=head_size, dtype=dtype))


@case
def every_group_is_served_and_its_neighbours_rows_stay(run: Implementation) -> None:
    for group in run.some(GROUPS):
        step = prefill([70], [15], group=group)
        wide = torch.full((20, *step.query.shape[1:]), 7.0, dtype=HALF)
        found = run.prefill(step, wide)
        assert_close(found[:15], expected(step))
        assert bool((found[15:] == 7).all())


@case
def every_page_size_is_served(run: Implementation) -> None:
    for page, dtype in itertools.product(run.some(PAGES), run.one_dtype):
        check(run, prefill([150, 7], [9, 70], block_size=page, dtype=dtype))


@case
def windows_hide_what_is_too_far(run: Implementation) -> None:
    for window, alibi in itertools.product((1, 8, 63, 64, 65, 128, 512, 4095), (False, True)):
        step = prefill([600, 0, 64], [70, 130, 1])
        check(run, replace(step, window=window, slopes=slopes_of(4) if alibi else None))


@case
def tokens_outside_every_window_are_not_read(run: Implementation) -> None:
    for window in (1, 8, 64, 100, 345, 537):
        step = replace(prefill([600], [40]), window=window)
        reference = expected(step)
        table = step.cached.block_tables[0]
        first_visible = 600 - window + 1
        for token in range(first_visible):
            page, slot = table[token // 16], token % 16
            step.cached.key_cache[page, :, :, slot] = float("nan")
            step.cached.value_cache[page, :, :, slot] = float("inf")
        if run.device == "cpu":
            table[: first_visible // 16] = 2**30
        assert_close(run.prefill(step), reference)


@case
def a_window_of_zero_is_no_window(run: Implementation) -> None:
    step = prefill([100], [40])
    for window in (0, -1):
        assert_close(run.prefill(replace(step, window=window)), expected(step))


@case
def alibi_counts_from_the_query(run: Implementation) -> None:
    for group in (1, 3):
        step = prefill([100, 0], [40, 33], group=group)
        check(run, replace(step, slopes=slopes_of(2 * group)))


@case
def a_long_context_is_right_to_a_thousandth(run: Implementation) -> None:
    step = prefill([16384 - 3], [3], kv_heads=1, block_size=64)
    reference = expected(step)
    assert float((run.prefill(step).double() - reference).norm() / reference.norm()) < 1e-3


@case
def an_input_bound_above_the_real_lengths_changes_nothing(run: Implementation) -> None:
    step = prefill([33, 5], [4, 20])
    check(run, replace(step, max_input_len=500))


@case
def sequences_without_new_tokens_are_left_alone(run: Implementation) -> None:
    check(run, prefill([33, 12, 0], [4, 0, 0]))


@case
def pages_whose_offset_passes_two_to_the_31_are_read(run: Implementation) -> None:
    first = 2**31 // (16 * 8 * 128) + 1
    step = prefill([40], [5], kv_heads=8, head_size=128, group=1)
    old = (step.cached.key_cache, step.cached.value_cache)
    far = [torch.empty(first + cache.shape[0], *cache.shape[1:], dtype=HALF, device=run.device) for cache in old]
    for large, small in zip(far, old, strict=True):
        large[first:] = small.to(run.device)
    tables = step.cached.block_tables + first
    moved = replace(step.cached, key_cache=far[0], value_cache=far[1], block_tables=tables)
    assert_close(run.prefill(replace(step, cached=moved)), expected(step))


@case
def quantised_caches_are_refused_before_any_launch(run: Implementation) -> None:
    step = prefill([16], [5])
    quantised = [cache.to(torch.uint8) for cache in (step.cached.key_cache, step.cached.value_cache)]
    eighth = replace(step.cached, key_cache=quantised[0], value_cache=quantised[1])
    for name in ("fp8", "fp8_e4m3", "fp8_e5m2"):
        for pages in (step.cached, eighth):
            refused(run, NotImplementedError, name, replace(step, kv_cache_dtype=name, cached=pages))
    refused(run, NotImplementedError, "uint8", replace(step, cached=eighth))


@case
def a_cache_of_float32_has_pages_of_four(run: Implementation) -> None:
    step = prefill([70, 33], [20, 3], dtype=torch.float32)
    assert step.cached.key_cache.shape[-1] == 4
    check(run, step)


@case
def every_type_is_served(run: Implementation) -> None:
    for dtype in run.dtypes:
        check(run, prefill([300, 0], [40, 70], dtype=dtype))


@case
def the_last_table_row_may_end_its_allocation(run: Implementation) -> None:
    step = prefill([33, 528], [5, 40], spare_columns=0)
    tables = step.cached.block_tables
    exact = torch.full((tables.numel() + 64,), 2**30, dtype=torch.int32)[: tables.numel()].copy_(tables.flatten())
    check(run, replace(step, cached=replace(step.cached, block_tables=exact.view(2, -1))))


@case
def a_table_narrower_than_its_context_is_refused_or_gives_nan(run: Implementation) -> None:
    step = prefill([16, 33], [5, 5])
    narrow = replace(step, cached=replace(step.cached, block_tables=step.cached.block_tables[:, :2].contiguous()))
    if run.device == "cpu" or run.name == "torch":
        refused(run, ValueError, r"sequence 1: its context of 33 tokens takes 3 pages, .* names 2", narrow)
        return
    found = run.prefill(narrow)
    assert_close(found[:5], expected(step)[:5])
    assert bool(found[5:].isnan().all())
