"""The compiled decode gives the dense answer: on the CPU by a host compiler, and on a CUDA device by nvcc.

On the CPU the kernel's threads take turns (`cuda_on_host.h`), in blocks that are whole warps of 32 or of 64.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import paged_attention_v2_compiled as compiled
from kernels import trust
from tests.kernels import decode, decode_cases
from tests.kernels.decode import Step
from tests.kernels.dense import assert_close, cached, queries, slopes_of
from tests.kernels.implementations import Implementation
from tests.muh import headers

HALF = torch.float16
VARIABLE = "VLLM_PAGED_ATTENTION_V2_LIBRARY"
SOURCE = headers.ROOT / "kernels" / "paged_attention_v2.cu"
HOST = Path(__file__).with_name("cuda_on_host.h")
FLOAT32 = "a cache of float32 has pages of four"
CASES = {name: case for name, case in decode_cases.CASES.items() if name != FLOAT32}
TARGETS = {"bi100": 64, "h200": 32}
"""Target → threads of a warp."""


def host_library(folder: Path, target: str, source: Path = SOURCE) -> Path:
    """Make the library of a target by a host compiler, and return it."""
    made = folder / "paged_attention_v2.so"
    language = ("-O2", "-fPIC", "-shared", "-include", HOST, "-x", "c++")
    include = ("-I", headers.lay(folder / "muh", target))
    headers.compiled(["g++", *headers.WARNINGS, *include, *language, source, "-o", made])
    return made


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The library of each target, by a host compiler."""
    return {target: host_library(tmp_path_factory.mktemp(target), target) for target in TARGETS}


