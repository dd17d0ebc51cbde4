"""One trial of one operation, in a process of its own that may hang or die: `trust.py` starts it and judges the end.

    python3 -m vllm.attention.ops.trial prefix_prefill

It compiles the operation's kernel, or loads the library that a compiler made of it, runs it on small inputs and
compares the result with the PyTorch path, computed on the CPU in float32. That also checks the device's `tl.dot`, which
all results of Triton's go through. Two lines of JSON go to the standard output: `{"trial": "begun"}` once only the
kernel can still fail, and the result with its figures. Whatever else is printed goes to the standard error. Exit code 0
means right.

The inputs are what serving gives: grouped query heads, sequences of several pages and a partial one, new prompts beside
continued ones, and NaN in every slot that holds no token, since recycled pages keep what they held.

`TRITON_INTERPRET=1` runs Triton's on the CPU, without bfloat16, whose products its interpreter gets wrong. A library
that was compiled for the host is tried there with `VLLM_TRITON_TRIAL_DEVICE=cpu`; it refuses another device's tensors,
as one for a device refuses the host's.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from typing import Any, Callable, Iterator, NamedTuple

import torch

from .paged_attention_pytorch import long_decode_attention, prefix_attention
from .trust import DEVICE, GUARD, OPERATIONS

HEAD_SIZES = (128, 256)

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""Largest error by type, relative to the largest value of the right result: about ten roundings of that type."""

_PAGE = 16
_KV_HEADS = 2
_GROUP = 4
_SHARPNESS = 3.0  # of the softmax: a few tokens decide each result, so that one token too many or too few shows
_BUFFERED = 512  # tokens of a partition that the caller's work buffers are sized for
_SEED = 20
_PR_SET_PDEATHSIG = 1


class Cache(NamedTuple):
    """Pages of the sequences' tokens in vLLM 0.6.3's layout, NaN in every other slot; page 0 belongs to nobody."""

    key: torch.Tensor
    value: torch.Tensor
    tables: torch.Tensor


class Case(NamedTuple):
    """A call of the kernel that returns its result, and the right one, both `[tokens, heads, head_size]`."""

    name: str
    tolerance: float
    run: Callable[[Any], torch.Tensor]
    expected: Callable[[], torch.Tensor]


