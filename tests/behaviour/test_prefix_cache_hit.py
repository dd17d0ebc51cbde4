"""Chunked prefill behind a cached prefix: every chunk gets the blocks of its context, and computes what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.behaviour import drive_chunks
from tests.behaviour.driven import driven

if TYPE_CHECKING:
    from pathlib import Path

BLOCK, TABLE = drive_chunks.BLOCK, drive_chunks.TABLE
CASES = [(name, blocks) for name in drive_chunks.CHUNKS for blocks in range(len(TABLE))]


def chunks(tree: Path, name: str, blocks: int) -> Any:  # noqa: ANN401 - JSON
    """Return what the model gets for the three chunks of a prompt with so many cached blocks."""
    return driven(tree)[f"{name} chunks, {blocks} cached blocks"]


def context_in_the_table(chunk: dict[str, Any]) -> bool:
    """Tell whether the block table of a chunk names the right block for every token of its context."""
    needed = -(-chunk["context"] // BLOCK)
    return bool(chunk["table"][:needed] == TABLE[:needed])


@pytest.mark.parametrize(("name", "blocks"), CASES)
def test_the_block_table_covers_the_context_of_every_chunk(name: str, blocks: int, patched: Path) -> None:
    for chunk in chunks(patched, name, blocks):
        assert context_in_the_table(chunk)


@pytest.mark.parametrize(("name", "blocks"), CASES)
def test_a_chunk_computes_what_neither_cache_nor_earlier_chunks_have(name: str, blocks: int, patched: Path) -> None:
    prefix, start = blocks * BLOCK, 0
    for chunk, size in zip(chunks(patched, name, blocks), drive_chunks.CHUNKS[name], strict=True):
        stop = start + size
        first = min(max(start, prefix), stop - 1)  # at least the last token: it gives the hidden state
        assert chunk["context"] == first
        assert chunk["length"] == stop
        assert chunk["tokens"] == [1000 + place for place in range(first, stop)]
        assert chunk["positions"] == list(range(first, stop))
        assert chunk["slots"] == [TABLE[place // BLOCK] * BLOCK + place % BLOCK for place in range(first, stop)]
        start = stop


@pytest.mark.parametrize(("name", "blocks"), CASES)
def test_before_the_stage_a_chunk_behind_the_prefix_has_too_short_a_table(
    name: str, blocks: int, unpatched: Path
) -> None:
    prefix, start = blocks * BLOCK, 0
    for chunk, size in zip(chunks(unpatched, name, blocks), drive_chunks.CHUNKS[name], strict=True):
        behind = 0 < prefix < start  # at `start` itself the cached blocks are all there is to read
        assert context_in_the_table(chunk) is not behind
        start += size
