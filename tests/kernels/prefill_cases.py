"""Cases of the Triton prefill, run in a process of their own: `python -m tests.kernels.prefill_cases [cpu | cuda]`.

On `cpu` they run in Triton's interpreter, which the environment has to choose before Triton is imported. Prints one
JSON object a line: the case's name, and its failure or null.
"""

import itertools
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import prefix_prefill
from kernels.prefix_prefill import Tile
from tests.kernels.dense import Cached, assert_close, attention, cached, queries, slopes_of

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
HALF = torch.float16
HEAD_SIZES = (64, 80, 96, 112, 120, 128, 192, 256)
GROUPS = (1, 3, 5, 6, 7, 12, 24)
PAGES = (8, 16, 24, 32, 40, 64)
DTYPES = (HALF, torch.float32) if DEVICE == "cpu" else (HALF, torch.bfloat16, torch.float32)
"""The interpreter's bfloat16 products are garbage."""

Case = Callable[[], None]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Register a case under its sentence."""
    CASES[function.__name__.replace("_", " ")] = function
    return function


@dataclass(frozen=True)
class Prefill:
    """One prefill step; `cached` holds the context alone."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    cached: Cached
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
    dtype: torch.dtype = HALF,
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
    return Prefill(query, key, value, pages, tuple(new))


def run(step: Prefill, out: torch.Tensor | None = None) -> torch.Tensor:
    """Run the kernel on the cases' device; the output is full of NaN before."""
    out = torch.full_like(step.query, float("nan")) if out is None else out
    there = out.to(DEVICE)
    lengths = step.cached.lengths
    prefix_prefill.context_attention_fwd(
        step.query.to(DEVICE),
        step.key.to(DEVICE),
        step.value.to(DEVICE),
        there,
        step.kv_cache_dtype,
        step.cached.key_cache.to(DEVICE),
        step.cached.value_cache.to(DEVICE),
        step.cached.block_tables.to(DEVICE),
        step.starts[:-1].to(DEVICE),
        (lengths + torch.tensor(step.new, dtype=torch.int32)).to(DEVICE),
        lengths.to(DEVICE),
        max(step.new, default=0) if step.max_input_len is None else step.max_input_len,
        1.0,
        1.0,
        None if step.slopes is None else step.slopes.to(DEVICE),
        step.window,
    )
    return there.cpu()


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


def check(step: Prefill) -> None:
    """The kernel gives the dense answer."""
    assert_close(run(step), expected(step))


@case
def stale_values_in_the_last_page_do_not_reach_the_output() -> None:
    for context in (1, 17, 63, 64, 65, 130):
        check(prefill([context], [5]))


@case
def any_number_of_new_tokens_sees_its_context_and_its_past() -> None:
    for new, context in itertools.product((1, 2, 31, 33, 64, 65, 200), (0, 16, 100)):
        check(prefill([context], [new], group=1))


@case
def sequences_without_context_stand_beside_others() -> None:
    check(prefill([33, 0, 200, 0, 15], [1, 80, 100, 1, 17]))


@case
def a_sequence_without_context_never_reads_its_table() -> None:
    step = prefill([0, 0], [70, 5])
    for table in ((2, 0), (2, 1)):
        tables = torch.full(table, 2**30, dtype=torch.int32)
        bare = replace(step, cached=replace(step.cached, block_tables=tables))
        assert_close(run(bare), expected(step))
    empty = replace(step.cached, key_cache=step.cached.key_cache[:0], value_cache=step.cached.value_cache[:0])
    assert_close(run(replace(step, cached=empty)), expected(step))


@case
def table_entries_beyond_the_context_may_be_anything() -> None:
    check(prefill([17, 100], [3, 40], spare_columns=3))


@case
def every_head_size_is_served() -> None:
    for head_size, dtype in itertools.product(HEAD_SIZES, DTYPES):
        check(prefill([70, 33], [20, 3], head_size=head_size, dtype=dtype))


@case
def every_group_is_served_and_its_neighbours_rows_stay() -> None:
    for group in GROUPS:
        step = prefill([70], [15], group=group)
        wide = torch.full((20, *step.query.shape[1:]), 7.0, dtype=HALF)
        found = run(step, wide)
        assert_close(found[:15], expected(step))
        assert bool((found[15:] == 7).all())


@case
def every_page_size_is_served() -> None:
    for page, dtype in itertools.product(PAGES, DTYPES):
        check(prefill([150, 7], [9, 70], block_size=page, dtype=dtype))


