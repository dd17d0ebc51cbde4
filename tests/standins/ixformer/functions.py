"""The operators of `ixformer.functions` that exist in the image, as references in plain PyTorch.

Of the 24 names that the vendor's `_custom_ops.py` uses only eleven exist; the two cache operators below them
exist and are not used. Shapes: T tokens, S sequences, H query heads, K key-value heads, D head size, B block
size, x = 16 bytes / element size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTEXT_LIMIT = 32768  # tokens; the device's kernel works to about here and fails beyond


def silu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write silu(left half of `x`) · right half into `out`."""
    gate, up = x.chunk(2, dim=-1)
    out.copy_(torch.nn.functional.silu(gate) * up)


def gelu_and_mul(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write gelu(left half of `x`) · right half into `out`."""
    gate, up = x.chunk(2, dim=-1)
    out.copy_(torch.nn.functional.gelu(gate) * up)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, epsilon: float) -> None:
    """Write `x` over its root mean square, times `weight`, into `out`."""
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon)
    out.copy_(scaled.to(x.dtype) * weight)


def fused_add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float) -> None:
    """Add `x` to `residual` in place, then write the norm of the sum into `x`."""
    residual.add_(x)
    rms_norm(residual, weight, x, epsilon)


def vllm_rotary_embedding_neox(  # noqa: PLR0913, PLR0917 - the library's signature
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,  # noqa: FBT001 - the library's signature
) -> None:
    """Rotate `query` and `key` (T, heads · D) in place; `cos_sin_cache` is (positions, 2 · pairs)."""
    cos, sin = cos_sin_cache[positions.flatten()].unsqueeze(1).chunk(2, dim=-1)
    width = 2 * cos.shape[-1]
    for rotated in (query, key):
        heads = rotated.view(-1, rotated.shape[-1] // head_size, head_size)[..., :width]
        first, second = (
            heads.clone().chunk(2, dim=-1) if is_neox else (heads[..., ::2].clone(), heads[..., 1::2].clone())
        )
        left, right = first * cos - second * sin, second * cos + first * sin
        turned = torch.cat((left, right), dim=-1) if is_neox else torch.stack((left, right), dim=-1).flatten(-2)
        heads.copy_(turned)


def vllm_cache_ops_reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Write `key` and `value` (T, K, D) to their slots; a negative slot is padding.

    `key_cache` is (blocks, K, D/x, B, x), `value_cache` (blocks, K, D, B).
    """
    if slot_mapping.dtype is not torch.int32:
        raise RuntimeError(f"slot_mapping must be int32, not {slot_mapping.dtype}")
    kept = slot_mapping >= 0
    slots = slot_mapping[kept].long()
    block_size = value_cache.shape[-1]
    blocks, offsets = slots // block_size, slots % block_size
    tokens, kv_heads, _ = key[kept].shape
    key_cache[blocks, :, :, offsets, :] = key[kept].view(tokens, kv_heads, -1, key_cache.shape[-1])
    value_cache[blocks, :, :, offsets] = value[kept]


def vllm_single_query_cached_kv_attention(  # noqa: PLR0913, PLR0917 - the library's signature
    output: torch.Tensor,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    head_mapping: torch.Tensor,
    scale: float,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    block_size: int,
    max_context_len: int,
    alibi_slopes: torch.Tensor | None = None,
) -> None:
    """Write the attention of one query per sequence over its paged context into `output`.

    `query` and `output` are (S, H, D), `head_mapping` (H,) gives the KV head of each query head,
    `block_tables` is (S, blocks), `context_lens` (S,); the caches as in `vllm_cache_ops_reshape_and_cache`.
    Raises `RuntimeError` beyond `CONTEXT_LIMIT`, and `TypeError` for a head count instead of a mapping.
    """
    if not isinstance(head_mapping, torch.Tensor):
        raise TypeError("head_mapping must be a tensor with the KV head of each query head")
    if max_context_len > CONTEXT_LIMIT:
        raise RuntimeError(f"context of {max_context_len} tokens: the kernel takes at most {CONTEXT_LIMIT}")
    mapping = head_mapping.long()
    for i, length in enumerate(context_lens.tolist()):
        blocks = block_tables[i, : -(-length // block_size)].long()
        keys = key_cache[blocks].permute(0, 3, 1, 2, 4).flatten(3).flatten(0, 1)[:length, mapping]
        values = value_cache[blocks].permute(0, 3, 1, 2).flatten(0, 1)[:length, mapping]
        scores = torch.einsum("hd,thd->ht", query[i].float(), keys.float()) * scale
        if alibi_slopes is not None:
            scores += alibi_slopes.float().unsqueeze(1) * (torch.arange(length) - (length - 1))
        weights = scores.softmax(dim=-1)
        output[i] = torch.einsum("ht,thd->hd", weights, values.float()).to(output.dtype)


def vllm_copy_cache(
    key_caches: Sequence[torch.Tensor], value_caches: Sequence[torch.Tensor], mapping: Mapping[int, Sequence[int]]
) -> None:
    """Copy blocks within each layer's caches; the library takes a dict, source block → target blocks."""
    if not isinstance(mapping, dict):
        raise TypeError(f"the mapping must be a dict, not {type(mapping).__name__}")
    for cache in (*key_caches, *value_caches):
        for source, targets in mapping.items():
            for target in targets:
                cache[target].copy_(cache[source])


def vllm_swap_blocks(source: torch.Tensor, target: torch.Tensor, mapping: Mapping[int, int]) -> None:
    """Copy blocks from one cache to another; the library takes a dict, source block → target block."""
    if not isinstance(mapping, dict):
        raise TypeError(f"the mapping must be a dict, not {type(mapping).__name__}")
    for old, new in mapping.items():
        target[new].copy_(source[old])


def quantized_linear(*_: object, **__: object) -> NoReturn:
    """Exists in the image; not computed here."""
    raise RuntimeError("the stand-in computes no quantised layers")


def quantized_weight_dequant(*_: object, **__: object) -> NoReturn:
    """Exists in the image; not computed here."""
    raise RuntimeError("the stand-in computes no quantised layers")


def vllm_gptq_shuffle(*_: object, **__: object) -> NoReturn:
    """Exists in the image; not computed here."""
    raise RuntimeError("the stand-in computes no quantised layers")


def w8a16(*_: object, **__: object) -> NoReturn:
    """Exists in the image; not computed here."""
    raise RuntimeError("the stand-in computes no quantised layers")