def random(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Return the same normally distributed values everywhere, on the CPU."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def cache_of(lengths: list[int], head_size: int, dtype: torch.dtype, device: torch.device) -> Cache:
    """Return a cache that holds sequences of `lengths` in pages that are neither in order nor together."""
    counts = [-(-length // _PAGE) for length in lengths]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(_SEED)) + 1
    tables = torch.zeros(len(lengths), max(counts), dtype=torch.int32)
    values = random((sum(counts) + 1, _KV_HEADS, _PAGE, 2, head_size), dtype, _SEED + 1)
    used = torch.zeros(sum(counts) + 1, _PAGE, dtype=torch.bool)
    first = 0
    for row, (length, count) in enumerate(zip(lengths, counts)):
        pages = order[first : first + count]
        tables[row, :count] = pages
        for index, page in enumerate(pages.tolist()):
            used[page, : length - index * _PAGE] = True
        first += count
    values.masked_fill_(~used[:, None, :, None, None], float("nan"))
    x = 16 // values.element_size()
    keys = values[:, :, :, 0].reshape(-1, _KV_HEADS, _PAGE, head_size // x, x).permute(0, 1, 3, 2, 4).contiguous()
    return Cache(keys.to(device), values[:, :, :, 1].transpose(2, 3).contiguous().to(device), tables.to(device))


def prefill(head_size: int, dtype: torch.dtype, device: torch.device) -> Case:
    """Return new tokens behind a context, by `context_attention_fwd` as vLLM 0.6.3's `forward_prefix` calls it."""
    contexts, new = [33, 0, 3 * _PAGE, 200], [19, 70, 1, 130]
    cache = cache_of(contexts, head_size, dtype, device)
    query = (random((sum(new), _KV_HEADS * _GROUP, head_size), dtype, 1) * _SHARPNESS).to(device)
    key, value = (random((sum(new), _KV_HEADS, head_size), dtype, seed).to(device) for seed in (2, 3))
    totals = [context + more for context, more in zip(contexts, new)]
    lengths, contexts_there, starts = (
        torch.tensor(values, dtype=torch.int32, device=device)
        for values in (totals, contexts, [sum(new[:count]) for count in range(len(new) + 1)])
    )

    def run(kernel: Any) -> torch.Tensor:  # noqa: ANN401 - the module that is tried
        output = torch.full_like(query, float("nan"))
        kernel.context_attention_fwd(
            query, key, value, output, "auto", cache.key, cache.value, cache.tables, starts[:-1], lengths,
            contexts_there, max(new), 1.0, 1.0, None, None,
        )  # fmt: skip
        return output

    def expected() -> torch.Tensor:
        q, k, v, keys, values, tables, begins, all_lengths, context_lengths = (
            tensor.cpu()
            for tensor in (query, key, value, cache.key, cache.value, cache.tables, starts, lengths, contexts_there)
        )
        return prefix_attention(
            q, k, v, "auto", keys, values, tables, begins, all_lengths, context_lengths, max(new), None, None, 1.0, 1.0
        )

    return Case(_name(head_size, dtype), TOLERANCE[dtype], run, expected)


def decode(head_size: int, dtype: torch.dtype, device: torch.device) -> Case:
    """Return one new token a sequence, by `paged_attention_v2` as vLLM 0.6.3's `forward_decode` calls it."""
    lengths = [1, 17, 5 * _PAGE, 1100]
    cache = cache_of(lengths, head_size, dtype, device)
    heads, longest = _KV_HEADS * _GROUP, max(lengths)
    query = (random((len(lengths), heads, head_size), dtype, 1) * _SHARPNESS).to(device)
    there = torch.tensor(lengths, dtype=torch.int32, device=device)
    shape = (len(lengths), heads, -(-longest // _BUFFERED))
    scale = head_size**-0.5

    def run(kernel: Any) -> torch.Tensor:  # noqa: ANN401 - the module that is tried
        output = torch.full_like(query, float("nan"))
        sums, logits = (torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2))
        parts = torch.empty((*shape, head_size), dtype=dtype, device=device)
        kernel.paged_attention_v2(
            output, sums, logits, parts, query, cache.key, cache.value, _KV_HEADS, scale, cache.tables, there, _PAGE,
            longest, None, "auto", 1.0, 1.0, 0, 0, 0, 64, 0,
        )  # fmt: skip
        return output

    def expected() -> torch.Tensor:
        q, keys, values, tables, all_lengths = (
            tensor.cpu() for tensor in (query, cache.key, cache.value, cache.tables, there)
        )
        return long_decode_attention(q, keys, values, tables, all_lengths, longest, "auto", scale, None, 1.0, 1.0)

    return Case(_name(head_size, dtype), TOLERANCE[dtype], run, expected)


CASES = {"prefix_prefill": prefill, "paged_decode_v2": decode, "compiled_decode_v2": decode}


def _name(head_size: int, dtype: torch.dtype) -> str:
    return f"{str(dtype).rpartition('.')[2]} with heads of {head_size}"


def cases(operation: str, device: torch.device) -> Iterator[Case]:
    """Yield the cases of an operation that this device can be asked for."""
    types = [torch.float16]
    compiled = OPERATIONS[operation].library is not None
    if torch.cuda.is_bf16_supported() if device.type == "cuda" else compiled:
        types.append(torch.bfloat16)
    for dtype in types:
        for head_size in HEAD_SIZES:
            yield CASES[operation](head_size, dtype, device)


def judge(case: Case, kernel: Any, device: torch.device) -> dict[str, Any]:  # noqa: ANN401 - the module that is tried
    """Run one case; return its figures, with `fault` where the result is wrong and `refused` where it was refused."""
    figures: dict[str, Any] = {"case": case.name}
    begin = time.monotonic()
    try:
        found = case.run(kernel)
    except NotImplementedError as error:
        return {**figures, "refused": str(error)}
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    figures["seconds"] = round(time.monotonic() - begin, 3)
    right, result = case.expected().float(), found.float().cpu()
    if not bool(torch.isfinite(result).all()):
        return {**figures, "fault": f"{case.name}: not all values are finite"}
    figures["error"] = float((result - right).abs().max() / right.abs().max())
    if figures["error"] > case.tolerance:
        figures["fault"] = f"{case.name}: the largest error is {figures['error']:.3g}, allowed is {case.tolerance:g}"
    return figures


def result_of(operation: str, device: torch.device) -> dict[str, Any]:
    """Return the result of trying every case: `right`, `reason`, and the figures of each."""
    figures: list[dict[str, Any]] = []
    try:
        kernel = importlib.import_module(f".{OPERATIONS[operation].kernel}", __package__)
        for case in cases(operation, device):
            figures.append(judge(case, kernel, device))
            if "fault" in figures[-1]:
                return {"right": False, "reason": figures[-1]["fault"], "figures": figures}
    except Exception as error:  # noqa: BLE001 - whatever a compiler or a driver may raise
        lines = str(error).strip().splitlines() or [""]
        full = "out of memory" in str(error)
        reason = f"{type(error).__name__}: {lines[0]}"
        if full:
            reason += f"; try it before a server fills the device: python3 -m {__package__}.trust"
        return {"right": False, "reason": reason, "figures": figures, "about_kernel": not full}
    errors = [found["error"] for found in figures if "error" in found]
    if not errors:
        return {"right": False, "reason": f"it refuses every case: {figures[0]['refused']}", "figures": figures}
    seconds = sum(found.get("seconds", 0.0) for found in figures)
    reason = f"{len(errors)} of {len(figures)} cases right, largest error {max(errors):.2g}, kernels {seconds:.1f} s"
    return {"right": True, "reason": reason, "figures": figures}


def end_with_parent() -> None:
    """Have this process killed when the one that waits for it ends, however it ends."""
    parent = os.environ.get(GUARD, "")
    if not parent.isdigit():
        return  # started by hand
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it had ended before
        sys.exit(1)


def device_of(operation: str) -> torch.device:
    """Return where an operation is tried: on the CPU for the interpreter and for the host's library."""
    said = os.environ.get(DEVICE, "")
    interpreted = os.environ.get("TRITON_INTERPRET", "").lower() in {"1", "true", "on", "yes"}
    if said == "cpu" if OPERATIONS[operation].library else interpreted:
        return torch.device("cpu")
    return torch.device("cuda", int(said or 0))


def main(operation: str) -> int:
    """Try an operation and return the exit code."""
    answer = os.dup(1)
    os.dup2(2, 1)  # kernels, compilers and drivers may print

    def say(**line: object) -> None:
        os.write(answer, (json.dumps(line) + "\n").encode())

    end_with_parent()
    if operation not in OPERATIONS:
        sys.stderr.write(f"no such operation: {operation}; there are: {', '.join(OPERATIONS)}\n")
        return 2
    device = device_of(operation)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.zeros(1, device=device).item()
    say(trial="begun")
    result = result_of(operation, device)
    say(trial="result", operation=operation, **result)
    return 0 if result["right"] else 1


if __name__ == "__main__":
    # At once: ending in order could wait for a device that has hung meanwhile, after its result is known.
    code = main(sys.argv[1] if sys.argv[1:] else "")
    sys.stderr.flush()
    os._exit(code)