@pytest.fixture
def library(libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one of the device with the wide warps, in use."""
    monkeypatch.setenv(VARIABLE, str(libraries["bi100"]))
    return libraries["bi100"]


@pytest.fixture(scope="session")
def device_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library by nvcc, for the device that is there."""
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    folder = tmp_path_factory.mktemp("cuda")
    major, minor = torch.cuda.get_device_capability()
    made = folder / "paged_attention_v2.so"
    flags = ("-O3", f"-arch=sm_{major}{minor}", "-Xcompiler", "-fPIC", "-shared")
    include = ("-I", headers.lay(folder / "muh", "h200"))
    headers.compiled([headers.NVCC, *headers.NVCC_WARNINGS, *flags, *include, SOURCE, "-o", made])
    return made


def run(step: Step, out: torch.Tensor | None = None) -> torch.Tensor:
    out = torch.full_like(step.query, float("nan")) if out is None else out
    decode.v2_into(step, out, decode.buffers(step), compiled.paged_attention_v2)
    return out


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("library")
def test_it_gives_the_dense_answer_in_every_case(name: str) -> None:
    CASES[name](Implementation("compiled", "cpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_it_gives_the_dense_answer_in_every_case_on_a_cuda_device(
    name: str, device_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(device_library))
    CASES[name](Implementation("compiled", "cuda"))


@pytest.mark.gpu
def test_it_passes_its_trial_on_a_cuda_device(device_library: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kernels.trial", "compiled_decode_v2"],
        env={**os.environ, VARIABLE: str(device_library)},
        cwd=headers.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 cases right" in done.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("other", ["torch", "triton"])
@pytest.mark.parametrize("shape", [(32, 8, 128), (16, 2, 256), (4, 1, 256)], ids=str)
def test_it_agrees_with_the_other_implementations_on_a_cuda_device(
    other: str, shape: tuple[int, int, int], device_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(device_library))
    heads, kv_heads, head_size = shape
    for dtype in (torch.float16, torch.bfloat16):
        pages = cached([8192, 1000, 17], kv_heads=kv_heads, head_size=head_size, dtype=dtype)
        step = Step(queries(3, heads, head_size, dtype), pages)
        ours, theirs = (Implementation(name, "cuda").decode(step) for name in ("compiled", other))
        assert_close(ours, theirs.double())


@pytest.mark.gpu
def test_a_captured_graph_follows_the_lengths_on_a_cuda_device(
    device_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(device_library))
    pages = cached([100, 3, 0, 2000], spare_columns=8192, kv_heads=1, head_size=128)
    step = Step(queries(4, 8, 128, HALF), pages, max_seq_len=131_072)
    there = {name: getattr(pages, name).cuda() for name in ("key_cache", "value_cache", "block_tables", "lengths")}
    moved = Step(step.query.cuda(), dataclasses.replace(pages, **there), max_seq_len=131_072)
    out = torch.full_like(moved.query, float("nan"))
    run(moved, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(moved, out)
    there["lengths"].fill_(1)
    there["block_tables"][2] = there["block_tables"][0]  # the sequence that had none has a first token now
    out.fill_(float("nan"))
    graph.replay()
    for row, owner in enumerate((0, 1, 0, 3)):
        short = [pages.keys[owner][:1]], [pages.values[owner][:1]]
        one = dataclasses.replace(pages, lengths=torch.ones(1, dtype=torch.int32), keys=short[0], values=short[1])
        assert_close(out[row : row + 1].cpu(), decode.expected(Step(step.query[row : row + 1], one)))


def test_the_width_of_a_warp_changes_no_bit(libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(queries(3, 14, 80, HALF), cached([700, 0, 30], head_size=80), slopes=slopes_of(14))
    found = []
    for target, threads in TARGETS.items():
        assert ctypes.CDLL(str(libraries[target])).muh_paged_attention_v2_warp_threads() == threads
        monkeypatch.setenv(VARIABLE, str(libraries[target]))
        found.append(run(step))
    assert torch.equal(*found)
    assert_close(found[0], decode.expected(step))


STEPS = decode.steps(
    st.lists(st.one_of(st.integers(0, 40), st.integers(500, 700)), min_size=1, max_size=3),
    (torch.float16, torch.bfloat16),
    2,
    (0, 0, 1, 700),
)


@pytest.mark.usefixtures("library")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(step=STEPS)
def test_any_shape_gives_the_dense_answer(step: Step) -> None:
    assert_close(run(step), decode.expected(step))


@pytest.mark.usefixtures("library")
def test_huge_logits_and_a_part_far_below_the_others_stay_finite() -> None:
    step = Step(queries(1, 4, 64, HALF) * 100, cached([1100]), slopes=slopes_of(4) * 1000)
    found = run(step)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found.double(), decode.expected(step), rtol=1e-2, atol=1e-2)


@pytest.mark.usefixtures("library")
def test_queries_and_outputs_may_be_views_and_the_head_mapping_may_come_instead_of_a_number() -> None:
    wide = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(3)).to(HALF)
    pages = cached([40, 7])
    step = Step(wide[:, 4:8], pages, head_mapping=True)
    assert_close(run(step), decode.expected(step))
    strided = torch.full((2, 4, 128), 9.0, dtype=HALF)
    run(step, strided[:, :, ::2])
    assert_close(strided[:, :, ::2], decode.expected(step))
    assert (strided[:, :, 1::2] == 9.0).all()
    double = torch.empty(2, 4, 64, dtype=torch.float32)
    run(step, double)
    assert_close(double.to(HALF), decode.expected(step))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("lengths", [[0], [0, 0], []])
def test_a_batch_of_nothing_but_padding_is_zero(lengths: list[int]) -> None:
    step = Step(queries(len(lengths), 4, 64, HALF), cached(lengths), max_seq_len=1000)
    assert torch.equal(run(step), torch.zeros_like(step.query))


def refused(step: Step, text: str) -> None:
    out = torch.full_like(step.query, 7.0)
    with pytest.raises(NotImplementedError, match=text):
        run(step, out)
    assert (out == 7.0).all()


def changed(step: Step, **what: Any) -> Step:  # noqa: ANN401 - any field of the cache
    return dataclasses.replace(step, cached=dataclasses.replace(step.cached, **what))


@pytest.mark.usefixtures("library")
def test_what_the_library_does_not_do_is_refused_before_anything_is_written() -> None:
    step = Step(queries(1, 4, 64, HALF), cached([20]))
    pages = step.cached
    refused(Step(queries(1, 4, 64, torch.float32), cached([20], dtype=torch.float32)), "float32")
    refused(Step(queries(1, 4, 64, torch.bfloat16), pages), "bfloat16")
    refused(dataclasses.replace(step, kv_cache_dtype="bfloat16"), "bfloat16")
    refused(Step(queries(1, 1, 512, HALF), cached([20], kv_heads=1, head_size=512)), "head size 512")
    refused(Step(queries(1, 4, 64, HALF), cached([20], block_size=12)), "pages of 12")
    refused(Step(queries(1, 4, 64, HALF), cached([20], block_size=1024)), "pages of 1024")
    refused(changed(step, key_cache=pages.key_cache.transpose(3, 4).contiguous().transpose(3, 4)), "not dense")
    refused(changed(step, value_cache=pages.value_cache.float()), "float32")
    refused(changed(step, value_cache=pages.value_cache[:, :1].expand(-1, 2, -1, -1)), "not dense")
    odd = torch.empty(pages.key_cache.numel() + 1, dtype=HALF)[1:].view(pages.key_cache.shape)
    refused(changed(step, key_cache=odd), "aligned")
    refused(changed(step, lengths=pages.lengths.long()), "int32")
    refused(dataclasses.replace(step, block_tables=pages.block_tables.long()), "int32")


@pytest.mark.usefixtures("library")
def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="5 query heads"):
        run(Step(queries(1, 5, 64, HALF), cached([5])))


def test_block_sparse_attention_is_refused_before_any_work() -> None:
    nothing = torch.empty(0)
    with pytest.raises(NotImplementedError, match="block-sparse"):
        compiled.paged_attention_v2(
            *(nothing,) * 7, 1, 1.0, nothing, nothing, 16, 1, None, "auto", 1.0, 1.0, 0, 0, blocksparse_vert_stride=2
        )


def test_a_library_that_is_missing_or_another_is_refused_and_pytorch_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step(queries(1, 4, 64, HALF), cached([20]))
    for content in (None, b"", b"no library"):
        path = tmp_path / f"{content!r}.so"
        if content is not None:
            path.write_bytes(content)
        monkeypatch.setenv(VARIABLE, str(path))
        refused(step, "no compiled PagedAttention V2")
    monkeypatch.setenv(VARIABLE, "libc.so.6")  # is no path to it
    refused(step, "no compiled PagedAttention V2")
    monkeypatch.setattr(trust, "_decisions", {})
    out = torch.full_like(step.query, float("nan"))
    decode.v2_into(step, out, decode.buffers(step), compiled.paged_attention_v2_or_pytorch)
    assert_close(out, decode.expected(step))
    assert not trust.trusted(compiled.OPERATION)


def test_a_library_with_another_interface_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "other.cpp"
    names = ("muh_paged_attention_v2_version", "muh_paged_attention_v2")
    source.write_text("".join(f'extern "C" int {name}() {{ return 2; }}\n' for name in names))
    headers.compiled(["g++", "-shared", "-fPIC", source, "-o", tmp_path / "other.so"])
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other.so"))
    refused(Step(queries(1, 4, 64, HALF), cached([20])), "version 2")


@given(
    rows=st.integers(1, 5000),
    limit=st.integers(1, 300_000),
    page=st.sampled_from([8, 16, 24, 32, 40, 64, 512]),
    multiprocessors=st.integers(1, 200),
)
def test_a_part_is_whole_pages_within_the_library_s_bounds_and_short_only_for_want_of_blocks(
    rows: int, limit: int, page: int, multiprocessors: int
) -> None:
    part = compiled.part_tokens(rows, limit, page, multiprocessors)
    assert part % page == 0
    assert page <= part <= compiled.MOST_PART
    if part + page <= compiled.MOST_PART:
        assert rows * -(-limit // compiled.MOST_PART) < 4 * multiprocessors


def test_a_device_whose_warps_are_not_in_its_blocks_does_not_compile(tmp_path: Path) -> None:
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"warp_size": 96}, "a block is whole warps"),
        ({"shared_memory_per_block_bytes": 16_384}, "shared memory does not fit"),
    )
    for figures, said in cases:
        folder = headers.lay(tmp_path / said, "bi100", figures)
        flags: list[str | Path] = ["-std=c++17", "-fsyntax-only", "-I", folder, "-include", HOST, "-x", "c++"]
        done = headers.run(["g++", *flags, SOURCE])
        assert done.returncode != 0
        assert said in done.stderr
