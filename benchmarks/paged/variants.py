"""Variants of our kernels: the source with one thing undone, or the table's row with one thing changed.

The source is edited by this project's own patterns, as a pipeline's stages are: an edit names what it replaces, matches
as often as it says, or is refused. A variant whose edit is refused is reported, never measured.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.paged import cells, ours
from orchestrator.code.edits import Replace
from orchestrator.code.patterns import compile_pattern
from orchestrator.code.rewrite import apply, examine
from orchestrator.code.sites import Pending
from orchestrator.code.source import Source
from orchestrator.code.template import compile_template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.paged.cells import Cell


@dataclass(frozen=True)
class Change:
    """Code in one definition of a kernel's file, and what stands in its place."""

    within: str
    match: str
    by: str
    count: int = 1


@dataclass(frozen=True)
class Variant:
    """One thing changed. `group` is the question it answers, `base` the variant that it is compared with."""

    group: str
    name: str
    module: str
    cells: tuple[Cell, ...]
    base: str = "as it is"
    changes: tuple[Change, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)
    splits: int | None = None


def edited(text: str, changes: tuple[Change, ...], path: str) -> str:
    """Return a file's text with the changes made.

    Raises:
        Rejected: A change does not match as often as it says, or its result is not Python.
    """
    source = Source(path, text.encode())
    for change in changes:
        pattern = compile_pattern(change.match, {})
        edit = Replace(pattern, compile_template(change.by, {}, pattern.holes), change.count)
        state = examine(edit, source, change.within)
        if not isinstance(state, Pending):
            raise ValueError(f"{path} is already as the change would make it: {change.by}")  # noqa: TRY004 - no type is wrong
        source = apply(edit, source, change.within, state).source
    return source.text


def kernels_of(variant: Variant, folder: Path) -> ours.Kernels:
    """Return a copy of the kernels that is the variant.

    Raises:
        Rejected: A change was refused.
    """
    file = f"{variant.module}.py"
    text = edited((ours.FOLDER / file).read_text(encoding="utf-8"), variant.changes, file)
    kernels = ours.copied(folder, {file: text})
    module: Any = kernels.module(variant.module)
    decode = variant.module == ours.DECODE
    chooser = "decode_config" if decode else "prefill_config"
    if variant.row:
        choose = getattr(module, chooser)
        setattr(module, chooser, lambda *given: dataclasses.replace(choose(*given), **variant.row))
    if variant.splits is not None:
        setattr(module, "split_count" if decode else "splits_of", lambda *_: variant.splits)
    return kernels


RANK_B8 = cells.Decode(cells.QWEN_RANK, 8, 32 * cells.K)
RANK_B1 = cells.Decode(cells.QWEN_RANK, 1, 32 * cells.K)
WIDE_B8 = cells.Decode(cells.LLAMA, 8, 8 * cells.K)
WIDE_B64 = cells.Decode(cells.LLAMA, 64, 8 * cells.K)
RANK_LONG = cells.Decode(cells.QWEN_RANK, 1, 100 * cells.K)
DECODE_CELLS = (RANK_B8, RANK_B1, WIDE_B8)
SPLIT_CELLS = (RANK_LONG, RANK_B8, WIDE_B8, WIDE_B64)
RANK_PREFILL = cells.Prefill(cells.QWEN_RANK, 1, 8 * cells.K)
WIDE_PREFILL = cells.Prefill(cells.LLAMA, 1, 8 * cells.K)
WIDE_FRESH = cells.Prefill(cells.LLAMA, 1, 0)
PREFILL_CELLS = (RANK_PREFILL, WIDE_PREFILL)

