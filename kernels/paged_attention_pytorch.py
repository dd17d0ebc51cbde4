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

from typing import Iterator, NamedTuple

import torch

PARTITION_SIZE = 512
"""Tokens that one product of decode's weights and values spans, rounded down to pages."""

MAX_GATHERED = 1 << 24
"""Largest number of key elements gathered at once. Off the CPU twice as many: 64 MiB in half precision."""

MAX_SCORES = 1 << 23
"""Largest number of prefill scores held at once. Off the CPU eight times as many, 256 MiB as float32."""

_CPU_GATHERED, _CPU_SCORES = 1 << 19, 1 << 21  # a thread's share of decode's keys, and prefill's scores, stay in cache
_CPU_SHARES = 4  # what is larger than 8 MiB may be fetched from the system anew in each call, for twice the time
_FEW_SCORES = (
    1 << 26
)  # up to so many in one tile, for a second one takes Python longer than the device computes in vain
_MANY, _MANY_ON_CPU = 1 << 22, 1 << 13  # elements; a few times as many are worth more operations that are faster
_UNDIVIDED, _UNDIVIDED_ON_CPU = 1 << 13, 1 << 10  # tokens up to which one product of weights and values does
_FEW_ROWS = 64  # up to so many, two half-precision products move less memory than factors converted to float32
_SHIFT = 256.0  # factor of float16 weights: below 6e-8 they would be lost, and a long context has little else
_UNSHIFTED = 1 << 11  # so many weights lose 6e-5 of the result at most without it
_ALIGNED = 8  # elements; the matrix units want rows that begin at multiples of 16 bytes
_TALLEST, _SHORTEST, _NARROWEST = 1024, 16, 64  # queries and keys of a prefill tile
_LOWEST = torch.finfo(torch.float32).min
_MASKED = -1e30  # finite, so that a row whose whole tile is masked gives no NaN; its weight later becomes exactly 0
_CACHE_DTYPE_NAMES = {
    torch.float16: ("auto", "half", "float16", "fp16"),
    torch.bfloat16: ("auto", "bfloat16", "bf16"),
    torch.float32: ("auto", "float", "float32", "fp32"),
}


class PagedCache(NamedTuple):
    """The two halves of one layer's paged cache, in the layout that the module's docstring states."""

    key: torch.Tensor
    value: torch.Tensor

    def heads(self, first: int, stop: int) -> PagedCache:
        """Return the cache of some of the KV heads, as views."""
        return PagedCache(self.key[:, first:stop], self.value[:, first:stop])

    def gather_keys(self, pages: torch.Tensor) -> torch.Tensor:
        """Return the keys of `pages` `[rows, n]` (int64) as `[rows * kv_heads, head_size, n * block_size]`.

        It is a view: a token's elements follow each other in memory.
        """
        key = self.key
        rows, count = pages.shape
        _, kv_heads, chunks, block_size, x = key.shape
        source = _in_wide_elements(key, rows * count)
        blocks, _, _, _, size = source.shape
        page, head, chunk, slot, one = source.stride()
        every = source.as_strided((rows, kv_heads, blocks, block_size, chunks, size), (0, head, page, slot, chunk, one))
        row, column = pages.stride()
        wanted = pages.as_strided((rows, kv_heads, count, block_size, chunks, size), (row, 0, column, 0, 0, 0))
        gathered = torch.gather(every, 2, wanted)
        if source is not key:
            gathered = gathered.view(key.dtype)
        head_size, tokens = chunks * x, count * block_size
        return gathered.as_strided((rows * kv_heads, head_size, tokens), (tokens * head_size, 1, head_size))

    def gather_values(self, pages: torch.Tensor, parts: int = 1) -> torch.Tensor:
        """Return the values of `pages` `[rows, n]` (int64) as `[rows * parts * kv_heads, head_size, tokens]`.

        The pages are cut into `parts`, each with `tokens = n / parts * block_size`; they are contiguous if there are
        more than one. The head size stays in front of the tokens, as in the cache: a page's row of slots is copied
        whole.
        """
        value = self.value
        rows, count = pages.shape
        _, kv_heads, head_size, block_size = value.shape
        source = _in_wide_elements(value, rows * count)
        blocks, _, _, size = source.shape
        page, head, dim, piece = source.stride()
        row, column = pages.stride()
        if parts > 1:
            rows, count = rows * parts, count // parts
            row, column = count, 1
        every = source.as_strided((rows, kv_heads, head_size, blocks, size), (0, head, dim, page, piece))
        wanted = pages.as_strided((rows, kv_heads, head_size, count, size), (row, 0, 0, column, 0))
        gathered = torch.gather(every, 3, wanted)
        if source is not value:
            gathered = gathered.view(value.dtype)
        return gathered.view(rows * kv_heads, head_size, count * block_size)


