"""The bytes that a tile takes, against what was read off compiled kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.device.shared_memory import (
    LAUNCH_STAGES,
    SMALLEST_TILE,
    flash_attention_tile_bytes,
    largest_tile,
    padded,
)

LIMIT = 49_152


@pytest.mark.parametrize(
    ("rows", "keys", "head_dim", "stages", "size"),
    [
        (64, 64, 128, 1, 40_960),
        (32, 32, 256, 1, 34_816),
        (64, 32, 256, 1, 53_248),
        (64, 64, 128, LAUNCH_STAGES, 90_112),
        (64, 32, 128, 2, 36_864),
        (32, 32, 128, 3, 43_008),
    ],
)
def test_the_bytes_are_those_of_the_compiled_kernels(
    rows: int, keys: int, head_dim: int, stages: int, size: int
) -> None:
    assert flash_attention_tile_bytes(rows, keys, head_dim, 2, stages) == size


@pytest.mark.parametrize(
    ("rows", "keys", "head_dim", "stages"),
    [(64, 64, 128, {1}), (64, 32, 128, {1, 2}), (32, 32, 128, {1, 2, 3}), (32, 32, 256, {1}), (64, 32, 256, set())],
)
def test_the_stages_that_fit_are_those_that_were_compiled(
    rows: int, keys: int, head_dim: int, stages: set[int]
) -> None:
    fitting = {n for n in range(1, 6) if flash_attention_tile_bytes(rows, keys, head_dim, 2, n) <= LIMIT}
    assert fitting == stages


@pytest.mark.parametrize("wrong", range(5))
def test_a_size_below_one_is_refused(wrong: int) -> None:
    arguments = [64, 64, 128, 2, 1]
    arguments[wrong] = 0
    with pytest.raises(ValueError, match="at least 1"):
        flash_attention_tile_bytes(*arguments)


@pytest.mark.parametrize(("head_dim", "width"), [(1, 1), (64, 64), (80, 128), (96, 128), (192, 256), (256, 256)])
def test_head_sizes_are_padded_to_the_next_power_of_two(head_dim: int, width: int) -> None:
    assert padded(head_dim) == width


def test_the_largest_tile_follows_head_size_and_stages() -> None:
    assert largest_tile(128, 2, 1, LIMIT) == 64
    assert largest_tile(256, 2, 1, LIMIT) == 32
    assert largest_tile(256, 4, 1, LIMIT) == 16
    assert largest_tile(256, 4, 3, LIMIT) is None


@given(st.integers(1, 512), st.sampled_from([1, 2, 4]), st.integers(1, 4), st.integers(1, 2**20))
def test_the_largest_tile_fits_and_the_next_one_does_not(head_dim: int, size: int, stages: int, limit: int) -> None:
    best = largest_tile(head_dim, size, stages, limit)
    width = padded(head_dim)
    following = SMALLEST_TILE if best is None else best * 2
    assert best is None or flash_attention_tile_bytes(best, best, width, size, stages) <= limit
    assert flash_attention_tile_bytes(following, following, width, size, stages) > limit
