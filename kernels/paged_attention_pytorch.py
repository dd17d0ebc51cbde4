"""Attention over vLLM's paged cache in plain PyTorch: what runs where no device kernel is trusted.

Two entry points, one for each half of serving, and the pieces that the batched V2 decode beside this file shares:

* `prefix_attention` computes new tokens against a cached context (`PagedAttention.forward_prefix`);
* `long_decode_attention` computes one new token a sequence against a cache of any length.

Both hold a bounded amount of memory and combine tiles by their softmax statistics (Milakov and Gimelshein 2018,
"Online normalizer calculation for softmax"; Rabe and Staats 2021, "Self-attention does not need O(n^2) memory").

Cache layout, with `x` elements in 16 bytes:
key `[num_blocks, kv_heads, head_size / x, block_size, x]`, value `[num_blocks, kv_heads, head_size, block_size]`.

The file imports nothing but torch (2.1 or newer) and runs unchanged on Python 3.8 and newer.
"""

from __future__ import annotations

import math
from typing import Iterator, NamedTuple

import torch

PARTITION_SIZE = 512
"""Tokens whose softmax statistics are kept together in decode. vLLM sizes its work buffers for this number."""

MAX_GATHERED = 1 << 24
"""Largest number of key elements gathered at once: 32 MiB in half precision, 64 MiB as float32."""

MAX_SCORES = 1 << 23
"""Largest number of prefill scores held at once: 32 MiB as float32."""

_LOWEST = torch.finfo(torch.float32).min
_MASKED = -1e30  # finite, so that a row whose whole tile is masked gives no NaN; its weight later becomes exactly 0
_SMALLEST_TILE = 64
_LARGEST_TILE = 2048
_CACHE_DTYPE_NAMES = {
    torch.float16: ("auto", "half", "float16", "fp16"),
    torch.bfloat16: ("auto", "bfloat16", "bf16"),
    torch.float32: ("auto", "float", "float32", "fp32"),
}


