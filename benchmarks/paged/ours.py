"""This project's kernels, and the plain loop that they replace, as contenders."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.paged.cells import PAGE
from benchmarks.paged.contender import Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.paged.data import Chunk, Step

FOLDER = Path(__file__).parents[2] / "kernels"
DECODE = "paged_attention_v2_triton"
PREFILL = "prefix_prefill"
ROWS_VARIABLE = "VLLM_MUH_DEVICE"
"""Says whose rows of `muh_dispatch.py` are used."""

PARTITION = 512
"""Tokens of a partition in vLLM's work buffers."""

MINE = "ours"
V2 = "PyTorch V2"
LOOP = "eager loop"
TILED = "tiled PyTorch"

_copies = 0


@dataclass(frozen=True)
class Kernels:
    """A package of the kernels: as they are, or a copy with other text or with the rows of another device."""

    package: str
    rows: str = ""

    def module(self, name: str) -> Any:  # noqa: ANN401 - a module that is only known at run time
        """Return one of its modules."""
        return importlib.import_module(f"{self.package}.{name}")


AS_THEY_ARE = Kernels("kernels")


def copied(folder: Path, texts: Mapping[str, str], rows: str = "") -> Kernels:
    """Return a copy of the kernels in `folder`, a package of its own, with `texts` in place of some files."""
    global _copies  # noqa: PLW0603 - every copy needs another name, since modules are kept by name
    _copies += 1
    package = folder / f"kernels_copy_{_copies}"
    package.mkdir()
    for path in FOLDER.glob("*.py"):
        (package / path.name).write_text(texts.get(path.name, path.read_text(encoding="utf-8")), encoding="utf-8")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    return Kernels(package.name, rows)


def with_rows(kernels: Kernels, call: Callable[[int], torch.Tensor]) -> Callable[[int], torch.Tensor]:
    """Return `call` after a first one under the rows that `kernels` asks for: the plan is then kept."""
    if kernels.rows:
        before = os.environ.get(ROWS_VARIABLE)
        os.environ[ROWS_VARIABLE] = kernels.rows
        try:
            call(0)
        finally:
            os.environ.pop(ROWS_VARIABLE)
            if before is not None:
                os.environ[ROWS_VARIABLE] = before
    return call


def decode_call(step: Step, module: Any) -> Callable[[int], torch.Tensor]:  # noqa: ANN401 - as above
    """Return a call of a module's `paged_attention_v2`, work buffers sized as vLLM sizes them."""
    paged, query, lens = step.paged, step.query, step.paged.lens
    parts = -(-step.bound // PARTITION)
    sums = query.new_empty((*query.shape[:2], parts), dtype=torch.float32)
    top, work = torch.empty_like(sums), query.new_empty((*sums.shape, query.shape[2]))
    out = torch.full_like(query, float("nan"))

    def call(index: int) -> torch.Tensor:
        key, value = paged.caches[index]
        module.paged_attention_v2(
            out,
            sums,
            top,
            work,
            query,
            key,
            value,
            paged.heads.kv,
            step.scale,
            paged.table,
            lens,
            PAGE,
            step.bound,
            None,
            "auto",
            1.0,
            1.0,
        )
        return out

    return call


def prefill_call(chunk: Chunk, module: Any) -> Callable[[int], torch.Tensor]:  # noqa: ANN401 - as above
    """Return a call of a module's `context_attention_fwd`."""
    paged, out = chunk.paged, torch.full_like(chunk.query, float("nan"))
    longest = max(chunk.new)

    def call(index: int) -> torch.Tensor:
        (key, value), (k, v) = paged.caches[index], chunk.pairs[index]
        module.context_attention_fwd(
            chunk.query,
            k,
            v,
            out,
            "auto",
            key,
            value,
            paged.table,
            chunk.start_loc,
            chunk.totals,
            paged.lens,
            longest,
        )
        return out

    return call


def tiled_call(chunk: Chunk) -> Callable[[int], torch.Tensor]:
    """Return a call of the tiled PyTorch prefill."""
    attention = AS_THEY_ARE.module("paged_attention_pytorch").prefix_attention
    paged, longest = chunk.paged, max(chunk.new)

    def call(index: int) -> torch.Tensor:
        (key, value), (k, v) = paged.caches[index], chunk.pairs[index]
        tables = (paged.table, chunk.start_loc, chunk.totals, paged.lens)
        found: torch.Tensor = attention(chunk.query, k, v, "auto", key, value, *tables, longest, None, None, 1.0, 1.0)
        return found

    return call


def loop_call(step: Step) -> Callable[[int], torch.Tensor]:
    """Return what runs without V2: one sequence after the other, in float32, lengths read from the device."""
    paged, out = step.paged, torch.empty_like(step.query)
    heads = paged.heads

    def call(index: int) -> torch.Tensor:
        key, value = paged.caches[index]
        for row, length in enumerate(paged.lens.tolist()):
            pages = paged.table[row, : -(-length // PAGE)].long()
            k = key[pages].permute(1, 0, 3, 2, 4).reshape(heads.kv, -1, heads.size)[:, :length].float()
            v = value[pages].permute(1, 0, 3, 2).reshape(heads.kv, -1, heads.size)[:, :length].float()
            query = step.query[row].float().view(heads.kv, heads.group, heads.size)
            weights = torch.softmax(torch.matmul(query, k.transpose(1, 2)) * step.scale, -1)
            out[row] = torch.matmul(weights, v).view(heads.query, heads.size)
        return out

    return call


def name_of(kernels: Kernels) -> str:
    """Return the family that a copy of the kernels is shown as."""
    return f"{MINE}, rows {kernels.rows}" if kernels.rows else MINE


def decode_triton(kernels: Kernels, family: str = "") -> Contender:
    """Return the Triton decode of a copy of the kernels."""

    def prepare(step: Step) -> Callable[[int], torch.Tensor]:
        return with_rows(kernels, decode_call(step, kernels.module(DECODE)))

    return Contender(family or name_of(kernels), prepare, needs="triton", poison=True)


def prefill_triton(kernels: Kernels, family: str = "") -> Contender:
    """Return the Triton prefill of a copy of the kernels."""

    def prepare(chunk: Chunk) -> Callable[[int], torch.Tensor]:
        return with_rows(kernels, prefill_call(chunk, kernels.module(PREFILL)))

    return Contender(family or name_of(kernels), prepare, needs="triton", poison=True)


def in_pytorch(kind: str) -> list[Contender]:
    """Return the paths that need no Triton."""
    if kind == "prefill":
        return [Contender(TILED, tiled_call, graph=False, poison=True)]
    module = "paged_attention_v2_pytorch"
    v2 = Contender(V2, lambda step: decode_call(step, AS_THEY_ARE.module(module)), graph=False, poison=True)
    return [v2, Contender(LOOP, loop_call, graph=False)]