def _in_wide_elements(cache: torch.Tensor, pages: int) -> torch.Tensor:
    """Return the cache with 16 bytes an element where its runs allow and where `pages` of it are worth two more views.

    `torch.gather` then fetches and transposes in one pass over the data. Measured on an H200: 2.7 to 3.5 TB/s, read and
    written, where `index_select` and a transposing copy take 0.9 to 1.1 of elements of 2 bytes.
    """
    shape, size = cache.shape, cache.element_size()
    if shape[-1] * size % 16 or cache.storage_offset() * size % 16:
        return cache
    if not cache.is_cpu and pages * cache.stride(0) < 2 * _MANY:
        return cache
    return cache.view(torch.complex128)


_WIDE_PRODUCTS = hasattr(torch.ops.aten.baddbmm, "dtype_out")
"""Whether half-precision products can be returned in float32: on CUDA since torch 2.8."""


def product_dtype(query: torch.Tensor) -> torch.dtype:
    """Return the type of the factors of all products: CPUs are slow in half precision."""
    return torch.float32 if query.is_cpu else query.dtype


class _Budget(NamedTuple):
    """Elements held at once: keys of decode, keys of prefill, keys that several tiles share, and scores of prefill."""

    decode: int
    prefill: int
    shared: int
    scores: int


