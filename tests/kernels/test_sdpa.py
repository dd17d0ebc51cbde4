"""Prefill without a cache, in tiles of queries: the dense answer, within bounded memory, whatever the tile."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import sdpa_attention as module
from kernels.sdpa_attention import sdpa_attention
from tests.kernels.dense import assert_close, attention, queries, slopes_of
from tests.kernels.test_bounds import Watch, largest_storage

if TYPE_CHECKING:
    from collections.abc import Sequence

HALF = torch.float16


def flat(lengths: Sequence[int], heads: int, head_size: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return queries(sum(lengths), heads, head_size, dtype, seed)


def expected(parts: Sequence[torch.Tensor], lengths: Sequence[int], **options: Any) -> torch.Tensor:  # noqa: ANN401 - attention's
    ends = torch.tensor(list(lengths)).cumsum(0).tolist()
    spans = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    return torch.cat([attention(*(part[span] for part in parts), **options) for span in spans])


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 24), min_size=1, max_size=4),
    kv_heads=st.sampled_from([1, 2, 3]),
    group=st.sampled_from([1, 2, 4]),
    head_size=st.sampled_from([64, 192, 256]),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
    window=st.sampled_from([None, 0, 1, 7, 100]),
    alibi=st.booleans(),
    scores=st.sampled_from([1, 300, 5000, 1 << 23]),
)
def test_causal_attention_is_dense_attention_for_every_tile(  # noqa: PLR0913, PLR0917 - every one is a dimension
    lengths: list[int],
    kv_heads: int,
    group: int,
    head_size: int,
    dtype: torch.dtype,
    window: int | None,
    alibi: bool,  # noqa: FBT001 - hypothesis hands it over by name
    scores: int,
) -> None:
    heads = kv_heads * group
    query, key, value = (flat(lengths, n, head_size, dtype, seed) for seed, n in enumerate((heads, kv_heads, kv_heads)))
    slopes = slopes_of(heads) if alibi else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_SCORES", scores)
        found = sdpa_attention(query, key, value, lengths, scale=0.1, sliding_window=window, alibi_slopes=slopes)
    assert found.dtype == dtype
    assert_close(found, expected([query, key, value], lengths, scale=0.1, slopes=slopes, window=window))


@pytest.mark.parametrize("scores", [1, 100, 1 << 23])
def test_every_query_sees_every_key_where_attention_is_not_causal(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SCORES", scores)
    lengths, key_lengths = [3, 0, 7], [11, 4, 2]
    query = flat(lengths, 4, 256, HALF, 1)
    key, value = (flat(key_lengths, 2, 256, HALF, seed) for seed in (2, 3))
    found = sdpa_attention(query, key, value, lengths, key_lengths, scale=0.1, causal=False)
    rows = []
    for mine, others in ((slice(0, 3), slice(0, 11)), (slice(3, 10), slice(15, 17))):
        grouped = [tensor[others].double().repeat_interleave(2, 1) for tensor in (key, value)]
        weights = torch.einsum("qhd,khd->hqk", query[mine].double(), grouped[0]).mul(0.1).softmax(-1)
        rows.append(torch.einsum("hqk,khd->qhd", weights, grouped[1]))
    assert_close(found, torch.cat(rows))


def test_tokens_without_keys_and_beyond_the_lengths_are_zeros() -> None:
    query, key = flat([9], 2, 256, HALF, 1), flat([9], 2, 256, HALF, 2)
    assert not sdpa_attention(query, key, key, [3], scale=1.0)[3:].any()
    assert not sdpa_attention(query, key, key, [9], [0], scale=1.0, causal=False).any()
    assert not sdpa_attention(query, key, key, [], scale=1.0).any()


def test_logits_that_overflow_half_precision_before_scaling_are_right() -> None:
    large = flat([33], 2, 256, HALF, 1) * 40
    value = flat([33], 2, 256, HALF, 2)
    found = sdpa_attention(large, large, value, [33], scale=256**-0.5)
    assert_close(found, expected([large, large, value], [33], scale=256**-0.5))


def tall(length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    query, key, value = (flat([length], heads, 64, torch.float32, heads) for heads in (4, 1, 1))
    return query, key, value


@pytest.mark.parametrize(("scores", "length"), [(1, 150), (1 << 14, 700), (1 << 17, 2800)])
def test_no_tensor_is_larger_than_the_bound(scores: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SCORES", scores)
    query, key, value = tall(length)
    largest = largest_storage([query, key, value], lambda: sdpa_attention(query, key, value, [length], scale=0.1))
    assert largest <= max(scores, 4 * length, query.numel())


@pytest.mark.parametrize("slopes", [None, slopes_of(4)])
def test_at_most_three_tensors_of_scores_live_at_once(
    slopes: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, length = 1 << 18, 2048
    monkeypatch.setattr(module, "MAX_SCORES", scores)
    query, key, value = tall(length)
    inputs = {tensor.untyped_storage().data_ptr() for tensor in (query, key, value)}
    seen: dict[int, weakref.ref[torch.Tensor]] = {}
    most = [0]

    def see(_: str, results: list[torch.Tensor]) -> None:
        seen.update({id(result): weakref.ref(result) for result in results})
        alive = [tensor.untyped_storage() for ref in seen.values() if (tensor := ref()) is not None]
        sizes = {storage.data_ptr(): storage.nbytes() for storage in alive if storage.data_ptr() not in inputs}
        most[0] = max(most[0], sum(sizes.values()))

    with Watch(see):
        sdpa_attention(query, key, value, [length], scale=0.1, alibi_slopes=slopes)
    small = scores  # elements of everything that is no tensor of scores: the tile's queries, positions, one output
    assert 4 * scores <= most[0] <= 4 * (3 * scores + query.numel() + small)


@pytest.mark.parametrize(
    ("lengths", "key_lengths", "options", "fault"),
    [
        ([3], [2], {}, "as many keys as queries"),
        ([3, 1], [4], {"causal": False}, "2 sequences of queries, 1 of keys"),
        ([5], None, {}, "the query has 4"),
        ([4], [5], {"causal": False}, "the key has 4"),
    ],
)
def test_contradictory_lengths_are_refused(
    lengths: list[int], key_lengths: list[int] | None, options: dict[str, Any], fault: str
) -> None:
    tensor = flat([4], 2, 64, HALF, 1)
    with pytest.raises(ValueError, match=fault):
        sdpa_attention(tensor, tensor, tensor, lengths, key_lengths, scale=1.0, **options)


def test_heads_that_cannot_be_divided_are_refused() -> None:
    query, key = flat([4], 3, 64, HALF, 1), flat([4], 2, 64, HALF, 2)
    with pytest.raises(ValueError, match="3 query heads cannot be divided among 2 KV heads"):
        sdpa_attention(query, key, key, [4], scale=1.0)


@pytest.mark.parametrize("options", [{"sliding_window": 4}, {"alibi_slopes": slopes_of(2)}])
def test_a_window_or_slopes_without_causality_are_refused(options: dict[str, Any]) -> None:
    tensor = flat([4], 2, 64, HALF, 1)
    with pytest.raises(NotImplementedError, match="not causal"):
        sdpa_attention(tensor, tensor, tensor, [4], scale=1.0, causal=False, **options)
