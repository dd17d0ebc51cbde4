"""Cases of prefill that only the Triton kernel has: splits of the keys, strides, tiles of any size, captured graphs."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import muh_dispatch
from tests.kernels.dense import assert_close, queries, slopes_of
from tests.kernels.implementations import Case, Implementation, registered
from tests.kernels.prefill import Prefill, expected, prefill
from tests.kernels.prefill_cases import HEAD_SIZES, PAGES, check, refused

HALF = torch.float16

CASES: dict[str, Case] = {}
case = registered(CASES)


@case
def keys_split_among_programs_give_the_same_answer(run: Implementation) -> None:
    for splits, window, alibi in ((2, None, False), (3, 100, False), (16, None, True), (4, 3, True)):
        step = prefill([600, 0, 30], [70, 1, 130], group=3, spare_columns=1)
        step = replace(step, window=window, slopes=slopes_of(6) if alibi else None)
        with run.split(splits):
            wide = torch.full((210, *step.query.shape[1:]), 7.0, dtype=HALF)
            found = run.prefill(step, wide)
        assert_close(found[:201], expected(step))
        assert bool((found[201:] == 7).all())


@case
def the_number_of_splits_fills_the_device_and_no_more(_: Implementation) -> None:
    prefix_prefill = importlib.import_module("kernels.prefix_prefill")  # it imports Triton

    splits = prefix_prefill.splits_of
    alone = replace(muh_dispatch.prefill_config("h200", "float16", 256), resident=1)
    in_pairs = replace(alone, resident=2)
    assert splits(64, 34816, 132, alone) == 2
    assert splits(2, 32768, 16, in_pairs) == 16
    assert splits(2, 1500, 16, in_pairs) == 2
    assert splits(512, 1 << 20, 132, in_pairs) == 1
    assert splits(1, 16, 132, in_pairs) == 1


@case
def nothing_to_do_is_no_launch(run: Implementation) -> None:
    check(run, prefill([33], [0]))
    assert run.prefill(prefill([], [])).shape[0] == 0


@case
def strided_views_are_read_where_they_are(run: Implementation) -> None:
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
    assert_close(run.prefill(strided, torch.full((33, heads, size), float("nan"), dtype=HALF)), expected(step))


@case
def a_head_size_without_a_row_is_refused_as_not_implemented(run: Implementation) -> None:
    refused(run, NotImplementedError, "head size 512; there are", prefill([5], [3], head_size=512))


@case
def contradictory_shapes_are_refused(run: Implementation) -> None:
    step = prefill([16, 33], [5, 5])
    odd = queries(10, 3, 64, HALF)
    refused(run, ValueError, "3 query heads cannot be divided among 2 KV heads", replace(step, query=odd))
    fewer = replace(step.cached, block_tables=step.cached.block_tables[:1])
    refused(run, ValueError, "1 tables and 2 context lengths for 2 sequences", replace(step, cached=fewer))


@st.composite
def prefills(draw: st.DrawFn, run: Implementation) -> Prefill:
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
        dtype=draw(st.sampled_from(run.dtypes)),
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
def any_shape_and_tile_give_the_dense_answer(run: Implementation) -> None:
    prefix_prefill = importlib.import_module("kernels.prefix_prefill")  # it imports Triton

    @settings(
        max_examples=40 if run.device == "cpu" else 8,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(
        step=prefills(run),
        blocks=TILES,
        stages=st.integers(1, 2),
        parts=st.integers(1, 2),
        splits=st.sampled_from([1, 1, 2, 5]),
    )
    def inner(step: Prefill, blocks: tuple[int, int], stages: int, parts: int, splits: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if run.device == "cpu":
                row = muh_dispatch.prefill_config("h200", "float32", 256)
                fixed = replace(row, block_m=blocks[0], block_n=blocks[1], num_stages=stages, key_parts=parts)
                patch.setattr(prefix_prefill, "config_for", lambda *_: fixed)
                patch.setattr(prefix_prefill, "splits_of", lambda *_: splits)
            assert_close(run.prefill(step), expected(step))

    inner()


@case
def a_captured_graph_follows_the_lengths(run: Implementation) -> None:
    """Captured for the most new tokens and context there may be, replayed with fewer."""
    prefix_prefill = importlib.import_module("kernels.prefix_prefill")  # it imports Triton
    step = prefill([100, 0, 33], [40, 7, 1], head_size=128, spare_columns=2048)
    query, key, value = (tensor.to(run.device) for tensor in (step.query, step.key, step.value))
    pages = [getattr(step.cached, name).to(run.device) for name in ("key_cache", "value_cache", "block_tables")]
    lengths = step.cached.lengths.to(run.device)
    totals = lengths + torch.tensor(step.new, dtype=torch.int32, device=run.device)
    starts = step.starts[:-1].to(run.device)
    out, now, all_now = torch.full_like(query, float("nan")), torch.zeros_like(lengths), torch.ones_like(totals)

    def launch() -> None:
        prefix_prefill.context_attention_fwd(query, key, value, out, "auto", *pages, starts, all_now, now, 512)

    launch()  # what is compiled while a graph is captured would be lost
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    now.copy_(lengths)
    all_now.copy_(totals)
    graph.replay()
    assert_close(out.cpu(), expected(step))
