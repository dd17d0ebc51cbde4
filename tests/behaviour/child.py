"""The process that imports a vLLM tree and attends with it: `child.py RESULT GROUP…`, the tree on PYTHONPATH.

It writes one JSON object, case → what happened: the relative error against dense attention, the exception, and the
paths that ran with the bound they were given. The vendor's library is a stand-in; nothing else is replaced, only
counted. With `--hide-triton` the tree looks for Triton in vain, as where it is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.append(str(Path(__file__).parents[2]))

from tests.behaviour import cases
from tests.kernels import dense

Result = dict[str, Any]
FP = "auto"


class Observed:
    """Which paths ran: path → the `max_seq_len` of each call (0 where there is none)."""

    def __init__(self) -> None:
        self.calls: dict[str, list[int]] = {}

    def count(self, module: Any, name: str, path: str, bound: int | None) -> None:  # noqa: ANN401 - a module of the tree
        """Count the calls of `module.name`, whose argument number `bound` is the bound; do nothing where it is not."""
        original = getattr(module, name, None)
        if original is None:
            return

        def counting(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - what the tree gives and gets
            self.calls.setdefault(path, []).append(0 if bound is None else int(arguments[bound]))
            return original(*arguments, **named)

        setattr(module, name, counting)


class Tree:
    """The imported tree, its paths counted."""

    def __init__(self) -> None:
        self.ops: Any = importlib.import_module("vllm._custom_ops")
        self.module: Any = importlib.import_module("vllm.attention.ops.paged_attn")
        self.attention: Any = self.module.PagedAttention
        self.library: Any = importlib.import_module("ixformer.functions")
        self.seen = Observed()
        self.seen.count(self.library, "vllm_single_query_cached_kv_attention", "v1", 9)
        with contextlib.suppress(ModuleNotFoundError):
            v2 = importlib.import_module("vllm.attention.ops.paged_attention_v2_pytorch")
            self.seen.count(v2, "paged_attention_v2", "v2", 12)
        self.seen.count(self.module, "long_decode_attention", "long", 5)
        self.seen.count(self.module, "prefix_attention", "prefix", None)
        self.seen.count(self.module, "context_attention_fwd", "triton", None)


def mapping(kv_heads: int, group: int) -> torch.Tensor:
    """Return what the vendor's backend gives as `num_kv_heads`: the KV head of each query head."""
    return torch.arange(kv_heads, dtype=torch.int32).repeat_interleave(group)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest relative error of a row; a row that must be zero counts with its own size."""
    off = (found.double() - expected).flatten(1).norm(dim=1)
    size = expected.flatten(1).norm(dim=1)
    return float((off / torch.where(size > 0, size, 1.0)).max())


def slopes(case: cases.Decode | cases.Prefix) -> torch.Tensor | None:
    return dense.slopes_of(case.kv_heads * case.group) if case.alibi else None


# --- decode -----------------------------------------------------------------------------------------------------


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


def forward_decode(tree: Tree, case: cases.Decode, query: torch.Tensor, pages: dense.Cached) -> torch.Tensor:
    found: torch.Tensor = tree.attention.forward_decode(
        query,
        pages.key_cache,
        pages.value_cache,
        pages.block_tables,
        pages.lengths,
        case.limit,
        FP,
        mapping(case.kv_heads, case.group),
        case.head_size**-0.5,
        slopes(case),
        1.0,
        1.0,
    )
    return found


def decode(tree: Tree, case: cases.Decode) -> Result:
    query, pages = decode_inputs(case)
    return {"error": error(forward_decode(tree, case, query, pages), decoded(case, query, pages))}


def v2_directly(tree: Tree) -> Result:
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
def silent_v1(tree: Tree) -> Iterator[None]:
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


def reads(tree: Tree, bound: int) -> Result:
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


def known_reads(_: Tree) -> Result:
    """Read the device in the ways that the watch must see, so that it is no blind witness."""
    tensor = torch.tensor([3])
    with DeviceReads() as watch:
        int(tensor)
        tensor.nonzero()
    return {"reads": watch.found}


# --- prefill ----------------------------------------------------------------------------------------------------


def forward_prefix(  # noqa: PLR0913, PLR0917 - what a prefill is made of
    tree: Tree,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pages: dense.Cached,
    new: tuple[int, ...],
    alibi: torch.Tensor | None = None,
    window: int | None = None,
) -> torch.Tensor:
    """Call the tree with `pages.lengths` tokens in the cache."""
    found: torch.Tensor = tree.attention.forward_prefix(
        query,
        key,
        value,
        FP,
        pages.key_cache,
        pages.value_cache,
        pages.block_tables,
        torch.tensor([0, *new], dtype=torch.int32).cumsum(0, dtype=torch.int32),
        pages.lengths + torch.tensor(new, dtype=torch.int32),
        pages.lengths,
        max(new),
        alibi,
        window,
        1.0,
        1.0,
    )
    return found


def prefix(tree: Tree, case: cases.Prefix) -> Result:
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


def in_chunks(tree: Tree) -> Result:
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


def small_prefix(tree: Tree, case: cases.Prefix) -> Result:
    """Run a prefill and say with which tiles Triton's kernel was launched."""
    kernels: Any = sys.modules.get("vllm.attention.ops.prefix_prefill")
    launches: list[dict[str, int]] = []
    names = ("_fwd_kernel", "_fwd_kernel_alibi") if kernels else ()
    for name in names:
        kernel = getattr(kernels, name)
        setattr(kernels, name, Launches(getattr(kernel, "kernel", kernel), launches))
    return {**prefix(tree, case), "launches": launches}


