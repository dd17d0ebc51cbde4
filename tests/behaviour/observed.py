"""The imported tree with its attention paths counted, and how far an answer is from the dense one."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

import torch

from tests.kernels import dense

if TYPE_CHECKING:
    from tests.behaviour import cases

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


class ImportedTree:
    """The modules of the tree on PYTHONPATH, their paths counted, and the device that attends."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
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
        self.seen.count(self.module, "triton_paged_attention_v2", "triton v2", 12)

    def there(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the device; one without data stays as it is."""
        return tensor if tensor.is_meta else tensor.to(self.device)


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