@case
def windows_hide_what_is_too_far() -> None:
    for window, alibi in itertools.product((1, 8, 63, 64, 65, 128, 512, 4095), (False, True)):
        step = prefill([600, 0, 64], [70, 130, 1])
        check(replace(step, window=window, slopes=slopes_of(4) if alibi else None))


@case
def tokens_outside_every_window_are_not_read() -> None:
    for window in (1, 8, 64, 100, 345, 537):
        step = replace(prefill([600], [40]), window=window)
        reference = expected(step)
        table = step.cached.block_tables[0]
        first_visible = 600 - window + 1
        for token in range(first_visible):
            page, slot = table[token // 16], token % 16
            step.cached.key_cache[page, :, :, slot] = float("nan")
            step.cached.value_cache[page, :, :, slot] = float("inf")
        if DEVICE == "cpu":
            table[: first_visible // 16] = 2**30
        assert_close(run(step), reference)


@case
def a_window_of_zero_is_no_window() -> None:
    step = prefill([100], [40])
    for window in (0, -1):
        assert_close(run(replace(step, window=window)), expected(step))


@case
def alibi_counts_from_the_query() -> None:
    for group in (1, 3):
        step = prefill([100, 0], [40, 33], group=group)
        check(replace(step, slopes=slopes_of(2 * group)))


@case
def a_long_context_is_right_to_a_thousandth() -> None:
    step = prefill([16384 - 3], [3], kv_heads=1, block_size=64)
    reference = expected(step)
    assert float((run(step).double() - reference).norm() / reference.norm()) < 1e-3


@case
def keys_split_among_programs_give_the_same_answer() -> None:
    for splits, window, alibi in ((2, None, False), (3, 100, False), (16, None, True), (4, 3, True)):
        step = prefill([600, 0, 30], [70, 1, 130], group=3, spare_columns=1)
        step = replace(step, window=window, slopes=slopes_of(6) if alibi else None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prefix_prefill, "splits_of", lambda *_, splits=splits: splits)
            wide = torch.full((210, *step.query.shape[1:]), 7.0, dtype=HALF)
            found = run(step, wide)
        assert_close(found[:201], expected(step))
        assert bool((found[201:] == 7).all())


@case
def the_number_of_splits_fills_the_device_and_no_more() -> None:
    splits = prefix_prefill.splits_of
    assert splits(64, 34816, 132, 8) == 2
    assert splits(2, 32768, 16, 4) == 16
    assert splits(2, 1500, 16, 4) == 2
    assert splits(512, 1 << 20, 132, 4) == 1
    assert splits(1, 16, 132, 4) == 1


@case
def an_input_bound_above_the_real_lengths_changes_nothing() -> None:
    step = prefill([33, 5], [4, 20])
    check(replace(step, max_input_len=500))


@case
def sequences_without_new_tokens_are_left_alone() -> None:
    check(prefill([33, 12, 0], [4, 0, 0]))


@case
def nothing_to_do_is_no_launch() -> None:
    check(prefill([33], [0]))
    assert run(prefill([], [])).shape[0] == 0


@case
def strided_views_are_read_where_they_are() -> None:
    step = prefill([50], [33], group=3)
    heads, kv_heads, size = 6, 2, 64
    fused = torch.cat([tensor.flatten(1) for tensor in (step.query, step.key, step.value)], 1)
    query, key, value = torch.split(fused, [heads * size, kv_heads * size, kv_heads * size], 1)
    views = [part.view(33, -1, size) for part in (query, key, value)]
    both = torch.stack((step.cached.key_cache.flatten(1), step.cached.value_cache.flatten(1)), 1)
    pages = both.shape[0]
    caches = [
        both[:, half].view(pages, *shape)
        for half, shape in enumerate((step.cached.key_cache.shape[1:], step.cached.value_cache.shape[1:]))
    ]
    viewed = replace(step.cached, key_cache=caches[0], value_cache=caches[1])
    strided = replace(step, query=views[0], key=views[1], value=views[2], cached=viewed)
    assert_close(run(strided, torch.full((33, heads, size), float("nan"), dtype=HALF)), expected(step))


@case
def pages_whose_offset_passes_two_to_the_31_are_read() -> None:
    first = 2**31 // (16 * 8 * 128) + 1
    step = prefill([40], [5], kv_heads=8, head_size=128, group=1)
    old = (step.cached.key_cache, step.cached.value_cache)
    far = [torch.empty(first + cache.shape[0], *cache.shape[1:], dtype=HALF, device=DEVICE) for cache in old]
    for large, small in zip(far, old, strict=True):
        large[first:] = small.to(DEVICE)
    tables = step.cached.block_tables + first
    moved = replace(step.cached, key_cache=far[0], value_cache=far[1], block_tables=tables)
    assert_close(run(replace(step, cached=moved)), expected(step))


@case
def quantised_caches_are_refused_before_any_launch() -> None:
    step = prefill([16], [5])
    quantised = [cache.to(torch.uint8) for cache in (step.cached.key_cache, step.cached.value_cache)]
    eighth = replace(step.cached, key_cache=quantised[0], value_cache=quantised[1])
    for name in ("fp8", "fp8_e4m3", "fp8_e5m2"):
        for pages in (step.cached, eighth):
            refused(NotImplementedError, name, replace(step, kv_cache_dtype=name, cached=pages))
    refused(NotImplementedError, "uint8", replace(step, cached=eighth))


@case
def contradictory_shapes_are_refused() -> None:
    step = prefill([16, 33], [5, 5])
    odd = queries(10, 3, 64, HALF)
    refused(ValueError, "3 query heads cannot be divided among 2 KV heads", replace(step, query=odd))
    fewer = replace(step.cached, block_tables=step.cached.block_tables[:1])
    refused(ValueError, "1 tables and 2 context lengths for 2 sequences", replace(step, cached=fewer))


@case
def a_table_narrower_than_its_context_is_refused_or_gives_nan() -> None:
    step = prefill([16, 33], [5, 5])
    narrow = replace(step, cached=replace(step.cached, block_tables=step.cached.block_tables[:, :2].contiguous()))
    if DEVICE == "cpu":
        refused(ValueError, r"sequence 1: its context of 33 tokens takes 3 pages, its table names 2", narrow)
        return
    found = run(narrow)
    assert_close(found[:5], expected(step)[:5])
    assert bool(found[5:].isnan().all())


def refused(kind: type[Exception], text: str, step: Prefill) -> None:
    """The step is refused, and nothing was written."""
    out = torch.full_like(step.query, 7.0)
    with pytest.raises(kind, match=text):
        run(step, out)


@st.composite
def prefills(draw: st.DrawFn) -> Prefill:
    seqs = draw(st.integers(1, 3))
    length = st.one_of(st.integers(0, 40), st.integers(60, 200))
    contexts, new = (draw(st.lists(length, min_size=seqs, max_size=seqs)) for _ in range(2))
    step = prefill(
        contexts,
        new,
        group=draw(st.sampled_from([1, 2, 3, 5, 7, 8])),
        kv_heads=draw(st.integers(1, 2)),
        head_size=draw(st.sampled_from(HEAD_SIZES)),
        block_size=draw(st.sampled_from(PAGES)),
        dtype=draw(st.sampled_from(DTYPES)),
        spare_columns=draw(st.integers(0, 3)),
        seed=draw(st.integers(0, 2**20)),
    )
    return replace(
        step,
        slopes=draw(st.sampled_from([None, slopes_of(step.query.shape[1])])),
        window=draw(st.one_of(st.none(), st.integers(1, 250))),
    )


TILES = st.tuples(st.sampled_from([16, 32, 64]), st.sampled_from([16, 32, 64]))


@case
def any_shape_and_tile_give_the_dense_answer() -> None:
    @settings(
        max_examples=40 if DEVICE == "cpu" else 8, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(step=prefills(), blocks=TILES, stages=st.integers(1, 2), splits=st.sampled_from([1, 1, 2, 5]))
    def inner(step: Prefill, blocks: tuple[int, int], stages: int, splits: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if DEVICE == "cpu":
                patch.setattr(prefix_prefill, "tile_for", lambda *_: Tile(*blocks, 4, stages))
                patch.setattr(prefix_prefill, "splits_of", lambda *_: splits)
            assert_close(run(step), expected(step))

    inner()


def outcome(function: Case) -> str | None:
    """Run one case; return its failure."""
    try:
        function()
    except Exception:  # noqa: BLE001 - it is reported by name
        return traceback.format_exc()[-3000:]
    return None


def main(wanted: Sequence[str]) -> None:
    """Run the cases whose names hold a wanted text (all without one)."""
    warnings.filterwarnings("error")
    # The interpreter multiplies with numpy, which remarks on NaN in keys that are masked afterwards.
    warnings.filterwarnings("ignore", "invalid value encountered in matmul", RuntimeWarning)
    torch.set_num_threads(1)
    chosen: dict[str, Any] = {
        name: function for name, function in CASES.items() if not wanted or any(w in name for w in wanted)
    }
    for name, function in chosen.items():
        sys.stdout.write(json.dumps({"case": name, "failure": outcome(function)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[2:])