class PagedCache(NamedTuple):
    """The two halves of one layer's paged cache, in the layout that the module's docstring states."""

    key: torch.Tensor
    value: torch.Tensor

    def gather_keys(self, pages: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the keys of `pages` `[rows, n]` (int64) as `[rows, kv_heads, n * block_size, head_size]`."""
        rows, count = pages.shape
        _, kv_heads, chunks, block_size, x = self.key.shape
        pages_of_keys = self.key.index_select(0, pages.reshape(-1))
        tokens_first = pages_of_keys.view(rows, count, kv_heads, chunks, block_size, x).permute(0, 2, 1, 4, 3, 5)
        # Converting and transposing is one pass over the data this way.
        converted = tokens_first.to(dtype, memory_format=torch.contiguous_format)
        return converted.reshape(rows, kv_heads, count * block_size, chunks * x)

    def gather_values(self, pages: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the values of `pages` `[rows, n]` (int64) as `[rows, kv_heads, head_size, n * block_size]`.

        The head size stays in front of the tokens, as in the cache: a page's row of slots is then copied whole.
        """
        rows, count = pages.shape
        _, kv_heads, head_size, block_size = self.value.shape
        pages_of_values = self.value.index_select(0, pages.reshape(-1))
        dims_first = pages_of_values.view(rows, count, kv_heads, head_size, block_size).permute(0, 2, 3, 1, 4)
        converted = dims_first.to(dtype, memory_format=torch.contiguous_format)
        return converted.reshape(rows, kv_heads, head_size, count * block_size)


def refuse_unsupported(query: torch.Tensor, cache: PagedCache, kv_heads: int, kv_cache_dtype: str) -> None:
    """Raise before any work where the answer would be wrong.

    Raises:
        NotImplementedError: the cache is quantised (its scales would have to be applied).
        ValueError: the query heads cannot be divided among the KV heads.
    """
    if kv_cache_dtype not in _CACHE_DTYPE_NAMES.get(cache.key.dtype, ()):
        raise NotImplementedError(
            f"kv_cache_dtype {kv_cache_dtype!r} with a cache of {cache.key.dtype} is not supported by the PyTorch "
            f"attention: start the engine with --kv-cache-dtype auto"
        )
    if query.shape[1] % kv_heads:
        raise ValueError(f"{query.shape[1]} query heads cannot be divided among {kv_heads} KV heads")


# ---------------------------------------------------------------------------------------------------------------------
# Decode: one new token a sequence. Nothing here reads the device: every shape follows from arguments on the host.
# ---------------------------------------------------------------------------------------------------------------------


class Partitions(NamedTuple):
    """Softmax statistics of partitions of the KV axis, in float32.

    `max_logit` and `exp_sum` are `[seqs, partitions, kv_heads, group]`; `weighted`, with `head_size` behind that, is
    the sum of `exp(logit - max) * value`. A partition without tokens has the lowest float, 0 and 0.
    """

    max_logit: torch.Tensor
    exp_sum: torch.Tensor
    weighted: torch.Tensor

    def merged(self) -> Partitions:
        """Return the statistics of all partitions together, as one partition."""
        top = self.max_logit.amax(1, keepdim=True)
        weight = torch.exp(self.max_logit - top)
        return Partitions(
            top,
            (weight * self.exp_sum).sum(1, keepdim=True),
            (weight.unsqueeze(-1) * self.weighted).sum(1, keepdim=True),
        )

    def joined(self, other: Partitions) -> Partitions:
        """Return these partitions followed by the other ones."""
        return Partitions(
            torch.cat((self.max_logit, other.max_logit), 1),
            torch.cat((self.exp_sum, other.exp_sum), 1),
            torch.cat((self.weighted, other.weighted), 1),
        )

    def outputs(self) -> torch.Tensor:
        """Return each partition's own attention output, `[seqs, partitions, heads, head_size]`; 0 where it is empty."""
        # A non-empty partition has exp_sum >= 1: its largest logit contributes exp(0).
        normalised = self.weighted / self.exp_sum.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(-1)
        return normalised.flatten(2, 3)


class DecodeBatch(NamedTuple):
    """One decode step of one layer.

    `query` is `[seqs, heads, head_size]`, `block_tables` `[seqs, width]`, `seq_lens` `[seqs]`; `max_tokens` bounds
    every length on the host. Table entries beyond a sequence and slots beyond its length may hold anything.
    """

    query: torch.Tensor
    cache: PagedCache
    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    max_tokens: int
    scale: float
    alibi_slopes: torch.Tensor | None

    @classmethod
    def bounded(
        cls,
        *,
        query: torch.Tensor,
        cache: PagedCache,
        block_tables: torch.Tensor,
        seq_lens: torch.Tensor,
        max_seq_len: int,
        scale: float,
        alibi_slopes: torch.Tensor | None,
    ) -> DecodeBatch:
        """Return the batch with lengths bounded by `max_seq_len` and by what the table can name.

        ALiBi is not disturbed by the bound: it moves a sequence's biases by one constant, which softmax ignores.
        """
        max_tokens = min(int(max_seq_len), block_tables.shape[1] * cache.key.shape[3]) if cache.key.shape[0] else 0
        lengths = seq_lens.to(torch.int64).clamp(max=max_tokens)
        return cls(query, cache, block_tables, lengths, max_tokens, scale, alibi_slopes)

    @property
    def num_partitions(self) -> int:
        """Number of partitions that `max_tokens` spans."""
        return -(-self.max_tokens // PARTITION_SIZE)

    @property
    def pages_per_partition(self) -> int:
        """Pages to gather for one partition: one more where partitions do not begin and end with a page."""
        block_size = self.cache.key.shape[3]
        pages = -(-PARTITION_SIZE // block_size) + (PARTITION_SIZE % block_size != 0)
        return min(pages, -(-self.max_tokens // block_size))

    @property
    def partition_elements(self) -> int:
        """Key elements that one partition of one sequence gathers."""
        _, kv_heads, chunks, block_size, x = self.cache.key.shape
        return self.pages_per_partition * block_size * kv_heads * chunks * x

    def groups(self, partitions: int) -> Iterator[slice]:
        """Cut the batch so that `partitions` partitions of a group stay within `MAX_GATHERED` (or are one sequence)."""
        step = max(1, MAX_GATHERED // (partitions * self.partition_elements))
        for start in range(0, self.query.shape[0], step):
            yield slice(start, start + step)

    def part(self, rows: slice) -> DecodeBatch:
        """Return the batch of some of the sequences."""
        return self._replace(query=self.query[rows], block_tables=self.block_tables[rows], seq_lens=self.seq_lens[rows])

    def statistics(self, first: int, count: int) -> Partitions:
        """Return the softmax statistics of partitions `first` … `first + count - 1`, all at once.

        Logits are `scale * q·k + slope * (k_pos - q_pos)`, with `q_pos = seq_len - 1`; all arithmetic is float32.
        """
        seqs, heads, head_size = self.query.shape
        kv_heads = self.cache.key.shape[1]
        pages, positions, unused = self._tokens(first, count)
        tokens = positions.shape[-1]

        keys = self.cache.gather_keys(pages, torch.float32).view(seqs, count, kv_heads, tokens, head_size)
        query = self.query.to(torch.float32).reshape(seqs, 1, kv_heads, heads // kv_heads, head_size)
        logits = torch.matmul(query, keys.transpose(-1, -2)).mul_(self.scale)
        del keys  # the values need the memory
        if self.alibi_slopes is not None:
            distance = positions - (self.seq_lens.view(-1, 1, 1) - 1)
            slopes = self.alibi_slopes.to(torch.float32).view(1, 1, kv_heads, heads // kv_heads, 1)
            logits = logits.addcmul_(slopes, distance.to(torch.float32).view(seqs, count, 1, 1, tokens))
        logits = logits.masked_fill_(unused, -math.inf)

        max_logit = logits.amax(-1).clamp(min=_LOWEST)  # finite also without tokens: no inf - inf
        weights = logits.sub_(max_logit.unsqueeze(-1)).exp_()
        values = self.cache.gather_values(pages, torch.float32).view(seqs, count, kv_heads, head_size, tokens)
        values = values.masked_fill_(unused, 0.0)  # a stale NaN times a weight of 0 would still be NaN
        return Partitions(max_logit, weights.sum(-1), torch.matmul(weights, values.transpose(-1, -2)))

    def _tokens(self, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return which tokens the partitions read.

        `pages` `[seqs * count, n]` are safe to gather, `positions` `[count, n * block_size]` are token indices, and
        `unused` `[seqs, count, 1, 1, n * block_size]` is true for slots that belong to no token of the partition.
        """
        device = self.query.device
        block_size = self.cache.key.shape[3]
        lengths = self.seq_lens.view(-1, 1, 1)
        begin = torch.arange(first, first + count, device=device).mul_(PARTITION_SIZE).unsqueeze(-1)
        columns = torch.div(begin, block_size, rounding_mode="floor") + torch.arange(
            self.pages_per_partition, device=device
        )
        starts = columns * block_size
        positions = (starts.unsqueeze(-1) + torch.arange(block_size, device=device)).flatten(1)

        in_table = columns.clamp(max=self.block_tables.shape[1] - 1).view(-1)
        pages = self.block_tables.index_select(1, in_table).to(torch.int64).view(-1, count, self.pages_per_partition)
        pages = pages.masked_fill(starts >= lengths, 0).clamp_(0, self.cache.key.shape[0] - 1)

        unused = positions >= lengths
        if PARTITION_SIZE % block_size:  # the first and the last page reach into the neighbours
            unused = unused | (positions < begin) | (positions >= begin + PARTITION_SIZE)
        return pages.flatten(0, 1), positions, unused.unsqueeze(2).unsqueeze(2)


def long_decode_attention(  # noqa: PLR0917 - the arguments of vLLM's forward_decode
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    kv_cache_dtype: str,
    scale: float,
    alibi_slopes: torch.Tensor | None,
    k_scale: float,
    v_scale: float,
) -> torch.Tensor:
    """Return decode attention of `query` over the paged cache, tiled along the KV axis.

    No tensor has more elements than the largest of `MAX_GATHERED`, one partition of one sequence
    (`PARTITION_SIZE * kv_heads * head_size`, rounded up to pages) and `query`, whatever the batch and the length.
    The device is never read, so the call can be captured; `max_seq_len` may be a mere bound of the lengths.

    Args:
        query: `[seqs, heads, head_size]`, half or single precision; head `h` uses KV head `h // (heads / kv_heads)`.
        key_cache: Keys, in the layout stated above.
        value_cache: Values, in the layout stated above.
        block_tables: `[seqs, width]`; entries beyond a sequence may be anything.
        seq_lens: `[seqs]`, with the new token, which is in the cache already; a length of 0 gives zeros.
        max_seq_len: Upper bound of `seq_lens`, in tokens; a narrower table bounds it further.
        kv_cache_dtype: `auto`, or the name of the cache's own type.
        scale: Factor of `q·k`.
        alibi_slopes: `[heads]`, or None.
        k_scale: Only for quantised caches, which are refused.
        v_scale: The same.

    Returns:
        `[seqs, heads, head_size]` in the type of `query`.

    Raises:
        NotImplementedError: The cache is quantised.
        ValueError: The heads cannot be divided among the KV heads.
    """
    del k_scale, v_scale
    cache = PagedCache(key_cache, value_cache)
    refuse_unsupported(query, cache, key_cache.shape[1], kv_cache_dtype)
    batch = DecodeBatch.bounded(
        query=query,
        cache=cache,
        block_tables=block_tables,
        seq_lens=seq_lens,
        max_seq_len=max_seq_len,
        scale=scale,
        alibi_slopes=alibi_slopes,
    )
    output = torch.zeros_like(query, memory_format=torch.contiguous_format)
    if batch.max_tokens <= 0:
        return output
    tile = min(batch.num_partitions, max(1, MAX_GATHERED // batch.partition_elements))
    for rows in batch.groups(tile):
        group = batch.part(rows)
        state = group.statistics(0, tile).merged()
        for first in range(tile, batch.num_partitions, tile):
            more = group.statistics(first, min(tile, batch.num_partitions - first))
            state = state.joined(more).merged()
        output[rows] = state.outputs().squeeze(1)
    return output


# ---------------------------------------------------------------------------------------------------------------------
# Prefill: new tokens against a cached context and against each other.
# ---------------------------------------------------------------------------------------------------------------------


class _Sequence(NamedTuple):
    """Keys and values of one sequence: `context` tokens in the cache, the new ones `[new, kv_heads, head_size]` beside.

    `pages` is the sequence's row of the block table as int64.
    """

    cache: PagedCache
    pages: torch.Tensor
    context: int
    new_key: torch.Tensor
    new_value: torch.Tensor

    def keys(self, start: int, stop: int, dtype: torch.dtype) -> torch.Tensor:
        """Return the keys of tokens `start` … `stop - 1`, all cached or all new, as `[kv_heads, tokens, head_size]`."""
        if start >= self.context:
            return self.new_key[start - self.context : stop - self.context].transpose(0, 1).to(dtype)
        pages, skip = self._pages(start, stop)
        return self.cache.gather_keys(pages, dtype)[0, :, skip : skip + stop - start]

    def values(self, start: int, stop: int, dtype: torch.dtype) -> torch.Tensor:
        """Return the values of the same tokens as `[kv_heads, tokens, head_size]`."""
        if start >= self.context:
            return self.new_value[start - self.context : stop - self.context].transpose(0, 1).to(dtype)
        pages, skip = self._pages(start, stop)
        return self.cache.gather_values(pages, dtype)[0, :, :, skip : skip + stop - start].transpose(1, 2)

    def _pages(self, start: int, stop: int) -> tuple[torch.Tensor, int]:
        """Return the pages that hold cached tokens `start` … `stop - 1`, and the slots to skip in the first of them."""
        block_size = self.cache.key.shape[3]
        first = start // block_size
        return self.pages[first : -(-stop // block_size)].unsqueeze(0), start - first * block_size

    def spans(self, start: int, stop: int, width: int) -> Iterator[tuple[int, int]]:
        """Cut tokens `start` … `stop - 1` into pieces of at most `width` that do not cross the end of the context."""
        while start < stop:
            limit = self.context if start < self.context else stop
            yield start, min(start + width, limit, stop)
            start = min(start + width, limit, stop)


class _Rules(NamedTuple):
    """What turns products into logits: scale, window in tokens (0: none) and slopes `[heads]` in float32 or None."""

    scale: float
    window: int
    slopes: torch.Tensor | None

    def logits(self, products: torch.Tensor, queries: tuple[int, int], keys: tuple[int, int]) -> torch.Tensor:
        """Return float32 logits of scaled `products` `[kv_heads, group * queries, keys]` at these positions."""
        logits = products.to(torch.float32)
        causal = keys[1] - 1 > queries[0]
        windowed = 0 < self.window <= queries[1] - 1 - keys[0]
        if not (causal or windowed or self.slopes is not None):
            return logits  # every query sees every key: most of a long context
        q_pos = torch.arange(queries[0], queries[1], device=logits.device).unsqueeze(-1)
        distance = torch.arange(keys[0], keys[1], device=logits.device) - q_pos
        by_head = logits.view(-1, *distance.shape)
        if self.slopes is not None:
            by_head.addcmul_(self.slopes.view(-1, 1, 1), distance.to(torch.float32))
        if causal:
            by_head.masked_fill_(distance > 0, _MASKED)
        if windowed:
            by_head.masked_fill_(distance <= -self.window, _MASKED)
        return logits


def prefix_attention(  # noqa: PLR0917 - vLLM's signature
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    kv_cache_dtype: str,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    context_lens: torch.Tensor,
    max_query_len: int,
    alibi_slopes: torch.Tensor | None,
    sliding_window: int | None,
    k_scale: float,
    v_scale: float,
) -> torch.Tensor:
    """Return causal attention of new tokens over their cached context and over each other.

    The arguments are those of `PagedAttention.forward_prefix`. Scores are tiled over queries and keys: no tensor has
    more elements than the largest of `MAX_SCORES`, `MAX_GATHERED` (plus two pages) and `query`, whatever the lengths.
    The lengths are read from the device once, in one transfer, so the call cannot be captured.

    On a CPU all arithmetic is float32. Elsewhere products are in the type of `query`, accumulated in float32; float16
    logits are rounded after scaling, bfloat16 ones, which would keep 8 bits, are not.

    Args:
        query: `[tokens, heads, head_size]`, the sequences' new tokens one after the other.
        key: `[tokens, kv_heads, head_size]`, of the new tokens only.
        value: The same shape.
        kv_cache_dtype: `auto`, or the name of the cache's own type.
        key_cache: Keys of the context, in the layout stated above.
        value_cache: Values of the context.
        block_tables: `[seqs, width]`; the row of a sequence without context is never read, and the width may then be 0.
        query_start_loc: `[seqs + 1]`, where each sequence's new tokens begin; the last entry is their number.
        seq_lens: `[seqs]`, context and new tokens together.
        context_lens: `[seqs]`, tokens in the cache.
        max_query_len: Not needed, the lengths are known.
        alibi_slopes: `[heads]` or None; the bias is `slope * (k_pos - q_pos)`.
        sliding_window: A query sees keys with `q_pos - k_pos < sliding_window`; None or 0 for all.
        k_scale: Only for quantised caches, which are refused.
        v_scale: The same.

    Returns:
        `[tokens, heads, head_size]` in the type of `query`; zeros for tokens that belong to no sequence. The logits'
        scale is `head_size ** -0.5`, as in vLLM's own kernel.

    Raises:
        NotImplementedError: The cache is quantised.
        ValueError: The lengths contradict each other, or a table is too narrow for its context.
    """
    del max_query_len, k_scale, v_scale
    cache = PagedCache(key_cache, value_cache)
    refuse_unsupported(query, cache, key.shape[1], kv_cache_dtype)
    starts, contexts = _read_lengths(query_start_loc, seq_lens, context_lens)
    if starts[-1] > query.shape[0]:
        raise ValueError(f"query_start_loc names {starts[-1]} tokens, the query has {query.shape[0]}")
    slopes = None if alibi_slopes is None else alibi_slopes.to(torch.float32)
    rules = _Rules(query.shape[-1] ** -0.5, max(sliding_window or 0, 0), slopes)
    output = torch.zeros_like(query, memory_format=torch.contiguous_format)
    for index, context in enumerate(contexts):
        new = slice(starts[index], starts[index + 1])
        if new.start == new.stop:
            continue
        pages = _context_pages(block_tables, index, context, cache)
        _attend(query[new], _Sequence(cache, pages, context, key[new], value[new]), rules, output[new])
    return output


def _read_lengths(
    query_start_loc: torch.Tensor, seq_lens: torch.Tensor, context_lens: torch.Tensor
) -> tuple[list[int], list[int]]:
    """Return the starts of the sequences' new tokens and their context lengths, by one transfer from the device."""
    seqs = query_start_loc.shape[0] - 1
    every = torch.cat((query_start_loc, context_lens[:seqs], seq_lens[:seqs])).tolist()
    starts, contexts, totals = every[: seqs + 1], every[seqs + 1 : 2 * seqs + 1], every[2 * seqs + 1 :]
    for index in range(seqs):
        new = starts[index + 1] - starts[index]
        if contexts[index] < 0 or new < 0 or contexts[index] + new != totals[index]:
            raise ValueError(
                f"sequence {index}: {contexts[index]} cached and {new} new tokens are not its length {totals[index]}"
            )
    return starts, contexts


def _context_pages(block_tables: torch.Tensor, index: int, context: int, cache: PagedCache) -> torch.Tensor:
    """Return the pages of a sequence's context as int64; none, without touching the table, where it has no context."""
    if context == 0:
        return torch.empty(0, dtype=torch.int64, device=block_tables.device)
    count = -(-context // cache.key.shape[3])
    if block_tables.numel() == 0 or block_tables.shape[1] < count:
        width = block_tables.shape[-1]
        raise ValueError(
            f"sequence {index}: its context of {context} tokens takes {count} pages, its block table names {width}"
        )
    return block_tables[index, :count].to(torch.int64)


def _attend(query: torch.Tensor, sequence: _Sequence, rules: _Rules, output: torch.Tensor) -> None:
    """Write the attention of one sequence's new tokens `[new, heads, head_size]` into `output`, tile by tile."""
    new, heads, head_size = query.shape
    kv_heads = sequence.new_key.shape[1]
    side = 1 << (math.isqrt(MAX_SCORES // heads).bit_length() - 1)
    height = min(new, max(_SMALLEST_TILE, min(_LARGEST_TILE, side)))
    for start in range(0, new, height):
        tile = query[start : start + height]
        width = max(_SMALLEST_TILE, min(MAX_SCORES // (heads * len(tile)), MAX_GATHERED // (kv_heads * head_size)))
        result = _attend_tile(tile, sequence.context + start, sequence, rules, width)
        output[start : start + height] = result


def _attend_tile(query: torch.Tensor, first: int, sequence: _Sequence, rules: _Rules, width: int) -> torch.Tensor:
    """Return the attention of `query` `[rows, heads, head_size]`, whose first row has position `first`, in float32.

    Each tile's softmax is normalised on its own, so that weights fit half precision and sums cannot overflow it; tiles
    are then mixed by the logarithm of their sums. A masked tile's weight underflows to 0 as soon as a row has seen a
    key, and the last tile always shows it its own.
    """
    rows, heads, head_size = query.shape
    kv_heads = sequence.new_key.shape[1]
    product, weighting = _product_dtypes(query.dtype, query.device.type)
    by_group = query.reshape(rows, kv_heads, heads // kv_heads, head_size).permute(1, 2, 0, 3)
    stacked = by_group.reshape(kv_heads, -1, head_size).to(product)
    unread = stacked.new_empty((1, 1, 1))  # baddbmm wants an addend; with beta=0 it is not read
    total = torch.full((*stacked.shape[:2], 1), _MASKED, dtype=torch.float32, device=query.device)
    mixed = torch.zeros(stacked.shape, dtype=torch.float32, device=query.device)
    stop = first + rows
    for span in sequence.spans(max(0, first - rules.window + 1) if rules.window else 0, stop, width):
        keys = sequence.keys(span[0], span[1], product)
        # alpha scales inside the product, in float32 and before rounding: a large q·k does not overflow float16.
        products = torch.baddbmm(unread, stacked, keys.transpose(1, 2), beta=0, alpha=rules.scale)
        logits = rules.logits(products, (first, stop), span)
        weights = torch.softmax(logits, -1)
        log_sum = logits.amax(-1, keepdim=True) - weights.amax(-1, keepdim=True).log()
        del products, logits, keys  # one score tile less while the values are gathered
        values = sequence.values(span[0], span[1], weighting)
        tile = torch.bmm(weights.to(weighting), values).to(torch.float32)
        grown = torch.logaddexp(total, log_sum)
        mixed = mixed.mul_(torch.exp(total - grown)).addcmul_(tile, torch.exp(log_sum - grown))
        total = grown
    return mixed.view(heads, rows, head_size).transpose(0, 1)


def _product_dtypes(dtype: torch.dtype, device_type: str) -> tuple[torch.dtype, torch.dtype]:
    """Return the types of `q·k` and of `weights·value`: CPUs are slow in half precision, bfloat16 logits are coarse."""
    if device_type == "cpu":
        return torch.float32, torch.float32
    return (dtype if dtype == torch.float16 else torch.float32), dtype
