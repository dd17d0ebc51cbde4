"""Times paged decode by the compiled kernel beside Triton's and PyTorch's on a CUDA device.

    nvcc -std=c++17 -O3 -arch=sm_90 -Xcompiler -fPIC -shared -I HEADERS kernels/paged_attention_v2.cu -o lib.so
    VLLM_PAGED_ATTENTION_V2_LIBRARY=lib.so python -m benchmarks.compiled_decode

Prints one JSON object a line: the shape, and for each implementation the median microseconds of a call whose caches are
not in the L2 cache. Results are compared with the PyTorch implementation's before anything is timed.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from typing import Any

import torch

MODULES = {
    "compiled": "kernels.paged_attention_v2_compiled",
    "triton": "kernels.paged_attention_v2_triton",
    "pytorch": "kernels.paged_attention_v2_pytorch",
}
TOKENS = 8192
SHAPES = [
    (heads, kv_heads, head_size, seqs, tokens)
    for heads, kv_heads, head_size in ((32, 8, 128), (16, 2, 256), (4, 1, 256))
    for seqs, tokens in ((1, TOKENS), (1, 4 * TOKENS), (8, TOKENS))
]
PAGE = 16
REPEATS = 15
FLUSH_BYTES = 1 << 28


def call_of(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, list[Any]]:
    """Return the output and the other arguments of a call: query heads, KV heads, head size, sequences, tokens."""
    heads, kv_heads, head_size, seqs, tokens = shape
    pages = seqs * tokens // PAGE
    query = torch.randn(seqs, heads, head_size, device="cuda", dtype=dtype)
    key = torch.randn(pages, kv_heads, head_size // 8, PAGE, 8, device="cuda", dtype=dtype)
    value = torch.randn(pages, kv_heads, head_size, PAGE, device="cuda", dtype=dtype)
    tables = torch.randperm(pages, device="cuda").to(torch.int32).view(seqs, -1)
    lengths = torch.full((seqs,), tokens, device="cuda", dtype=torch.int32)
    rest = [query, key, value, kv_heads, head_size**-0.5, tables, lengths, PAGE, tokens, None, "auto", 1.0, 1.0]
    return torch.empty_like(query), [query[:0], query[:0], query[:0], *rest]


def microseconds(function: Any, out: torch.Tensor, rest: list[Any], flush: torch.Tensor) -> float:  # noqa: ANN401 - any of the three
    """Return the median of some calls, each after the L2 cache was filled with something else."""
    times: list[float] = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        flush.zero_()
        begin.record()
        function(out, *rest)
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * begin.elapsed_time(end))
    return round(statistics.median(times), 1)


def main() -> None:
    """Time every shape."""
    functions = {name: importlib.import_module(module).paged_attention_v2 for name, module in MODULES.items()}
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    for shape in SHAPES:
        out, rest = call_of(shape, torch.float16)
        found = {}
        for name, function in functions.items():
            function(out.fill_(float("nan")), *rest)
            found[name] = out.clone()
        torch.testing.assert_close(found["compiled"], found["pytorch"], rtol=1e-3, atol=1e-3)
        row = {name: microseconds(function, out, rest, flush) for name, function in functions.items()}
        sys.stdout.write(json.dumps({"shape": shape, **row}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