KERNEL = "_attend_tokens"
TABLE_MASKED = (
    Change(
        "_attend_pages",
        "page = tl.load(table + following // PAGE + in_tile)",
        "page = tl.load(table + following // PAGE + in_tile, mask=following + in_tile * PAGE < end, other=0)",
    ),
    Change(
        KERNEL,
        "page = tl.load(table + (following + token) // PAGE)",
        "page = tl.load(table + (following + token) // PAGE, mask=following + token < end, other=0)",
    ),
)
VALUES_MASKED = (
    Change(
        KERNEL,
        "v = _value_load(values, dim, D, D_TILE)",
        "v = tl.load(values, mask=(n < end)[:, None], other=0.0)",
        count=2,
    ),
)
# A `length` below 0 never comes, which the compiler cannot know: the inner stride is a number of the run.
X_AT_RUN_TIME = (
    Change(
        KERNEL,
        "key_dim = (step // X) * (PAGE * X) + step % X",
        "x = tl.where(length < 0, 2 * X, X)\nkey_dim = (step // x) * (PAGE * x) + step % x",
    ),
    Change(KERNEL, "here * key_stride + slot * X", "here * key_stride + slot * x", count=2),
)
ONE_HEAD_A_BLOCK = (
    Change(
        "_attend_split",
        "row = (block % HEAD_BLOCKS) * BLOCK_M + tl.arange(0, BLOCK_M)",
        "row = block % HEAD_BLOCKS + tl.arange(0, BLOCK_M) * GROUP",
    ),
    Change("_Plan.__init__", "head_blocks = -(-group // block_m)", "head_blocks = group"),
)
NO_TILE_SKIPPED = (Change("_prefill", "last_token + 1", "new", count=2),)
NEW_TILES_MASKED = (
    Change("_prefill", "own_full = (first_token + 1) // BLOCK_N * BLOCK_N", "own_full = first_token * 0"),
)
CONTEXT_MASKED = (Change("_prefill", "full = readable // BLOCK_N * BLOCK_N", "full = readable * 0"),)

TOKENS = "by tokens"
ONE_SPLIT = "one split"


def decode_variants() -> Iterator[Variant]:
    """Yield the variants of decode."""

    def variant(group: str, name: str, **what: Any) -> Variant:  # noqa: ANN401 - fields of a variant
        return Variant(group, name, ours.DECODE, what.pop("cells", DECODE_CELLS), **what)

    yield variant("as it is", "as it is", cells=(*DECODE_CELLS, RANK_LONG, WIDE_B64))
    tokens = {"whole_pages": False}
    yield variant("order", TOKENS, row=tokens)
    yield variant("order", "by whole pages", row={"whole_pages": True})
    masked = (("table", TABLE_MASKED), ("values", VALUES_MASKED), ("x at run time", X_AT_RUN_TIME))
    for name, changes in (*masked, ("all three", TABLE_MASKED + VALUES_MASKED + X_AT_RUN_TIME)):
        yield variant("masks and x", name, base=TOKENS, row=tokens, changes=changes)
    for stages in (1, 2, 3, 4):
        yield variant("stages", f"{stages} stages", row={"num_stages": stages})
    for warps in (1, 2, 4, 8):
        yield variant("warps", f"{warps} warps", row={"num_warps": warps})
    for tokens_a_tile in (16, 32, 64):
        yield variant("tile", f"{tokens_a_tile} tokens", row={"block_n": tokens_a_tile})
    yield variant("group", "one query head a block", changes=ONE_HEAD_A_BLOCK)
    for splits in (1, 4, 16, 64):
        yield variant("split", f"{splits} parts", cells=SPLIT_CELLS, splits=splits)


def prefill_variants() -> Iterator[Variant]:
    """Yield the variants of prefill."""

    def variant(group: str, name: str, **what: Any) -> Variant:  # noqa: ANN401 - fields of a variant
        return Variant(group, name, ours.PREFILL, what.pop("cells", PREFILL_CELLS), **what)

    every = (*PREFILL_CELLS, WIDE_FRESH)
    yield variant("as it is", "as it is", cells=every)
    for splits, name in ((1, ONE_SPLIT), (2, "2 splits"), (4, "4 splits")):
        yield variant("split", name, cells=every, splits=splits)
    # Without full tiles there is nothing to share out: compared where there is one split.
    alone = {"base": ONE_SPLIT, "splits": 1, "cells": every}
    yield variant("diagonal", "tiles above it not skipped", changes=NO_TILE_SKIPPED, **alone)
    yield variant("masks", "every tile of new tokens masked", changes=NEW_TILES_MASKED, **alone)
    yield variant("masks", "every tile of the context masked", changes=CONTEXT_MASKED, **alone)
    for rows, keys in ((64, 32), (64, 64), (128, 32), (128, 64)):
        yield variant("tile", f"{rows} by {keys}", row={"block_m": rows, "block_n": keys})
    for warps in (4, 8):
        yield variant("warps", f"{warps} warps", row={"num_warps": warps})
    for stages in (1, 2, 3):
        yield variant("stages", f"{stages} stages", row={"num_stages": stages})
    for parts in (1, 2):
        yield variant("keys", f"keys in {parts} loads", row={"key_parts": parts})


def variants() -> list[Variant]:
    """Return all of them, those that others are compared with first."""
    return [*decode_variants(), *prefill_variants()]
