"""The decode cases, run on an imported tree."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.behaviour import cases
from tests.behaviour.observed import FP, ImportedTree, Result, error, mapping, slopes
from tests.kernels import dense

if TYPE_CHECKING:
    from collections.abc import Iterator


def decode_inputs(case: cases.Decode) -> tuple[torch.Tensor, dense.Cached]:
    dtype: torch.dtype = getattr(torch, case.dtype)
    pages = dense.cached(case.lengths, kv_heads=case.kv_heads, head_size=case.head_size, dtype=dtype)
    query = dense.queries(len(case.lengths), case.kv_heads * case.group, case.head_size, dtype)
    return query, pages


def decoded(case: cases.Decode, query: torch.Tensor, pages: dense.Cached) -> torch.Tensor:
    """Return the dense answer."""
    rows = [
        dense.attention(
            query[row : row + 1], pages.keys[row], pages.values[row], scale=case.head_size**-0.5, slopes=slopes(case)
        )
        for row in range(len(case.lengths))
    ]
    return torch.cat(rows)


def forward_decode(tree: ImportedTree, case: cases.Decode, query: torch.Tensor, pages: dense.Cached) -> torch.Tensor:
    alibi = slopes(case)
    found: torch.Tensor = tree.attention.forward_decode(
        tree.there(query),
        tree.there(pages.key_cache),
        tree.there(pages.value_cache),
        tree.there(pages.block_tables),
        tree.there(pages.lengths),
        case.limit,
        FP,
        tree.there(mapping(case.kv_heads, case.group)),
        case.head_size**-0.5,
        None if alibi is None else tree.there(alibi),
        1.0,
        1.0,
    )
    return found if found.is_meta else found.cpu()


def decode(tree: ImportedTree, case: cases.Decode) -> Result:
    query, pages = decode_inputs(case)
    return {"error": error(forward_decode(tree, case, query, pages), decoded(case, query, pages))}


def v2_directly(tree: ImportedTree) -> Result:
    """Call the operator as the tree's own V2 branch does."""
    case = cases.Decode("", (700, 0, 1300))
    query, pages = decode_inputs(case)
    out = torch.empty_like(query)
    sums = torch.empty(3, query.shape[1], 3)
    tree.ops.paged_attention_v2(
        out,
        sums,
        torch.empty_like(sums),
        torch.empty(*sums.shape, case.head_size, dtype=query.dtype),
        query,
        pages.key_cache,
        pages.value_cache,
        mapping(case.kv_heads, case.group),
        case.head_size**-0.5,
        pages.block_tables,
        pages.lengths,
        pages.block_size,
        case.limit,
        None,
        FP,
        1.0,
        1.0,
    )
    return {"error": error(out, decoded(case, query, pages))}


class DeviceReads(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own class is untyped
    """Notes every operator whose result depends on the data in the tensors, as one that reads the device does."""

    TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the same
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch's signature
        if any(tag in func.tags for tag in self.TAGS):
            self.found.append(str(func))
        return func(*args, **kwargs or {})


@contextlib.contextmanager
def silent_v1(tree: ImportedTree) -> Iterator[None]:
    """Let V1 do nothing: what the stand-in reads is not what the device's kernel reads."""
    original = tree.library.vllm_single_query_cached_kv_attention
    calls = tree.seen.calls

    def nothing(*arguments: Any) -> None:  # noqa: ANN401 - what the tree gives
        calls.setdefault("v1", []).append(arguments[9])

    tree.library.vllm_single_query_cached_kv_attention = nothing
    try:
        yield
    finally:
        tree.library.vllm_single_query_cached_kv_attention = original


def reads(tree: ImportedTree, bound: int) -> Result:
    """Decode under the watch of the dispatcher, then with tensors that have no data to be read."""
    case = cases.Decode("", (40, 0, 700), bound, kv_heads=1)
    query, pages = decode_inputs(case)
    with silent_v1(tree), DeviceReads() as watch:
        forward_decode(tree, case, query, pages)
    bare = replace(
        pages,
        key_cache=pages.key_cache.to("meta"),
        value_cache=pages.value_cache.to("meta"),
        block_tables=pages.block_tables.to("meta"),
        lengths=pages.lengths.to("meta"),
    )
    with silent_v1(tree):
        found = forward_decode(tree, case, query.to("meta"), bare)
    return {"reads": watch.found, "shape": list(found.shape), "device": found.device.type}


def known_reads(_: ImportedTree) -> Result:
    """Read the device in the ways that the watch must see, so that it is no blind witness."""
    tensor = torch.tensor([3])
    with DeviceReads() as watch:
        int(tensor)
        tensor.nonzero()
    return {"reads": watch.found}