def _budget(query: torch.Tensor) -> _Budget:
    """Return what the device of `query` may hold."""
    if query.is_cpu:
        cached = _CPU_GATHERED * min(torch.get_num_threads(), _CPU_SHARES)
        return _Budget(min(MAX_GATHERED, cached), MAX_GATHERED, 0, min(MAX_SCORES, _CPU_SCORES))
    return _Budget(2 * MAX_GATHERED, 2 * MAX_GATHERED, MAX_GATHERED // 2, 8 * MAX_SCORES)


def scaled_products(left: torch.Tensor, right: torch.Tensor, scale: float) -> torch.Tensor:
    """Return `scale * left @ right` in float32, as exact as float32 is, whatever the type of the factors."""
    shape = (left.shape[0], left.shape[1], right.shape[2])
    # In place of what is not read: `baddbmm` wants an addend, and with any other some releases begin with a copy of it.
    if left.dtype == torch.float32:
        return left.new_empty(shape).baddbmm_(left, right, beta=0, alpha=scale)
    if _WIDE_PRODUCTS and left.is_cuda:
        result = torch.empty(shape, dtype=torch.float32, device=left.device)
        return torch.baddbmm(result, left, right, out_dtype=torch.float32, beta=0, alpha=scale, out=result)
    if left.shape[1] > _FEW_ROWS or right.numel() < _MANY:  # what follows has twice the launches and passes
        return scaled_products(left.float(), right.float(), scale)
    # Sums are float32 inside and rounded once: the second product is what the first one's rounding lost.
    rounded = left.new_empty(shape).baddbmm_(left, right, beta=0, alpha=scale)
    lost = torch.baddbmm(rounded, left, right, beta=-1, alpha=scale)
    return rounded.to(torch.float32).add_(lost)


def weighted(
    weights: torch.Tensor, values: torch.Tensor, *, wide: bool = True, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return `weights @ values`, `[n, rows, head_size]`, in the type of `values`, or in float32 where that is `wide`.

    `weights` are float32, at most 1, `[n, rows, tokens]` with any number of axes in place of `n`, in any order. `out`
    takes the result if it is given, in the type of `values`.
    """
    *_, rows, tokens = weights.shape
    if values.dtype == torch.float32:
        return torch.bmm(weights.reshape(-1, rows, tokens), values, out=out)
    in_order = weights.shape[0] == values.shape[0]
    if in_order and not wide and (tokens <= _UNSHIFTED or values.dtype != torch.float16):
        return torch.bmm(weights.to(values.dtype), values, out=out)
    shift = _SHIFT if values.dtype == torch.float16 else 1.0
    rounded = torch.empty(weights.shape, dtype=values.dtype, device=values.device)
    torch.mul(weights, shift, out=rounded)  # converts, and puts the axes in order, in one pass
    if not in_order:
        rounded = rounded.view(-1, rows, tokens)
    if out is None:
        if wide and _WIDE_PRODUCTS and values.is_cuda:
            return scaled_products(rounded, values, 1 / shift)
        out = values.new_empty((values.shape[0], rows, values.shape[2]))
    return out.baddbmm_(rounded, values, beta=0, alpha=1 / shift)


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


class Attended(NamedTuple):
    """Attention of some queries over some of their keys, `output`, with the `logits` and their softmax in float32.

    In all three the last axis is the one that is summed over, or the head size.
    """

    logits: torch.Tensor
    weights: torch.Tensor
    output: torch.Tensor

    def log_sum(self) -> torch.Tensor:
        """Return the logarithm of the sum of `exp(logit)`; the last axis has one element.

        The largest weight is `exp(largest logit) / sum`. Masked logits are finite, so nothing here is infinite.
        """
        return self.logits.amax(-1, keepdim=True).sub_(self.weights.amax(-1, keepdim=True).log_())


class Mixture(NamedTuple):
    """Attention over the keys seen so far, and the logarithm of the sum of their `exp(logit)`, both in float32.

    Keys in pieces are combined by their softmax statistics. A piece that is wholly masked for a row weighs nothing once
    the row has seen a key.
    """

    output: torch.Tensor
    log_sum: torch.Tensor

    def add(self, piece: Attended) -> None:
        """Take in the attention over further keys, in place."""
        log_sum = piece.log_sum().view_as(self.log_sum)
        grown = torch.logaddexp(self.log_sum, log_sum)
        self.output.mul_(torch.exp(self.log_sum - grown))
        self.output.addcmul_(piece.output.view_as(self.output).to(torch.float32), torch.exp(log_sum - grown))
        self.log_sum.copy_(grown)


class DecodeBatch(NamedTuple):
    """One decode step of one layer.

    `query` is `[seqs, heads, head_size]`, `block_tables` `[seqs, width]`, `seq_lens` `[seqs]`. Table entries beyond a
    sequence and slots beyond its length may hold anything.
    """

    query: torch.Tensor
    cache: PagedCache
    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    scale: float
    alibi_slopes: torch.Tensor | None

    def attend(self, out: torch.Tensor, max_seq_len: int) -> None:
        """Write the attention of every sequence into `out` `[seqs, heads, head_size]`.

        Lengths are bounded by `max_seq_len` and by what the table can name. ALiBi is not disturbed by that: it moves a
        sequence's biases by one constant, which softmax ignores. As many sequences, or as many partitions of one, are
        taken at once as the device's budget allows.
        """
        seqs, _, head_size = self.query.shape
        blocks, kv_heads, _, block_size, _ = self.cache.key.shape
        limit = min(int(max_seq_len), self.block_tables.shape[1] * block_size) if blocks else 0
        if limit <= 0:
            out.zero_()
            return
        pages = -(-limit // block_size)
        room = _budget(self.query).decode // (block_size * kv_heads * head_size)
        size = pages
        if pages > room or pages * block_size > (_UNDIVIDED_ON_CPU if self.query.is_cpu else _UNDIVIDED):
            size = max(1, min(PARTITION_SIZE // block_size, pages))
        parts, room = -(-pages // size), max(1, room // size)
        batch = self
        if limit != parts * size * block_size:
            batch = self._replace(seq_lens=self.seq_lens.clamp(max=limit))
        if room >= seqs * parts > 0:
            batch.attended(0, parts, size, out)
            return
        step = max(1, room // parts)
        for start in range(0, seqs, step):
            batch.of(slice(start, start + step)).attend_in_tiles(out[start : start + step], parts, size, room)

    def of(self, rows: slice) -> DecodeBatch:
        """Return the batch of some of the sequences."""
        return self._replace(query=self.query[rows], block_tables=self.block_tables[rows], seq_lens=self.seq_lens[rows])

    def attend_in_tiles(self, out: torch.Tensor, parts: int, size: int, tile: int) -> None:
        """Do it with `tile` of the `parts` partitions of every sequence at a time, each of `size` pages."""
        if tile >= parts:
            self.attended(0, parts, size, out)
            return
        shape, device = self.query.shape, self.query.device
        mixture = Mixture(
            torch.zeros(shape, dtype=torch.float32, device=device),
            torch.full((*shape[:2], 1), _LOWEST, dtype=torch.float32, device=device),
        )
        for first in range(0, parts, tile):
            mixture.add(self.attended(first, min(tile, parts - first), size))
        out.copy_(mixture.output)

    def attended(self, first: int, parts: int, size: int, out: torch.Tensor | None = None) -> Attended:
        """Return the attention over `parts` partitions of `size` pages from the one numbered `first` on.

        Its `output` is `out`, if that is given. Logits are `scale * q·k + slope * (k_pos - q_pos)`, with
        `q_pos = seq_len - 1`, in float32. A short batch costs as long as Python takes: every line here counts.
        """
        query, cache, _, seq_lens, scale, slopes = self
        seqs, heads, head_size = query.shape
        kv_heads, block_size = cache.value.shape[1], cache.value.shape[3]
        rows, group, tokens = seqs * kv_heads, heads // kv_heads, parts * size * block_size
        product, single = product_dtype(query), seqs == 1
        pages = self._pages(first * size, parts * size)
        start = first * size * block_size
        positions = torch.arange(start, start + tokens, dtype=seq_lens.dtype, device=query.device)
        lengths = seq_lens if single else seq_lens.view(seqs, 1, 1)
        unused = positions >= lengths  # of a single sequence it is `[tokens]`, and fits logits and values of any shape

        keys, query = cache.gather_keys(pages), query.reshape(rows, group, head_size)
        if query.dtype != product:
            keys, query = keys.to(product), query.to(product)
        logits = scaled_products(query, keys, scale)
        del keys  # the values need the memory
        if slopes is not None or not single:
            logits = logits.view(seqs, heads, tokens)
        if slopes is not None:
            distance = (positions - (lengths - 1)).to(torch.float32)
            logits.addcmul_(slopes.to(torch.float32).view(1, heads, 1), distance)
        weights = torch.softmax(logits.masked_fill_(unused, _LOWEST), -1)

        # A stale NaN times a weight of 0 would still be NaN. A sequence without tokens gets a mean of zeros.
        values = cache.gather_values(pages, parts)
        span = tokens // parts
        if parts == 1:
            _zero(values if single else values.view(seqs, -1, tokens), unused)
        else:
            whole = values if kv_heads == 1 else values.view(seqs * parts, -1, span)
            _zero(whole, unused.view(seqs * parts, 1, span))
        values = values.transpose(1, 2)
        if values.dtype != product:
            values = values.to(product)
        if parts == 1:
            factors = weights.view(rows, group, tokens) if weights.shape[0] != rows else weights
            if out is None or out.dtype != product or not out.is_contiguous():
                output = weighted(factors, values, wide=False).view(seqs, heads, head_size)
                return Attended(logits, weights, output if out is None else out.copy_(output))
            return Attended(logits, weights, weighted(factors, values, wide=False, out=out.view(rows, group, -1)))
        # A product for each partition: one over all tokens would keep few of a device's units busy.
        divided = weights.as_strided(
            (seqs, parts, kv_heads, group, span), (heads * tokens, span, group * tokens, tokens, 1)
        )
        outputs = weighted(divided, values, wide=False).view(seqs, parts, heads, head_size)
        if out is None or out.dtype != outputs.dtype:
            summed = outputs.sum(1)
            return Attended(logits, weights, summed if out is None else out.copy_(summed))
        return Attended(logits, weights, torch.sum(outputs, 1, out=out))

    def _pages(self, start: int, count: int) -> torch.Tensor:
        """Return `count` pages of each sequence, `[seqs, count]` (int64), all of them in the cache."""
        table = self.block_tables
        if start or count < table.shape[1]:
            table = table[:, start : start + count]
        pages = torch.empty(table.shape, dtype=torch.int64, device=table.device)
        torch.remainder(table, self.cache.key.shape[0], out=pages)  # bounds what may be anything, and converts
        if pages.shape[1] < count:
            pages = torch.nn.functional.pad(pages, (0, count - pages.shape[1]))
        return pages


def _zero(values: torch.Tensor, unused: torch.Tensor) -> None:
    """Set `values` to 0 in place where `unused`, which broadcasts to them, is true.

    Many are masked as integers of 8 bytes: a bit operation on those is about four times faster than `masked_fill_`, but
    takes five operations. Python is done with those no sooner than a device with the 64 MiB that are filled at most.
    """
    size = values.element_size()
    few = values.numel() < (_MANY_ON_CPU if values.is_cpu else 8 * _MANY)
    if few or values.shape[-1] * size % 8:
        values.masked_fill_(unused, 0.0)
        return
    bits = torch.sub(unused.to({2: torch.int16, 4: torch.int32}[size]), 1)
    values.view(torch.int64).bitwise_and_(bits.view(torch.int64))


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

    No tensor has more elements than the largest of `MAX_GATHERED` (twice that off the CPU), one partition of one
    sequence (`PARTITION_SIZE * kv_heads * head_size`, a page at least) and `query`, whatever the batch and the length.
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
    output = torch.empty_like(query, memory_format=torch.contiguous_format)
    DecodeBatch(query, cache, block_tables, seq_lens, scale, alibi_slopes).attend(output, max_seq_len)
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

    def heads(self, first: int, stop: int) -> _Sequence:
        """Return the sequence with some of its KV heads."""
        return self._replace(
            cache=self.cache.heads(first, stop),
            new_key=self.new_key[:, first:stop],
            new_value=self.new_value[:, first:stop],
        )

    def gathered(self, span: tuple[int, int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys `[kv_heads, head_size, tokens]` and values `[kv_heads, tokens, head_size]` of a span of tokens.

        The tokens are rounded up to `_ALIGNED`, with zeros.
        """
        new, kv_heads, head_size = self.new_key.shape
        start, stop = span
        tokens = stop - start
        room = -(-tokens // _ALIGNED) * _ALIGNED
        if start >= self.context and tokens == room and dtype == self.new_key.dtype:
            key, value = self.new_key, self.new_value
            if tokens < new:
                some = slice(start - self.context, stop - self.context)
                key, value = key[some], value[some]
            return key.permute(1, 2, 0), value.transpose(0, 1)
        # A copy: products of an odd number of tokens would be several times slower.
        keys = self.new_key.new_empty((kv_heads, room, head_size), dtype=dtype).transpose(1, 2)
        values = self.new_key.new_empty((kv_heads, head_size, room), dtype=dtype)
        cached = max(0, min(stop, self.context) - start)
        if cached:
            block_size = self.cache.key.shape[3]
            first, last = start // block_size, -(-(start + cached) // block_size)
            pages, skip = self.pages[first:last].unsqueeze(0), start - first * block_size
            keys[:, :, :cached] = self.cache.gather_keys(pages)[:, :, skip : skip + cached]
            values[:, :, :cached] = self.cache.gather_values(pages)[:, :, skip : skip + cached]
        if cached < tokens:
            some = slice(start + cached - self.context, stop - self.context)
            keys[:, :, cached:tokens] = self.new_key[some].permute(1, 2, 0)
            values[:, :, cached:tokens] = self.new_value[some].permute(1, 2, 0)
        if tokens < room:
            keys[:, :, tokens:] = 0
            values[:, :, tokens:] = 0
        return keys, values.transpose(1, 2)


class _Rules:
    """What turns products into logits: scale, window in tokens (0: none) and slopes `[heads]` in float32 or None."""

    def __init__(self, scale: float, window: int, slopes: torch.Tensor | None) -> None:
        self.scale, self.window, self.slopes = scale, window, slopes
        self._later: tuple[tuple[int, int, int], torch.Tensor] | None = None

    def apply(self, logits: torch.Tensor, head: int, first: int, start: int) -> None:
        """Turn scaled products into logits in place.

        `logits` are `[kv_heads, rows, group, tokens]`, of the query heads from `head` on. The first row has position
        `first`, and the first key has position `start`.
        """
        kv_heads, rows, group, tokens = logits.shape
        if self.slopes is not None:
            q_pos = torch.arange(first, first + rows, device=logits.device).unsqueeze(-1)
            k_pos = torch.arange(start, start + tokens, device=logits.device)
            slopes = self.slopes[head : head + kv_heads * group].view(kv_heads, 1, group, 1)
            logits.addcmul_(slopes, (k_pos - q_pos).to(torch.float32).unsqueeze(1))
        # Most of a long context is seen by every query: only the columns at its two ends are masked.
        seen_by_all = max(0, first + 1 - start)
        if seen_by_all < tokens:
            ahead = logits[..., seen_by_all:] if seen_by_all else logits
            ahead.masked_fill_(self._later_than(rows, first + 1 - start - seen_by_all, ahead), _MASKED)
        outside = min(tokens, first + rows - self.window - start) if self.window else 0
        if outside > 0:
            older = torch.ones((rows, outside), dtype=torch.bool, device=logits.device)
            older.tril_(first - self.window - start)
            logits[..., :outside].masked_fill_(older.unsqueeze(1), _MASKED)

    def _later_than(self, rows: int, shift: int, logits: torch.Tensor) -> torch.Tensor:
        """Return `column >= row + shift` for the columns of `logits`, as `[rows, 1, columns]`.

        Nearly every tile asks for the same as the one before.
        """
        shape = (rows, logits.shape[3], shift)
        if self._later is None or self._later[0] != shape:
            self._later = None  # its memory may be needed
            ones = torch.ones((rows, logits.shape[3]), dtype=torch.bool, device=logits.device)
            self._later = (shape, ones.triu_(shift).unsqueeze(1))
        return self._later[1]


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

    The arguments are those of `PagedAttention.forward_prefix`. A tile of queries meets all its keys at once, in one
    softmax, unless a context is too long for that; then tiles of keys are mixed.

    No tensor has more elements than the largest of `MAX_SCORES` (eight times that off the CPU: 2^26), `MAX_GATHERED`
    (twice that off the CPU: 2^25, plus two pages) and `query`, whatever the lengths. At most two and a half tensors of
    scores live at once, 640 MiB off the CPU, beside keys, values and one copy each of `query` and the output.
    The lengths are read from the device once, in one transfer, so the call cannot be captured.

    On a CPU all arithmetic is float32. Elsewhere factors are in the type of `query`, and logits, softmax and sums are
    float32 (see `scaled_products`); weights are rounded to the type of `query` as factors of the values.

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
    whole = starts[0] == 0 and starts[-1] == query.shape[0]
    output = (torch.empty_like if whole else torch.zeros_like)(query, memory_format=torch.contiguous_format)
    for index, context in enumerate(contexts):
        start, stop = starts[index], starts[index + 1]
        if start == stop:
            continue
        pages = _context_pages(block_tables, index, context, cache)
        if stop - start == query.shape[0]:
            _attend(query, _Sequence(cache, pages, context, key, value), rules, output)
            continue
        new = slice(start, stop)
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


class _Plan(NamedTuple):
    """How a sequence's attention is cut: keys that are gathered at once, of how many KV heads; and what a tile takes.

    A tile has `height` queries of `heads` of the gathered KV heads, and all gathered keys.
    """

    width: int
    gathered: int
    heads: int
    height: int


def _planned(query: torch.Tensor, kv_heads: int, tokens: int) -> _Plan:
    """Return the cut for `query` `[new, heads, head_size]` over `tokens` keys.

    All keys at once where memory allows, for then one softmax does without merging; few KV heads at a time rather than
    few queries, for long columns make the products fast; and no taller than `_TALLEST`, for the square above the
    diagonal is computed in vain. Tiles are of nearly one height: then their masks are the same.
    """
    new, heads, head_size = query.shape
    group = heads // kv_heads
    _, room, shared, budget = _budget(query)
    widest = min(room // head_size, budget // (group * min(new, _SHORTEST)))
    width = max(_NARROWEST, min(-(-tokens // _ALIGNED), widest // _ALIGNED) * _ALIGNED)
    height = min(new, max(_TALLEST, _FEW_SCORES // (heads * width)))
    together = max(1, min(kv_heads, room // (width * head_size), budget // (group * height * width)))
    gathered = max(together, min(kv_heads, shared // (width * head_size)))
    gathered = -(-kv_heads // -(-kv_heads // gathered))
    together = min(together, gathered)
    height = max(min(new, _SHORTEST), min(height, budget // (together * group * width)))
    return _Plan(width, gathered, together, -(-new // -(-new // height)))


def _attend(query: torch.Tensor, sequence: _Sequence, rules: _Rules, output: torch.Tensor) -> None:
    """Write the attention of one sequence's new tokens `[new, heads, head_size]` into `output`.

    A KV head's queries are stacked, the group's heads of one token after the other: `[kv_heads, new * group,
    head_size]`. With one KV head that is how they lie, and nothing is copied.
    """
    new, heads, head_size = query.shape
    kv_heads = sequence.new_key.shape[1]
    group, product = heads // kv_heads, product_dtype(query)
    by_head = (new, kv_heads, group, head_size)
    stacked = query if kv_heads == 1 else query.view(by_head).transpose(0, 1)
    stacked = stacked.reshape(kv_heads, new * group, head_size).to(product)
    stop = sequence.context + new
    start = max(0, sequence.context - rules.window + 1) if rules.window else 0
    plan = _planned(query, kv_heads, stop - start)
    if stop - start > plan.width:
        result = _attend_spans(stacked, sequence, rules, (start, stop), plan)
    elif kv_heads == 1 and output.dtype == product:
        _attend_all(stacked, sequence, rules, (start, stop), plan, output.view(1, new * group, head_size))
        return
    else:
        result = torch.empty_like(stacked)
        _attend_all(stacked, sequence, rules, (start, stop), plan, result)
    output.view(by_head).copy_(result.view(kv_heads, new, group, head_size).transpose(0, 1))


def _attend_all(  # noqa: PLR0917 - a sequence and how it is cut
    query: torch.Tensor,
    sequence: _Sequence,
    rules: _Rules,
    span: tuple[int, int],
    plan: _Plan,
    output: torch.Tensor,
) -> None:
    """Write the attention of `query` `[kv_heads, new * group, head_size]` over the keys of `span`, all at once."""
    new = span[1] - sequence.context
    for block, heads in _blocks(query, sequence, span, plan):
        target = _narrowed(output, 0, *heads)
        for start in range(0, new, plan.height):
            rows = (start, min(start + plan.height, new))
            block.attended(rules, rows, _narrowed(target, 1, rows[0] * block.group, rows[1] * block.group))


def _attend_spans(
    query: torch.Tensor, sequence: _Sequence, rules: _Rules, span: tuple[int, int], plan: _Plan
) -> torch.Tensor:
    """Return the same, in float32, with `plan.width` keys at a time."""
    new = span[1] - sequence.context
    mixture = Mixture(
        torch.zeros(query.shape, dtype=torch.float32, device=query.device),
        torch.full((*query.shape[:2], 1), _MASKED, dtype=torch.float32, device=query.device),
    )
    for first in range(span[0], span[1], plan.width):
        last = min(first + plan.width, span[1])
        for block, heads in _blocks(query, sequence, (first, last), plan):
            for start in range(0, new, plan.height):
                rows = (start, min(start + plan.height, new))
                seen_from = sequence.context + rows[0] - rules.window + 1 if rules.window else 0
                if seen_from < last and first < sequence.context + rows[1]:
                    some = slice(*heads), slice(rows[0] * block.group, rows[1] * block.group)
                    Mixture(mixture.output[some], mixture.log_sum[some]).add(block.attended(rules, rows))
    return mixture.output


class _Block(NamedTuple):
    """Stacked queries of some KV heads, and their keys and values as `_Sequence.gathered` returns them.

    The first of the query heads is `head`, the first query has position `position`, and the first key `start`.
    """

    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    group: int
    head: int
    position: int
    start: int

    def attended(self, rules: _Rules, rows: tuple[int, int], out: torch.Tensor | None = None) -> Attended:
        """Return the attention of a range of tokens; its `output` is `out`, if that is given.

        Of the keys that no row sees, the ones before and behind are skipped.
        """
        query, keys, values, group, head, position, start = self
        kv_heads, count = query.shape[0], rows[1] - rows[0]
        position += rows[0]
        low = max(0, position - rules.window + 1 - start) // _ALIGNED * _ALIGNED if rules.window else 0
        high = min(keys.shape[2], -(-(position + count - start) // _ALIGNED) * _ALIGNED)
        tile = _narrowed(query, 1, rows[0] * group, rows[1] * group)
        logits = scaled_products(tile, _narrowed(keys, 2, low, high), rules.scale)
        rules.apply(logits.view(kv_heads, count, group, high - low), head, position, start + low)
        weights = torch.softmax(logits, -1)
        output = weighted(weights, _narrowed(values, 1, low, high), wide=out is None, out=out)
        return Attended(logits, weights, output)


def _blocks(
    query: torch.Tensor, sequence: _Sequence, span: tuple[int, int], plan: _Plan
) -> Iterator[tuple[_Block, tuple[int, int]]]:
    """Yield blocks of `plan.heads` KV heads with the keys of `span`, and which heads they are."""
    kv_heads = query.shape[0]
    group = query.shape[1] // sequence.new_key.shape[0]
    for first in range(0, kv_heads, plan.gathered):
        last = min(first + plan.gathered, kv_heads)
        some = sequence if last - first == kv_heads else sequence.heads(first, last)
        keys, values = some.gathered(span, query.dtype)
        for low in range(first, last, plan.heads):
            heads = (low, min(low + plan.heads, last))
            mine = (heads[0] - first, heads[1] - first)
            yield (
                _Block(
                    _narrowed(query, 0, *heads),
                    _narrowed(keys, 0, *mine),
                    _narrowed(values, 0, *mine),
                    group,
                    low * group,
                    sequence.context,
                    span[0],
                ),
                heads,
            )
        del keys, values  # the next ones need the memory


def _narrowed(tensor: torch.Tensor, axis: int, first: int, stop: int) -> torch.Tensor:
    """Return a range of an axis; the tensor itself where that is all, for even a view takes Python time."""
    return tensor if stop - first == tensor.shape[axis] else tensor.narrow(axis, first, stop - first)
