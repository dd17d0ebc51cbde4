"""The prefill cases, run on an imported tree."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from tests.behaviour import cases
from tests.behaviour.decoding import forward_decode
from tests.behaviour.observed import FP, ImportedTree, Result, error, slopes
from tests.kernels import dense

if TYPE_CHECKING:
    from collections.abc import Callable


def forward_prefix(  # noqa: PLR0913, PLR0917 - what a prefill is made of
    tree: ImportedTree,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pages: dense.Cached,
    new: tuple[int, ...],
    alibi: torch.Tensor | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """Call the tree with `pages.lengths` tokens in the cache."""
    fresh = torch.tensor([0, *new], dtype=torch.int32)
    found: torch.Tensor = tree.attention.forward_prefix(
        tree.there(query),
        tree.there(key),
        tree.there(value),
        FP,
        tree.there(pages.key_cache),
        tree.there(pages.value_cache),
        tree.there(pages.block_tables),
        tree.there(fresh.cumsum(0, dtype=torch.int32)),
        tree.there(pages.lengths + fresh[1:]),
        tree.there(pages.lengths),
        max(new),
        None if alibi is None else tree.there(alibi),
        window,
        1.0,
        1.0,
    )
    return found.cpu()


def prefix(tree: ImportedTree, case: cases.Prefix) -> Result:
    dtype: torch.dtype = getattr(torch, case.dtype)
    pages = dense.cached(case.contexts, kv_heads=case.kv_heads, head_size=case.head_size, dtype=dtype)
    tokens = sum(case.new) + case.padding
    query = dense.queries(tokens, case.kv_heads * case.group, case.head_size, dtype)
    key, value = (dense.queries(tokens, case.kv_heads, case.head_size, dtype, seed) for seed in (2, 3))
    found = forward_prefix(tree, query, key, value, pages, case.new, slopes(case), case.window)
    rows, start = [], 0
    for number, fresh in enumerate(case.new):
        own = slice(start, start + fresh)
        start += fresh
        rows.append(
            dense.attention(
                query[own],
                torch.cat((pages.keys[number], key[own])),
                torch.cat((pages.values[number], value[own])),
                scale=case.head_size**-0.5,
                slopes=slopes(case),
                window=case.window,
            )
        )
    rows.append(torch.zeros(case.padding, *query.shape[1:], dtype=torch.float64))
    return {"error": error(found, torch.cat(rows))}


def in_chunks(tree: ImportedTree) -> Result:
    """Prefill one prompt in chunks, each written to the cache by the tree, then decode its next token."""
    total, chunk, kv_heads, group, size, block = 1200, 512, 1, 4, 64, 16
    query, key, value = (
        dense.queries(total + 1, heads, size, torch.float16, seed)
        for heads, seed in ((kv_heads * group, 1), (kv_heads, 2), (kv_heads, 3))
    )
    blocks = -(-(total + 1) // block)
    store = torch.full((2, blocks + 2, block * kv_heads * size), float("nan"), dtype=torch.float16)
    key_cache, value_cache = tree.attention.split_kv_cache(store, kv_heads, size)
    table = torch.randperm(blocks + 2, generator=torch.Generator().manual_seed(0))[:blocks].to(torch.int32)[None]

    def write(start: int, stop: int) -> None:
        positions = torch.arange(start, stop)
        slots = table[0, positions // block].long() * block + positions % block
        tree.attention.write_to_paged_cache(
            key[start:stop], value[start:stop], key_cache, value_cache, slots, FP, 1.0, 1.0
        )

    rows = []
    for start in range(0, total, chunk):
        stop = min(start + chunk, total)
        pages = dense.Cached(key_cache, value_cache, table, torch.tensor([start], dtype=torch.int32), [], [])
        write(start, stop)
        new = slice(start, stop)
        rows.append(forward_prefix(tree, query[new], key[new], value[new], pages, (stop - start,)))
    write(total, total + 1)
    pages = dense.Cached(key_cache, value_cache, table, torch.tensor([total + 1], dtype=torch.int32), [], [])
    case = cases.Decode("", (total + 1,), kv_heads=kv_heads, group=group, head_size=size)
    rows.append(forward_decode(tree, case, query[total:], pages))
    return {"error": error(torch.cat(rows), dense.attention(query, key, value, scale=size**-0.5))}


class Launches:
    """Stands in front of a Triton kernel and notes with which tile and how many warps it is launched."""

    def __init__(self, kernel: Any, found: list[dict[str, int]]) -> None:  # noqa: ANN401 - a Triton kernel
        self.kernel = kernel
        self.found = found

    def __getitem__(self, grid: Any) -> Callable[..., None]:  # noqa: ANN401 - Triton's
        def launch(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - the kernel's
            self.found.append({name: named[name] for name in ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")})
            self.kernel[grid](*arguments, **named)

        return launch


def small_prefix(tree: ImportedTree, case: cases.Prefix) -> Result:
    """Run a prefill and say with which tiles vLLM's own Triton kernels were launched."""
    kernels: Any = sys.modules.get("vllm.attention.ops.prefix_prefill")
    launches: list[dict[str, int]] = []
    for name in ("_fwd_kernel", "_fwd_kernel_alibi"):
        kernel = getattr(kernels, name, None)
        if kernel is None:  # another kernel, or none
            continue
        setattr(kernels, name, Launches(getattr(kernel, "kernel", kernel), launches))
    return {**prefix(tree, case), "launches": launches}
