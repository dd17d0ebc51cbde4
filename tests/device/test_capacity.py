"""Capacity of the KV cache: what a rank's memory holds, measured and fitted, by both accountings."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.device.budget import RIGHT, STOCK, Budget, Cache, Setting, budget, measured_fit
from orchestrator.device.graphs import LARGEST_BATCH, capture, padded_batch
from orchestrator.device.kv_cache import (
    Accounting,
    blocks_in,
    cache_bytes,
    kv_heads_of_rank,
    sequences_in,
    tokens_in,
)
from orchestrator.device.peak import PeakFit, Point, fit_peak, peak_of_run
from orchestrator.device.quantity import Figures, Known, Unknown
from tests.device.targets import figures, target

BI100 = figures("bi100")
RUNS = target("bi100").memory_runs


def made(utilisation: float, tokens: int, context: int = 100_000, ranks: int = 4) -> Budget:
    return budget(BI100, RUNS, Setting(utilisation, tokens, context, 8, ranks, eager=True))


def cache(found: Budget, accounting: str) -> Cache:
    return next(cache for cache in found.caches if cache.accounting == accounting)


def value(quantity: object) -> float:
    assert isinstance(quantity, Known)
    return quantity.value


# -------------------------------------------------------------------------------------------------------- blocks
@pytest.mark.parametrize(
    ("layers", "block", "token"), [(1, 16_384, 1_024), (40, 655_360, 40_960), (10, 163_840, 10_240)]
)
def test_a_block_has_the_bytes_of_its_layers(layers: int, block: int, token: int) -> None:
    found = Accounting(layers, kv_heads=1, head_dim=256, block_tokens=16, element_bytes=2)
    assert (found.block_bytes, found.token_bytes) == (block, token)


@pytest.mark.parametrize(("heads", "ranks", "share"), [(2, 4, 1), (8, 4, 2), (2, 1, 2), (1, 8, 1)])
def test_a_rank_has_its_share_of_the_heads_and_at_least_one(heads: int, ranks: int, share: int) -> None:
    assert kv_heads_of_rank(heads, ranks) == share


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Accounting(0, 1, 256, 16, 2)
    with pytest.raises(ValueError, match="at least one token"):
        sequences_in(1, 16, 0)


@pytest.mark.parametrize(
    ("blocks", "context", "count"), [(10, 160, 1), (10, 161, 0), (10, 80, 2), (10, 17, 5), (0, 1, 0)]
)
def test_sequences_take_whole_blocks(blocks: int, context: int, count: int) -> None:
    assert sequences_in(blocks, 16, context) == count


sizes = st.integers(1, 10**12)


@given(sizes, st.floats(0.01, 1), st.floats(0, 0.5), sizes, st.integers(1, 10**7))
def test_more_memory_never_means_fewer_blocks(memory: int, share: float, more: float, peak: int, block: int) -> None:
    fewer = blocks_in(cache_bytes(memory, share, peak), block)
    assert blocks_in(cache_bytes(memory, min(1, share + more), peak), block) >= fewer
    assert blocks_in(cache_bytes(2 * memory, share, peak), block) >= fewer
    assert blocks_in(cache_bytes(memory, share, 2 * peak), block) <= fewer
    assert fewer >= 0


@given(st.integers(0, 10**6), st.integers(1, 64), st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_longer_context_never_fits_more_often(blocks: int, block: int, context: int, more: int) -> None:
    count = sequences_in(blocks, block, context)
    assert sequences_in(blocks, block, context + more) <= count
    assert count * context <= tokens_in(blocks, block)


# ----------------------------------------------------------------------------------------------------------- fit
points = st.lists(st.builds(Point, st.integers(1, 10**6), st.integers(0, 10**11)), min_size=2, max_size=6)


@given(points)
def test_the_fit_is_the_line_of_least_squares(measured: list[Point]) -> None:
    found = fit_peak(measured)
    if len({point.batched_tokens for point in measured}) == 1:
        assert found is None
        return
    slope, constant = statistics.linear_regression(
        [point.batched_tokens for point in measured], [point.peak_bytes for point in measured]
    )
    assert found is not None
    assert found.bytes_per_token == pytest.approx(slope, rel=1e-6, abs=1e-3)
    assert found.constant_bytes == pytest.approx(constant, rel=1e-6, abs=1e3)
    assert sum(found.residuals_bytes) == pytest.approx(0, abs=1e3)


def test_one_batch_size_tells_nothing_about_another() -> None:
    assert fit_peak([Point(8192, 1.0), Point(8192, 2.0)]) is None
    assert fit_peak([]) is None
    assert measured_fit(BI100, RUNS[:2]) == Unknown(("memory_runs",))


def test_the_fit_to_the_measured_runs_leaves_little() -> None:
    found = measured_fit(BI100, RUNS)
    assert isinstance(found, PeakFit)
    assert [point.batched_tokens for point in found.points] == [8192, 8192, 4096, 100_000]
    # 16,878 blocks for 40 layers and 67,512 for 10 are the same bytes, so the same peak.
    assert found.points[0].peak_bytes == found.points[1].peak_bytes
    assert found.uncertainty_bytes < 0.02 * found.constant_bytes
    assert 70_000 < found.bytes_per_token < 90_000


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_larger_batch_never_has_a_smaller_peak_on_the_device(tokens: float, more: float) -> None:
    found = measured_fit(BI100, RUNS)
    assert isinstance(found, PeakFit)
    assert found.peak_bytes(tokens + more) >= found.peak_bytes(tokens)


@given(sizes, st.floats(0.01, 1), st.integers(0, 10**5), st.integers(1, 10**6))
def test_a_run_gives_back_the_blocks_that_its_peak_was_taken_from(
    memory: int, share: float, blocks: int, block: int
) -> None:
    if blocks * block > memory * share:
        return
    peak = peak_of_run(memory, share, blocks, block)
    # The rounding of a large product may be worth one block.
    assert blocks_in(cache_bytes(memory, share, peak), block) - blocks in {-1, 0}


# -------------------------------------------------------------------------------------------------------- budgets
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.utilisation}, {run.batched_tokens}, {run.layers} layers")
def test_a_measured_setting_has_the_measured_blocks(run: object) -> None:
    index = next(i for i, other in enumerate(RUNS) if other is run)
    measured = RUNS[index]
    found = made(measured.utilisation, measured.batched_tokens, measured.context)
    counted = cache(found, STOCK if measured.layers == 40 else RIGHT)
    assert (counted.blocks, counted.basis) == (Known(measured.blocks), "measured")
    assert counted.tokens == Known(16 * measured.blocks)
    assert counted.tokens_spread == Known(0)


def test_the_other_accounting_of_a_measured_setting_is_derived_from_its_peak() -> None:
    found = cache(made(0.9, 100_000), RIGHT)
    assert found.basis == "derived"
    # Four times the blocks of the run that was measured, and up to three that its rounding hid.
    assert 0 <= value(found.blocks) - 4 * 5507 <= 3


def test_any_other_setting_is_fitted_with_what_the_fit_leaves() -> None:
    found = cache(made(0.95, 32_768), STOCK)
    assert found.basis == "fitted"
    assert value(found.tokens_spread) > 0


def test_disputed_weights_leave_a_disputed_activation_and_a_plain_cache() -> None:
    found = made(0.9, 32_768)
    assert isinstance(found.activation, Known)
    assert len(found.activation.values) == 2
    assert isinstance(found.cache_bytes, Known)
    assert len(found.cache_bytes.values) == 1


def test_uses_add_up_to_what_the_engine_is_given() -> None:
    found = made(0.9, 32_768)
    assert value(found.peak) + value(found.cache_bytes) == pytest.approx(value(found.given), abs=1)
    assert value(found.given) + value(found.reserve) == pytest.approx(value(found.memory))


@given(st.floats(0.01, 1), st.floats(0, 0.5), st.integers(1, 300_000), st.integers(0, 100_000))
def test_capacity_grows_with_the_share_and_shrinks_with_the_batch(
    share: float, more: float, tokens: int, further: int
) -> None:
    def fitted(utilisation: float, batched: int) -> float:
        return value(cache(budget(BI100, RUNS, Setting(utilisation, batched, 1, 1, 4)), STOCK).blocks)

    if any(run.batched_tokens in {tokens, tokens + further} for run in RUNS):
        return  # measured, and not on the line
    assert fitted(min(1, share + more), tokens) >= fitted(share, tokens)
    assert fitted(share, tokens + further) <= fitted(share, tokens)


@pytest.mark.parametrize("name", ["h200", "v100"])
def test_where_no_run_was_measured_the_capacity_is_unknown_for_want_of_one(name: str) -> None:
    found = budget(figures(name), target(name).memory_runs, Setting(0.9, 8192, 100_000, 8, 4))
    assert found.peak == Unknown(("memory_runs",))
    assert {type(counted.blocks) for counted in found.caches} == {Unknown}
    assert {counted.basis for counted in found.caches} == {"unknown"}
    assert isinstance(found.given, Known)


def test_runs_say_nothing_about_another_tensor_parallelism() -> None:
    found = made(0.9, 8192, ranks=2)
    assert found.peak == Unknown(("memory_runs at tensor parallel 2",))
    assert isinstance(found.weights, Unknown)


@pytest.mark.parametrize("missing", ["device.memory_bytes", "model.head_dim", "engine.block_size", "model.kv_heads"])
def test_a_missing_figure_is_named_by_whatever_needs_it(missing: str) -> None:
    known: Figures = {name: quantity for name, quantity in BI100.items() if name != missing}
    found = budget(known, RUNS, Setting(0.95, 32_768, 100_000, 8, 4))
    for counted in found.caches:
        assert isinstance(counted.tokens, Unknown)
        assert missing in counted.tokens.missing


def test_graphs_take_nothing_in_eager_mode_and_an_unknown_amount_else() -> None:
    assert made(0.9, 8192).graphs == Known(0)
    assert budget(BI100, RUNS, Setting(0.9, 8192, 1, 1, 4, eager=False)).graphs == Unknown(
        ("engine.graph_capture_bytes",)
    )


# --------------------------------------------------------------------------------------------------------- graphs
@pytest.mark.parametrize(("batch", "padded"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16), (256, 256)])
def test_a_batch_is_padded_to_one_that_is_captured(batch: int, padded: int) -> None:
    assert padded_batch(batch) == padded


def test_what_is_captured_ends_with_the_sequences_and_the_shorter_length() -> None:
    found = capture(8, 65_536, 100_000)
    assert found.batches == (1, 2, 4, 8)
    assert found.longest_tokens == 65_536
    assert capture(8, 65_536, 32_768).longest_tokens == 32_768
    assert capture(1, 1, 1).batches == (1,)
    assert capture(10**6, 1, 1).batches[-1] == LARGEST_BATCH


@pytest.mark.parametrize(
    ("batch", "tokens", "covered"),
    [(8, 65_536, True), (8, 65_537, False), (9, 10, False), (0, 10, False), (3, 1, True)],
)
def test_a_step_runs_from_a_graph_where_batch_and_length_are_captured(batch: int, tokens: int, covered: bool) -> None:  # noqa: FBT001 - a column
    assert capture(8, 65_536, 100_000).covers(batch, tokens) is covered


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 10**6))
def test_every_batch_up_to_the_sequences_is_covered(sequences: int, batch: int, tokens: int) -> None:
    found = capture(sequences, tokens, tokens)
    assert found.covers(batch, tokens) is (batch <= found.batches[-1])
    assert found.covers(min(sequences, LARGEST_BATCH), tokens)
