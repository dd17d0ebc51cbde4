"""Drives the XFormers backend's `forward` with heads that the vendor's flash kernel cannot serve, and with narrow ones.

Each drive gives the largest relative error against dense attention, and how often the vendor's kernel ran.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import torch

from tests.kernels import dense

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 16
WIDE, NARROW = 256, 64
HALF = torch.float16


@dataclass(frozen=True)
class Step:
    """One step: new tokens of each prefill, cached tokens before them, cached tokens of each decode."""

    new: tuple[int, ...]
    contexts: tuple[int, ...] = ()
    decodes: tuple[int, ...] = ()
    head_size: int = WIDE
    heads: int = 4
    kv_heads: int = 1
    cache: bool = True
    chunked: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """What the backend is made with: `sliding_window`, `alibi_slopes`."""

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sequence, the new ones included."""
        contexts = self.contexts or (0,) * len(self.new)
        prefills = [context + new for context, new in zip(contexts, self.new, strict=True)]
        return [*prefills, *(length + 1 for length in self.decodes)]

    @property
    def queries(self) -> list[int]:
        """New tokens of each sequence."""
        return [*self.new, *(1 for _ in self.decodes)]


class Counted:
    """The vendor's kernel, counted while it is in place."""

    def __init__(self) -> None:
        self.library: Any = importlib.import_module("ixformer.contrib.xformers.ops")
        self.kernel = self.library.memory_efficient_attention_forward
        self.calls = 0

    def __enter__(self) -> Self:
        def counting(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the library's
            self.calls += 1
            return self.kernel(*arguments, **named)

        self.library.memory_efficient_attention_forward = counting
        return self

    def __exit__(self, *_: object) -> None:
        self.library.memory_efficient_attention_forward = self.kernel


def backend(step: Step) -> Any:  # noqa: ANN401 - the tree's
    """Return the backend for the step's heads."""
    xformers: Any = importlib.import_module("vllm.attention.backends.xformers")
    options: dict[str, Any] = {"alibi_slopes": None, "sliding_window": None, "kv_cache_dtype": "auto", **step.options}
    return xformers.XFormersImpl(
        num_heads=step.heads,
        head_size=step.head_size,
        scale=step.head_size**-0.5,
        num_kv_heads=step.kv_heads,
        **options,
    )


def metadata(step: Step, table: torch.Tensor, slots: list[int]) -> Any:  # noqa: ANN401 - the tree's
    """Return the metadata of a step whose sequences have the rows of `table`."""
    xformers: Any = importlib.import_module("vllm.attention.backends.xformers")
    queries, lengths = torch.tensor(step.queries), torch.tensor(step.lengths)
    starts = torch.cat((torch.zeros(1, dtype=torch.int32), queries.cumsum(0).to(torch.int32)))
    reads_cache = step.chunked or step.contexts or not step.new
    return xformers.XFormersMetadata(
        num_prefills=len(step.new),
        num_prefill_tokens=sum(step.new),
        num_decode_tokens=len(step.decodes),
        slot_mapping=torch.tensor(slots),
        seq_lens_tensor=lengths.to(torch.int32),
        max_prefill_seq_len=max(step.lengths[: len(step.new)], default=0),
        max_decode_seq_len=max(step.lengths[len(step.new) :], default=0),
        block_tables=table if reads_cache else torch.empty(len(step.queries), 0, dtype=torch.int32),
        use_cuda_graph=False,
        seq_lens=step.lengths,
        context_lens_tensor=(lengths - queries).to(torch.int32),
        max_query_len=max(step.queries),
        query_start_loc=starts,
    )


@dataclass(frozen=True)
class Tokens:
    """Every token's query, key and value, one tensor a sequence, and the step's own part of them."""

    query: list[torch.Tensor]
    key: list[torch.Tensor]
    value: list[torch.Tensor]

    def new(self, step: Step) -> list[torch.Tensor]:
        """Return query, key and value as the model gives them: the new tokens, flat."""
        return [
            torch.cat([rows[-count:] for rows, count in zip(every, step.queries, strict=True)]).flatten(1)
            for every in (self.query, self.key, self.value)
        ]


def tokens_of(step: Step) -> Tokens:
    """Return random tokens for every sequence of a step."""
    widths = (step.heads, step.kv_heads, step.kv_heads)
    return Tokens(
        *(
            [dense.queries(length, heads, step.head_size, HALF, 10 * n + seed) for n, length in enumerate(step.lengths)]
            for seed, heads in enumerate(widths)
        )
    )


def error(step: Step, tokens: Tokens, found: torch.Tensor) -> float:
    """Return the largest error relative to dense attention of the step's new tokens."""
    options = {"slopes": step.options.get("alibi_slopes"), "window": step.options.get("sliding_window")}
    if options["slopes"] is not None:
        options["slopes"] = torch.tensor(options["slopes"])
    wanted = torch.cat(
        [
            dense.attention(query[-count:], key, value, scale=step.head_size**-0.5, **options)
            for query, key, value, count in zip(tokens.query, tokens.key, tokens.value, step.queries, strict=True)
        ]
    )
    shaped = found.view(wanted.shape).double()
    return float(((shaped - wanted).norm() / wanted.norm()).nan_to_num(nan=1e9))


def attend(step: Step) -> dict[str, Any]:
    """Return the error of one step through the backend, its cache filled by the backend's own operators."""
    paged: Any = importlib.import_module("vllm.attention.ops.paged_attn").PagedAttention
    tokens = tokens_of(step)
    blocks = [-(-length // BLOCK) for length in step.lengths]
    order = torch.randperm(sum(blocks) + 2, generator=torch.Generator().manual_seed(0)).to(torch.int32)
    table = torch.zeros(len(blocks), max(blocks), dtype=torch.int32)
    for row, count in enumerate(blocks):
        table[row, :count] = order[sum(blocks[:row]) : sum(blocks[:row]) + count]
    slots = [
        [int(table[row, place // BLOCK]) * BLOCK + place % BLOCK for place in range(length)]
        for row, length in enumerate(step.lengths)
    ]
    cache = torch.empty(0)
    if step.cache:
        shape = paged.get_kv_cache_shape(len(order), BLOCK, step.kv_heads, step.head_size)
        cache = torch.zeros(shape, dtype=HALF)
        halves = paged.split_kv_cache(cache, step.kv_heads, step.head_size)
        for row, count in enumerate(step.queries):
            old = step.lengths[row] - count
            if not old:
                continue
            paged.write_to_paged_cache(
                tokens.key[row][:old],
                tokens.value[row][:old],
                *halves,
                torch.tensor(slots[row][:old]),
                "auto",
                1.0,
                1.0,
            )
    new_slots = [slot for row, count in zip(slots, step.queries, strict=True) for slot in row[-count:]]
    with Counted() as kernel:
        found = backend(step).forward(*tokens.new(step), cache, metadata(step, table, new_slots))
    return {"error": error(step, tokens, found), "kernel": kernel.calls, "filled": bool(cache.any())}


def profile(*, with_metadata: bool, empty: bool) -> dict[str, Any]:
    """Return the error of a profiling run: no cache, given as None or empty, and perhaps no metadata."""
    step = Step(new=(70,), cache=False)
    tokens = tokens_of(step)
    cache = torch.empty(0) if empty else None
    about = metadata(step, torch.empty(1, 0, dtype=torch.int32), []) if with_metadata else None
    return {"error": error(step, tokens, backend(step).forward(*tokens.new(step), cache, about))}


def encoder() -> dict[str, Any]:
    """Return the error of an encoder's attention, where every token sees every other."""
    types: Any = importlib.import_module("vllm.attention.backends.abstract").AttentionType
    step = Step(new=(9, 21), cache=False, heads=2, kv_heads=2)
    tokens = tokens_of(step)
    about = metadata(step, torch.empty(2, 0, dtype=torch.int32), [])
    about.encoder_seq_lens, about.num_encoder_tokens = list(step.new), sum(step.new)
    about.encoder_seq_lens_tensor, about.max_encoder_seq_len = torch.tensor(step.new), max(step.new)
    found = backend(step).forward(*tokens.new(step), torch.empty(0), about, attn_type=types.ENCODER)
    wanted = []
    for query, key, value in zip(tokens.query, tokens.key, tokens.value, strict=True):
        weights = torch.einsum("qhd,khd->hqk", query.double(), key.double()).mul(step.head_size**-0.5).softmax(-1)
        wanted.append(torch.einsum("hqk,khd->qhd", weights, value.double()))
    right = torch.cat(wanted)
    return {"error": float((found.view(right.shape).double() - right).norm() / right.norm())}


SLOPES = [0.5, 0.25, 0.125, 0.0625]
STEPS = {
    "wide prompts": Step(new=(5, 37, 1, 64)),
    "wide prompts, a KV head for each": Step(new=(5, 37), kv_heads=4),
    "wide prompts, two KV heads": Step(new=(33, 2), kv_heads=2),
    "wide prompts in a window": Step(new=(5, 37, 64), options={"sliding_window": 8}),
    "wide prompts with slopes": Step(new=(5, 37), options={"alibi_slopes": SLOPES}),
    "wide heads of 192": Step(new=(5, 37), head_size=192),
    "wide prefix": Step(new=(5, 37, 9), contexts=(16, 33, 0)),
    "wide chunks and decodes": Step(new=(5, 37), contexts=(0, 50), decodes=(3, 70, 16), chunked=True),
    "wide decodes": Step(new=(), decodes=(3, 70)),
    "narrow prompts": Step(new=(5, 37, 1), head_size=NARROW),
}
DRIVES: dict[str, Callable[[], Any]] = {
    **{name: lambda step=step: attend(step) for name, step in STEPS.items()},  # type: ignore[misc]  # bound early
    "profile, cache empty": lambda: profile(with_metadata=True, empty=True),
    "profile, no cache": lambda: profile(with_metadata=True, empty=False),
    "profile, no metadata": lambda: profile(with_metadata=False, empty=True),
    "profile, neither": lambda: profile(with_metadata=False, empty=False),
    "wide encoder": encoder,
}