# --- the program ------------------------------------------------------------------------------------------------


def facts(tree: Tree) -> Result:
    """Return what the tree's modules say about themselves."""
    lora: Any = importlib.import_module("vllm.lora.punica")
    return {
        "threshold": getattr(tree.attention, "_PYTORCH_DECODE_THRESHOLD", None),
        "has_triton": tree.module.HAS_TRITON,
        "lora_has_triton": lora.HAS_TRITON,
        "lora_kernels": [name for name in dir(lora) if name.startswith(("bgmv", "sgmv"))],
        "context_attention_fwd": hasattr(tree.module, "context_attention_fwd"),
        "file": str(tree.module.__file__),
    }


def outcome(tree: Tree, work: Callable[[], Result]) -> Result:
    """Return what a case gives, or what it raises, and the paths that it took."""
    tree.seen.calls.clear()
    try:
        result = work()
    except Exception as fault:  # noqa: BLE001 - the kind of the exception is the result
        result = {"raised": type(fault).__name__, "message": str(fault)}
    return {**result, "paths": {path: list(bounds) for path, bounds in tree.seen.calls.items()}}


Work = dict[str, Callable[[Tree], Result]]


def works() -> dict[str, Work]:
    """Return group → case → work."""
    every: Work = {case.name: lambda tree, case=case: decode(tree, case) for case in cases.DECODES}  # type: ignore[misc]  # bound early
    every |= {case.name: lambda tree, case=case: prefix(tree, case) for case in cases.PREFIXES}  # type: ignore[misc]  # bound early
    every[cases.V2_DIRECTLY] = v2_directly
    every[cases.IN_CHUNKS] = in_chunks
    every |= {f"reads of {path}": lambda tree, n=n: reads(tree, n) for path, n in cases.READS.items()}  # type: ignore[misc]  # bound early
    every["known reads"] = known_reads
    small: Work = {case.name: lambda tree, case=case: small_prefix(tree, case) for case in cases.SMALL_PREFIXES}  # type: ignore[misc]  # bound early
    return {"every": every, "small": small}


def hide_triton() -> None:
    """Answer that there is no Triton to whoever looks for it."""
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:  # noqa: ANN401 - a spec or None
        return None if name == "triton" else find(name, package)

    importlib.util.find_spec = without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("group")
    parser.add_argument("--hide-triton", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the machine is shared: idle threads that wait for a core cost more than they bring
    if arguments.hide_triton:
        hide_triton()
    tree = Tree()
    results = {"facts": facts(tree)}
    for name, work in works()[arguments.group].items():
        results[name] = outcome(tree, lambda work=work: work(tree))  # type: ignore[misc]  # bound early
    arguments.result.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
