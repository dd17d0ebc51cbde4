# ruff: noqa: SLF001 - the cases fix what the kernel plans and look at its work memory
"""What Triton's decode alone must get right, for its interpreter: `test_triton_decode.py` runs this in a child process.

What any decode must get right is in `decode_cases.py`.

bfloat16 is left to a GPU: products of bfloat16 are garbage in the interpreter.
"""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import muh_dispatch
from kernels import paged_attention_v2_triton as triton_decode
from tests.kernels import decode
from tests.kernels.decode import Buffers, Step
from tests.kernels.dense import assert_close, cached, queries, slopes_of

HALF = torch.float16

Split = Callable[[int], None]


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> Split:
    """Return a function that fixes into how many parts sequences are split."""

    def fix(count: int) -> None:
        triton_decode._plan.cache_clear()
        monkeypatch.setattr(triton_decode, "split_count", lambda *_: count)

    return fix


@pytest.fixture(autouse=True)
def _forget_plans() -> None:
    triton_decode._plan.cache_clear()


def into(step: Step, out: torch.Tensor, work: Buffers | None = None) -> None:
    decode.v2_into(step, out, work or decode.buffers(step), triton_decode.paged_attention_v2)


def run(step: Step) -> torch.Tensor:
    out = torch.full_like(step.query, float("nan"))
    into(step, out)
    return out


@pytest.mark.parametrize("count", [1, 2, 3, 40])
@pytest.mark.parametrize("length", [1, 16, 17, 63, 64, 65, 127, 128, 513])
def test_one_sequence_of_any_length_is_right_however_it_is_split(length: int, count: int, split: Split) -> None:
    split(count)
    step = Step(queries(1, 4, 64, HALF), cached([length]))
    assert_close(run(step), decode.expected(step))


def test_the_split_rule_itself_gives_the_dense_answer() -> None:
    step = Step(queries(2, 4, 64, HALF), cached([700, 1300]))
    assert_close(run(step), decode.expected(step))


def test_parts_without_tokens_and_work_memory_full_of_nan_change_nothing(split: Split) -> None:
    split(3)
    step = Step(queries(2, 4, 64, HALF), cached([513, 20]))
    triton_decode._workspace(1, step.query).fill_(float("nan"))
    assert_close(run(step), decode.expected(step))


@pytest.mark.parametrize("lengths", [[0], [0, 0]])
def test_a_batch_of_nothing_but_padding_is_zero(lengths: list[int]) -> None:
    step = Step(queries(len(lengths), 4, 64, HALF), cached(lengths), max_seq_len=1000)
    assert torch.equal(run(step), torch.zeros_like(step.query))


def test_an_empty_batch_and_a_maximum_of_0_do_nothing() -> None:
    assert run(Step(queries(0, 4, 64, HALF), cached([]), max_seq_len=100)).shape == (0, 4, 64)
    step = Step(queries(1, 4, 64, HALF), cached([0]), max_seq_len=0)
    assert torch.equal(run(step), torch.zeros_like(step.query))


@pytest.mark.parametrize("head_size", [64, 80, 128, 192, 256])
@pytest.mark.parametrize("group", [4, 20])
def test_the_rows_of_the_bi100_are_right(
    head_size: int, group: int, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = muh_dispatch.decode_config("bi100", "float16", head_size, group)
    monkeypatch.setattr(triton_decode, "decode_config", lambda *_: row)
    split(2)
    step = Step(queries(3, group, head_size, HALF), cached([200, 9, 64], kv_heads=1, head_size=head_size))
    assert_close(run(step), decode.expected(step))


def test_huge_logits_and_a_part_far_below_the_others_stay_finite(split: Split) -> None:
    split(4)
    pages = cached([300], dtype=torch.float32)
    step = Step(queries(1, 4, 64, torch.float32) * 1000, pages, slopes=slopes_of(4) * 1000)
    found = run(step)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found.double(), decode.expected(step), rtol=1e-3, atol=1e-3)


def test_queries_and_outputs_may_be_views_and_the_head_mapping_may_come_instead_of_a_number() -> None:
    wide = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(3)).to(HALF)
    step = Step(wide[:, 4:8], cached([40, 7]), head_mapping=True)
    assert_close(run(step), decode.expected(step))
    strided = torch.full((2, 4, 128), 9.0, dtype=HALF)
    into(step, strided[:, :, ::2])
    assert_close(strided[:, :, ::2], decode.expected(step))
    assert (strided[:, :, 1::2] == 9.0).all()


@pytest.mark.parametrize("shapes", [((0,), (0,), (0,)), ((1, 4, 1), (1, 4, 1), (1, 4, 1, 64))])
def test_work_buffers_of_any_shape_are_left_alone(shapes: tuple[tuple[int, ...], ...]) -> None:
    step = Step(queries(1, 4, 64, HALF), cached([600]))
    work = Buffers(*(torch.full(shape, -7.0) for shape in shapes))
    out = torch.full_like(step.query, float("nan"))
    into(step, out, work)
    assert_close(out, decode.expected(step))
    assert all((buffer == -7.0).all() for buffer in (work.exp_sum, work.max_logits, work.tmp_out))


@pytest.mark.parametrize("kv_cache_dtype", ["fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16", "float32"])
def test_a_quantised_cache_is_refused_before_any_launch(kv_cache_dtype: str) -> None:
    step = Step(queries(1, 4, 64, HALF), cached([5]), kv_cache_dtype=kv_cache_dtype)
    out = torch.full_like(step.query, 7.0)
    with pytest.raises(NotImplementedError, match=kv_cache_dtype):
        into(step, out)
    assert (out == 7.0).all()


def test_a_cache_of_bytes_is_refused_whatever_its_name() -> None:
    pages = cached([5])
    with pytest.raises(NotImplementedError, match="uint8"):
        run(Step(queries(1, 4, 64, HALF), dataclasses.replace(pages, key_cache=pages.key_cache.view(torch.uint8))))


def test_a_head_size_without_a_row_is_refused_as_not_implemented() -> None:
    with pytest.raises(NotImplementedError, match="head size 512"):
        run(Step(queries(1, 1, 512, HALF), cached([5], kv_heads=1, head_size=512)))


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="5 query heads"):
        run(Step(queries(1, 5, 64, HALF), cached([5])))


def test_block_sparse_attention_is_refused_before_any_launch() -> None:
    nothing = torch.empty(0)
    with pytest.raises(NotImplementedError, match="block-sparse"):
        triton_decode.paged_attention_v2(
            *(nothing,) * 7, 1, 1.0, nothing, nothing, 16, 1, None, "auto", 1.0, 1.0, 0, 0, 2
        )


def test_work_memory_that_was_handed_out_is_never_freed_and_grows_by_doubling() -> None:
    query = queries(1, 1, 64, HALF)
    first = triton_decode._workspace(1, query)
    second = triton_decode._workspace(first.numel() + 1, query)
    assert second.numel() >= 2 * first.numel()
    kept = triton_decode._workspaces[None, 0]
    assert any(first is one for one in kept)
    assert triton_decode._workspace(1, query) is second


STEPS = decode.steps(
    st.lists(st.integers(0, 200), min_size=1, max_size=3), (torch.float16, torch.float32), 2, (0, 0, 1, 700)
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(step=STEPS, count=st.integers(1, 6))
def test_any_shape_gives_the_dense_answer(step: Step, count: int, split: Split) -> None:
    split(count)
    assert_close(run(step), decode.expected(step))
