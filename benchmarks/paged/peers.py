# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, unused-ignore"
"""Other people's kernels: torch's own attention, and packages where they are installed. Plans are not timed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from benchmarks.paged.cells import PAGE
from benchmarks.paged.contender import Contender, NotServed
from benchmarks.paged.data import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.paged.data import Chunk, Data, Pair


WORKSPACE_BYTES = 256 << 20
XFORMERS_SPLITS = (None, 16, 64, 128)
FLASHINFER, XFORMERS, CONCH, CUDNN, SDPA = "FlashInfer FA2", "xformers split-K", "conch", "cuDNN paged", "SDPA (dense)"


@dataclass(frozen=True)
class Whole:
    """Keys and values of whole sequences, new tokens included, in pages `[pages, PAGE, kv, size]`; a pair a set."""

    table: torch.Tensor
    lengths: list[int]
    pairs: list[Pair]

    @property
    def lens(self) -> torch.Tensor:
        """The lengths on the device."""
        return torch.tensor(self.lengths, dtype=torch.int32, device=self.table.device)

    def flat(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the table as FlashInfer takes it: offsets, page numbers, tokens on each last page."""
        used = [-(-length // PAGE) for length in self.lengths]
        offsets = torch.tensor([sum(used[:row]) for row in range(len(used) + 1)], dtype=torch.int32)
        pages = torch.cat([self.table[row, :count] for row, count in enumerate(used)])
        last = [(length - 1) % PAGE + 1 for length in self.lengths]
        return offsets, pages, torch.tensor(last, dtype=torch.int32)


def whole(data: Data) -> Whole:
    """Return the data in pages; those of a chunk are made anew, since its new tokens lie beside the cache."""
    if isinstance(data, Step):
        return Whole(data.paged.table, list(data.paged.lengths), data.paged.by_token)
    lengths = [old + new for old, new in zip(data.paged.lengths, data.new, strict=True)]
    width = -(-max(lengths) // PAGE)

    def pages(index: int, half: int) -> torch.Tensor:
        rows = []
        for row, length in enumerate(lengths):
            tokens = data.dense_of(index, row)[half].transpose(0, 1)
            filled = functional.pad(tokens, (0, 0, 0, 0, 0, width * PAGE - length))
            rows.append(filled.view(width, PAGE, *tokens.shape[1:]))
        return torch.cat(rows)

    table = torch.arange(len(lengths) * width, dtype=torch.int32, device=data.paged.device).view(-1, width)
    return Whole(table, lengths, [(pages(index, 0), pages(index, 1)) for index in range(data.paged.sets)])


def same_lengths(lengths: list[int]) -> None:
    """Refuse lengths that differ."""
    if len(set(lengths)) > 1:
        raise NotServed("takes sequences of one length only")


@functools.lru_cache(maxsize=1)
def _workspace() -> torch.Tensor:
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")


def flashinfer_decode(step: Step) -> Callable[[int], torch.Tensor]:
    """FlashInfer's decode on the matrix units."""
    import flashinfer  # noqa: PLC0415 - only where it is installed

    heads, data = step.paged.heads, whole(step)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(_workspace(), "NHD", use_tensor_cores=True, backend="fa2")
    kinds = {"q_data_type": step.query.dtype, "kv_data_type": step.query.dtype}
    wrapper.plan(*data.flat(), heads.query, heads.kv, heads.size, PAGE, **kinds)
    out = torch.empty_like(step.query)
    return lambda index: wrapper.run(step.query, data.pairs[index], out=out)


def flashinfer_prefill(chunk: Chunk) -> Callable[[int], torch.Tensor]:
    """FlashInfer's prefill; it finds the new tokens in the cache."""
    import flashinfer  # noqa: PLC0415 - only where it is installed

    heads, data = chunk.paged.heads, whole(chunk)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(_workspace(), "NHD", backend="fa2")
    starts = torch.tensor(chunk.starts, dtype=torch.int32)
    kinds = {"q_data_type": chunk.query.dtype, "kv_data_type": chunk.query.dtype}
    wrapper.plan(starts, *data.flat(), heads.query, heads.kv, heads.size, PAGE, causal=True, **kinds)
    out = torch.empty_like(chunk.query)
    return lambda index: wrapper.run(chunk.query, data.pairs[index], out=out)


def xformers_decode(step: Step, splits: int | None) -> Callable[[int], torch.Tensor]:
    """The split-K kernel of xformers, one of the public Triton kernels."""
    from xformers.ops.fmha import Inputs, triton_splitk  # noqa: PLC0415 - only where it is installed
    from xformers.ops.fmha.attn_bias import PagedBlockDiagonalPaddedKeysMask  # noqa: PLC0415 - the same

    heads, data, batch = step.paged.heads, whole(step), len(step.paged.lengths)
    settings = {"BLOCK_N": PAGE, "SPLIT_K": splits, "NUM_WARPS": 2}
    operator: Any = type("Operator", (triton_splitk.FwOp,), settings)
    mask = PagedBlockDiagonalPaddedKeysMask
    bias = mask.from_seqlens([1] * batch, data.lengths, data.table, PAGE, device=step.query.device)
    query = step.query.view(1, batch, heads.kv, heads.group, heads.size)

    def grouped(pages: torch.Tensor) -> torch.Tensor:
        return pages.view(1, -1, heads.kv, 1, heads.size).expand(-1, -1, -1, heads.group, -1)

    pairs = [tuple(map(grouped, pair)) for pair in data.pairs]

    def call(index: int) -> torch.Tensor:
        key, value = pairs[index]
        found: torch.Tensor = operator.apply(Inputs(query=query, key=key, value=value, attn_bias=bias), False)[0]
        return found.view_as(step.query)

    return call


def conch_decode(step: Step) -> Callable[[int], torch.Tensor]:
    """Conch's paged attention, another public Triton kernel."""
    from conch.ops.attention.paged_attention import paged_attention  # noqa: PLC0415 - only where it is installed

    data, out = whole(step), torch.empty_like(step.query)
    lens = data.lens
    return lambda index: paged_attention(step.query, *data.pairs[index], data.table, lens, output=out, scale=step.scale)


@functools.lru_cache(maxsize=1)
def _cudnn() -> Any:  # noqa: ANN401 - a handle of the package's own
    import cudnn  # noqa: PLC0415 - only where it is installed

    return cudnn.create_handle()


def cudnn_paged(data: Data) -> Callable[[int], torch.Tensor]:
    """Paged attention of cuDNN through its Python front end."""
    import cudnn  # noqa: PLC0415 - only where it is installed

    heads, paged, batch = data.paged.heads, whole(data), len(data.paged.lengths)
    new = getattr(data, "new", [1] * batch)
    same_lengths(new)
    out = torch.empty_like(data.query)
    tensors = [t.view(batch, new[0], heads.query, heads.size).transpose(1, 2) for t in (data.query, out)]
    caches = [tuple(pages.transpose(1, 2) for pages in pair) for pair in paged.pairs]
    tables = paged.table.view(batch, 1, -1, 1)
    counts = [torch.tensor(n, dtype=torch.int32, device=out.device).view(-1, 1, 1, 1) for n in (new, paged.lengths)]
    wide = cudnn.data_type.FLOAT
    graph = cudnn.pygraph(
        io_data_type=cudnn.data_type.HALF, intermediate_data_type=wide, compute_data_type=wide, handle=_cudnn()
    )
    inputs = [tensors[0], *caches[0], tables, tables, *counts]
    query, key, value, key_table, value_table, query_lens, lens = map(graph.tensor_like, inputs)
    result, _ = graph.sdpa(
        name="attention",
        q=query,
        k=key,
        v=value,
        generate_stats=False,
        attn_scale=heads.size**-0.5,
        use_padding_mask=True,
        seq_len_q=query_lens,
        seq_len_kv=lens,
        paged_attention_k_table=key_table,
        paged_attention_v_table=value_table,
        paged_attention_max_seq_len_kv=paged.table.shape[1] * PAGE,
        **({"use_causal_mask_bottom_right": True} if new[0] > 1 else {}),
    )
    result.set_output(True).set_dim(list(tensors[1].shape)).set_stride(list(tensors[1].stride()))
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    space = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device=out.device)
    fixed = {query: tensors[0], key_table: tables, value_table: tables, query_lens: counts[0], lens: counts[1]}

    def call(index: int) -> torch.Tensor:
        cudnn.set_stream(_cudnn(), torch.cuda.current_stream().cuda_stream)
        bound = {**fixed, key: caches[index][0], value: caches[index][1], result: tensors[1]}
        graph.execute(bound, space, handle=_cudnn())
        return out

    return call


def sdpa_decode(step: Step) -> Callable[[int], torch.Tensor]:
    """Flash attention of torch on keys and values made dense before; the heads of a group are its query axis."""
    same_lengths(list(step.paged.lengths))
    heads, batch = step.paged.heads, len(step.paged.lengths)
    dense = [_stacked(step, index) for index in range(step.paged.sets)]
    query = step.query.view(batch, heads.kv, heads.group, heads.size)

    def call(index: int) -> torch.Tensor:
        key, value = dense[index]
        with sdpa_kernel(_backends(step)):
            found = functional.scaled_dot_product_attention(query, key, value, scale=step.scale)
        return found.reshape(step.query.shape)

    return call


def sdpa_prefill(chunk: Chunk) -> Callable[[int], torch.Tensor]:
    """Flash attention of torch, keys and values made dense and repeated for each query head before."""
    same_lengths(list(chunk.paged.lengths))
    same_lengths(list(chunk.new))
    heads, batch, new = chunk.paged.heads, len(chunk.new), chunk.new[0]
    dense = [_stacked(chunk, index, heads.group) for index in range(chunk.paged.sets)]
    query = chunk.query.view(batch, new, heads.query, heads.size).transpose(1, 2)
    mask: dict[str, Any] = {"is_causal": True}
    if chunk.paged.lengths[0]:
        mask = {"attn_mask": causal_lower_right(new, new + chunk.paged.lengths[0])}

    def call(index: int) -> torch.Tensor:
        key, value = dense[index]
        with sdpa_kernel(_backends(chunk)):
            found = functional.scaled_dot_product_attention(query, key, value, **mask)
        return found.transpose(1, 2).reshape(chunk.query.shape)

    return call


def _backends(data: Data) -> list[SDPBackend]:
    return [SDPBackend.FLASH_ATTENTION if data.query.is_cuda else SDPBackend.MATH]


def _stacked(data: Data, index: int, repeats: int = 1) -> list[torch.Tensor]:
    """Return keys and values `[batch, heads, tokens, size]`."""
    rows = [data.dense_of(index, row) for row in range(len(data.paged.lengths))]
    return [torch.stack(half).repeat_interleave(repeats, 1) for half in zip(*rows, strict=True)]


def peers(kind: str) -> list[Contender]:
    """Return the contenders of that kind, installed or not."""
    if kind == "prefill":
        return [
            Contender(FLASHINFER, flashinfer_prefill, needs="flashinfer"),
            Contender(CUDNN, cudnn_paged, needs="cudnn", ragged=False),
            Contender(SDPA, sdpa_prefill, ragged=False, gathered=True),
        ]
    return [
        Contender(FLASHINFER, flashinfer_decode, needs="flashinfer"),
        *(
            Contender(
                XFORMERS, partial(xformers_decode, splits=count), f"{count or 'its own'} splits", needs="xformers"
            )
            for count in XFORMERS_SPLITS
        ),
        Contender(CONCH, conch_decode, needs="conch"),
        Contender(CUDNN, cudnn_paged, needs="cudnn"),
        Contender(SDPA, sdpa_decode, ragged=False, gathered=True),
    ]
