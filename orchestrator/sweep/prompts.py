"""Prompts of an exact length, as lists of token ids: the same ones for the same load, none of them twice."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.sweep.model import Load


def prompts(load: Load) -> Iterator[list[int]]:
    """Yield prompts without end: their lengths in turn, the first `shared_tokens` of all alike, the rest random."""
    low, high = load.token_ids
    common = random.Random("shared")  # noqa: S311 - anything will do, as long as it is the same every time
    shared = [common.randint(low, high) for _ in range(min(load.shared_tokens, max(load.prompt_tokens)))]
    for number, length in enumerate(itertools.cycle(load.prompt_tokens)):
        own = random.Random(f"own {number}")  # noqa: S311 - the same
        start = shared[:length]
        yield start + [own.randint(low, high) for _ in range(length - len(start))]
