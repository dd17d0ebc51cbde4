"""Prefill attention among new tokens in plain PyTorch, for head sizes that the device's flash kernel cannot serve.

Scaled dot-product attention written out: `torch.nn.functional.scaled_dot_product_attention` may hand the work to the
very kernel that is avoided, copies the keys for grouped queries, and holds all scores at once. Here queries are taken
in tiles. Tokens with a cached context are the affair of `prefix_attention`, in the file beside this one.

The file imports nothing but torch (2.1 or newer) and its sibling, and runs unchanged on Python 3.8 and newer.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import torch

from .paged_attention_pytorch import MAX_SCORES


class _Rules(NamedTuple):
    """What a query may see, and how its logits are made; a window of 0 is none."""

    scale: float
    causal: bool
    window: int
    slopes: torch.Tensor | None


def sdpa_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: Sequence[int],
    key_lengths: Sequence[int] | None = None,
    *,
    scale: float,
    causal: bool = True,
    sliding_window: int | None = None,
    alibi_slopes: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the attention of each sequence's queries over the keys of the same sequence.

    No tensor has more elements than the largest of `MAX_SCORES` (2^23, so 32 MiB of float32 scores), the scores of one
    token (`heads * longest sequence of keys`), and the largest of `query`, `key` and `value`. At most three tensors of
    scores live at once. Nothing is read from the device.

    On a CPU all arithmetic is float32. Elsewhere products are in the type of `query`, which float16 keeps after scaling
    and bfloat16, with its 8 bits, does not: its logits are float32. The softmax is float32 everywhere.

    Args:
        query: `[tokens, heads, head_size]`, the sequences one after the other; head `h` uses KV head
            `h // (heads / kv_heads)`.
        key: `[key tokens, kv_heads, head_size]`.
        value: The same shape.
        lengths: Number of query tokens of each sequence.
        key_lengths: Number of key tokens of each sequence; `lengths` where it is None.
        scale: Factor of `q·k`.
        causal: Whether a query sees only keys up to its own position; the two lengths are then the same.
        sliding_window: A query sees keys with `q_pos - k_pos < sliding_window`; None or 0 for all. Only if `causal`.
        alibi_slopes: `[heads]` or None; the bias is `slope * (k_pos - q_pos)`. Only if `causal`.

    Returns:
        `[tokens, heads, head_size]` in the type of `query`; zeros for tokens beyond the lengths, and for those whose
        sequence has no keys.

    Raises:
        NotImplementedError: A window or slopes without `causal`.
        ValueError: The lengths contradict each other or the tensors, or the heads cannot be divided.
    """
    key_lengths = lengths if key_lengths is None else key_lengths
    _refuse(query, key, lengths, key_lengths, causal=causal)
    window = max(sliding_window or 0, 0)
    if not causal and (window or alibi_slopes is not None):
        raise NotImplementedError("a sliding window or ALiBi in attention that is not causal")
    slopes = None if alibi_slopes is None else alibi_slopes.to(torch.float32)
    rules = _Rules(float(scale), causal, window, slopes)
    output = torch.zeros_like(query, memory_format=torch.contiguous_format)
    start = first = 0
    for new, tokens in zip(lengths, key_lengths):
        if new and tokens:
            mine, others = slice(start, start + new), slice(first, first + tokens)
            _attend(query[mine], key[others], value[others], rules, output[mine])
        start, first = start + new, first + tokens
    return output


def _refuse(
    query: torch.Tensor, key: torch.Tensor, lengths: Sequence[int], key_lengths: Sequence[int], *, causal: bool
) -> None:
    """Raise `ValueError` before any work where the answer would be wrong."""
    if query.shape[1] % key.shape[1]:
        raise ValueError(f"{query.shape[1]} query heads cannot be divided among {key.shape[1]} KV heads")
    if len(lengths) != len(key_lengths):
        raise ValueError(f"{len(lengths)} sequences of queries, {len(key_lengths)} of keys")
    if causal and list(lengths) != list(key_lengths):
        raise ValueError("causal attention of new tokens among themselves has as many keys as queries")
    for what, tensor, every in (("query", query, lengths), ("key", key, key_lengths)):
        if sum(every) > tensor.shape[0]:
            raise ValueError(f"the lengths name {sum(every)} tokens, the {what} has {tensor.shape[0]}")


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rules: _Rules, output: torch.Tensor) -> None:
    """Write one sequence's attention into `output`, as many queries at a time as `MAX_SCORES` allows."""
    new, heads, _ = query.shape
    tokens = key.shape[0]
    product, weighting = _product_dtypes(query)
    keys, values = key.transpose(0, 1).to(product), value.transpose(0, 1).to(weighting)
    height = max(1, MAX_SCORES // (heads * tokens))
    for start in range(0, new, height):
        stop = min(start + height, new)
        first = max(0, start - rules.window + 1) if rules.window else 0
        span = (first, stop if rules.causal else tokens)
        seen = slice(*span)
        output[start:stop] = _attend_tile(query[start:stop], start, keys[:, seen], values[:, seen], span, rules)


def _attend_tile(  # noqa: PLR0917 - a tile's two axes, each with its place
    query: torch.Tensor, start: int, keys: torch.Tensor, values: torch.Tensor, span: tuple[int, int], rules: _Rules
) -> torch.Tensor:
    """Return the attention of `query` `[rows, heads, head_size]`, from position `start`, over the keys of `span`.

    `keys` and `values` are `[kv_heads, span, head_size]`. A KV head's group of query heads is stacked along the rows:
    that way no key is copied for the other heads of its group.
    """
    rows, heads, head_size = query.shape
    kv_heads = keys.shape[0]
    group = heads // kv_heads
    by_group = query.reshape(rows, kv_heads, group, head_size).permute(1, 2, 0, 3)
    stacked = by_group.reshape(kv_heads, group * rows, head_size).to(keys.dtype)
    unread = stacked.new_empty((1, 1, 1))  # baddbmm wants an addend; with beta=0 it is not read
    # alpha scales inside the product, before rounding: a large q·k does not overflow float16.
    products = torch.baddbmm(unread, stacked, keys.transpose(1, 2), beta=0, alpha=rules.scale)
    logits = products.to(torch.float32).view(kv_heads, group, rows, -1)
    del products
    if rules.causal:
        position = torch.arange(*span, device=query.device).unsqueeze(0)
        distance = position - torch.arange(start, start + rows, device=query.device).unsqueeze(1)
        if rules.slopes is not None:
            logits = logits.add_(rules.slopes.view(kv_heads, group, 1, 1) * distance)
        hidden = distance > 0
        if rules.window:
            hidden |= distance <= -rules.window
        logits = logits.masked_fill_(hidden, float("-inf"))  # every row sees its own position, so none is empty
    weights = torch.softmax(logits, -1).to(values.dtype).view(kv_heads, group * rows, -1)
    del logits
    attended = torch.bmm(weights, values).view(kv_heads, group, rows, head_size)
    return attended.permute(2, 0, 1, 3).reshape(rows, heads, head_size)


def _product_dtypes(query: torch.Tensor) -> tuple[torch.dtype, torch.dtype]:
    """Return the types of `q·k` and of `weights·value`: CPUs are slow in half precision, bfloat16 logits are coarse."""
    if query.device.type == "cpu":
        return torch.float32, torch.float32
    return (query.dtype if query.dtype == torch.float16 else torch.float32), query.dtype
