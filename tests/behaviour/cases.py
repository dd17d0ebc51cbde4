"""What the patched tree is asked, as plain data: read by the tests, and by the process that imports the tree."""

from __future__ import annotations

from dataclasses import dataclass

LENGTHS = (1, 512, 513, 8192, 8193, 32768, 32769, 65536, 65537)
SEQUENCES = (1, 129)

V1_MAX_LEN = 8192  # of the patched tree
V1_LIMIT = 32768  # tokens that the device's V1 kernel takes
DECODE_THRESHOLD = 65536  # of the patched tree: above it the memory-lean path


@dataclass(frozen=True)
class Decode:
    """One call of `forward_decode`: the lengths of the sequences, 0 for a padding row, and the shape of a head."""

    name: str
    lengths: tuple[int, ...]
    bound: int = 0
    """What is given as `max_seq_len`; 0: the longest length, as in eager mode."""
    kv_heads: int = 2
    group: int = 4
    head_size: int = 64
    dtype: str = "float16"
    alibi: bool = False

    @property
    def limit(self) -> int:
        """The `max_seq_len` of the call."""
        return self.bound or max(self.lengths)


@dataclass(frozen=True)
class Prefix:
    """One call of `forward_prefix`: cached and new tokens of each sequence, and the shape of a head."""

    name: str
    contexts: tuple[int, ...]
    new: tuple[int, ...]
    kv_heads: int = 2
    group: int = 4
    head_size: int = 64
    dtype: str = "float16"
    alibi: bool = False
    window: int | None = None
    padding: int = 0
    """Rows of the query that belong to no sequence."""


def batch(longest: int, sequences: int) -> tuple[int, ...]:
    """Return the longest length and shorter ones, each eighth of them a padding row."""
    rest = (0 if row % 8 == 0 else min(longest, row * 37 % 530 + 1) for row in range(1, sequences))
    return (longest, *rest)


def _shape(longest: int, sequences: int) -> dict[str, int]:
    """Return heads that are small enough for many long sequences in little time and memory."""
    if longest <= V1_MAX_LEN + 1:
        return {"kv_heads": 2, "group": 4} if sequences == 1 else {"kv_heads": 2, "group": 2, "head_size": 32}
    return {"kv_heads": 1, "group": 3, "head_size": 64 if sequences == 1 else 16}


BY_LENGTH = [
    Decode(f"{n} sequences up to {longest}", batch(longest, n), **_shape(longest, n))  # type: ignore[arg-type]  # only sizes
    for longest in LENGTHS
    for n in SEQUENCES
]
PINNED = Decode("8 sequences of 4 heads and 1000 tokens", (1000,) * 8, kv_heads=1, head_size=256)
_SHORT = (1, 17, 600, 0, 513, 2)
CAPTURED = [Decode(f"short sequences in a graph of {bound}", _SHORT, bound) for bound in (8192, 32768, 65536)]
SHAPES = [
    *(
        Decode(f"groups of {group} up to {longest}", (longest, 0, 33), kv_heads=2, group=group, head_size=32)
        for group in (1, 3, 8)
        for longest in (700, 9000, 66000)
    ),
    *(
        Decode(f"the model's heads up to {longest}", (longest, 513), kv_heads=1, head_size=256)
        for longest in (8192, 9000, 66000)
    ),
    *(
        Decode(f"{dtype} up to {longest}", (longest, 5), kv_heads=1, dtype=dtype)
        for dtype in ("bfloat16", "float32")
        for longest in (700, 9000, 66000)
    ),
    *(Decode(f"alibi up to {longest}", (longest, 40), kv_heads=1, alibi=True) for longest in (700, 9000, 66000)),
]
SMALL_DECODES = [
    Decode("two short sequences in a graph of 9000", (40, 0, 530), 9000, kv_heads=1, head_size=256),
    Decode("8193 tokens of three heads", (8193, 5), kv_heads=1, group=3),
]
"""Above the compiled kernel's lengths, and small enough for Triton's interpreter."""
DECODES = [*BY_LENGTH, PINNED, *CAPTURED, *SHAPES, *SMALL_DECODES]
ABOVE_V1 = [case for case in DECODES if case.limit > V1_MAX_LEN]


def _prefix_of(longest: int, sequences: int) -> Prefix:
    """Return a prefill whose longest sequence, with its new tokens, has `longest` tokens."""
    totals = batch(longest, sequences)
    new = tuple(min(total, 1 + row % 5) for row, total in enumerate(totals))
    contexts = tuple(total - fresh for total, fresh in zip(totals, new, strict=True))
    return Prefix(f"{sequences} prompts up to {longest}", contexts, new, **_shape(longest, sequences))  # type: ignore[arg-type]  # only sizes


SMALL_PREFIXES = [
    Prefix("a context of 0 beside others", (33, 0, 70, 0, 15), (5, 40, 3, 1, 17)),
    Prefix("one query head a KV head", (20, 3), (9, 2), group=1),
    Prefix("three query heads a KV head", (20, 3), (9, 2), group=3),
    Prefix("the heads of the model", (40, 0), (20, 3), kv_heads=1, head_size=256),
    Prefix("single precision", (40, 0), (20, 9), dtype="float32"),
    Prefix("alibi", (50, 0), (30, 12), alibi=True),
    Prefix("a window of 8", (50, 0), (30, 12), window=8),
    Prefix("a window of 40", (50, 0), (30, 12), window=40),
    Prefix("rows of no sequence", (30, 0), (5, 6), padding=3),
]
PREFIXES = [
    *(_prefix_of(longest, n) for longest in LENGTHS for n in SEQUENCES),
    *SMALL_PREFIXES,
    Prefix("many new tokens", (600, 0, 16), (700, 530, 64)),
    Prefix("bfloat16", (40, 700), (20, 9), dtype="bfloat16"),
    Prefix("a window of 300 over a long context", (5000, 10), (70, 400), window=300),
]

V2_DIRECTLY = "V2 called directly"
IN_CHUNKS = "a prompt of 1200 in chunks of 512, then decoded"
READS = {"v1": 700, "v2": 9000, "long": 66000}
"""Path → a `max_seq_len` that takes it."""
