"""The space of kernel configurations: what of a row of `kernels/muh_dispatch.py` may be varied, and over what.

A candidate is a row with some fields changed; the table's own checks refuse it where it cannot be. Fields that the
compiler sees are *tiles*: they decide about shared memory and registers. The others are *rules*: they say how work is
split, and only time tells their worth.

    echo QUESTION | python benchmarks/tune/space.py FOLDER

takes the table from `FOLDER/kernels`. The question is a JSON object with operation, device, dtype, head_size and group;
the answer is one too: the base row, the rules, and every combination of tiles: a row, the place of the same row, or the
reason why there is none.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernels.muh_dispatch import Config

Value = int | float | bool

K = 1 << 10
COPY_BYTES = 16
"""The widest copy of a thread; a tile with less for each of its threads is read in pieces."""


@dataclass(frozen=True)
class Space:
    """What may be varied of one operation's rows, and the shapes that are timed where none are asked for.

    A shape is the batch, the tokens in the cache of each sequence, and its new tokens. With `resident_is_held`, a row's
    `resident` counts blocks that a multiprocessor holds at a time, and may not be more; otherwise it only says into how
    many parts work is split. Rows are compiled as launches with so many `compiled_splits` are.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, int, int], ...]
    tiles: Mapping[str, tuple[Value, ...]]
    rules: Mapping[str, tuple[Value, ...]]
    resident_is_held: bool
    compiled_splits: int


SPACES = {
    "paged_decode_v2": Space(
        names=("decode",),
        shapes=((1, 8 * K, 1), (1, 32 * K, 1), (8, 2 * K, 1), (8, 8 * K, 1), (64, 2 * K, 1)),
        tiles={
            "block_n": (16, 32, 64, 128),
            "num_warps": (1, 2, 4, 8),
            "num_stages": (1, 2, 3, 4),
            "whole_pages": (False, True),
            "key_dims": (16, 32, 64, 128),
        },
        rules={
            "resident": (1, 2, 3, 4, 5, 6, 8),
            "latency": (0.95, 1.13, 1.4, 1.75),
            "start_tiles": (0.0, 1.0, 2.0, 4.0),
            "merge_tiles": (0.0015, 0.005, 0.015, 0.05),
            "merge_load": (0.7, 1.0, 2.0, 3.0),
        },
        resident_is_held=True,
        compiled_splits=2,
    ),
    "prefix_prefill": Space(
        names=("prefill",),
        shapes=((1, 0, 2 * K), (1, 8 * K, 2 * K), (1, 32 * K, 2 * K)),
        tiles={
            "block_m": (32, 64, 128, 256),
            "block_n": (16, 32, 64, 128),
            "num_warps": (2, 4, 8),
            "num_stages": (1, 2, 3, 4),
            "key_parts": (1, 2),
        },
        rules={"resident": (1, 2, 3, 4), "split_keys": (256, 512, 1024), "most_splits": (4, 8, 16, 32)},
        resident_is_held=False,
        compiled_splits=1,
    ),
}

EVERYWHERE = ((2, 80), (2, 75), (3, 80), (3, 90))
COMPILED_FOR = {"bi100": EVERYWHERE, "cuda_48k": EVERYWHERE, "h200": ((3, 90),), "h200_48k": ((3, 90),)}
"""Device → the compilers that its rows have to pass: Triton's major version, and a compute capability.

The BI-V100's own compiler is not to be had; these stand for it, with twice the warps, since its warps are twice as
wide.
"""
FIRST_WITH_BFLOAT16 = 80
"""Capability from which there are products of bfloat16; Triton 2.3.1 refuses them below."""


def targets_of(device: str, dtype: str) -> list[tuple[int, int]]:
    """Return the compilers that a device's rows of a type have to pass."""
    return [pair for pair in COMPILED_FOR[device] if dtype != "bfloat16" or pair[1] >= FIRST_WITH_BFLOAT16]


def base_row(question: Mapping[str, Any]) -> Config:
    """Return the table's row for these inputs: what a candidate changes, and is compared with.

    Raises:
        LookupError: There is none.
    """
    from kernels import muh_dispatch  # noqa: PLC0415 - from the folder that the command line names

    where = question["device"], question["dtype"], question["head_size"]
    if question["operation"] == "paged_decode_v2":
        return muh_dispatch.decode_config(*where, question["group"])
    return muh_dispatch.prefill_config(*where)


def candidate(base: Config, choice: Mapping[str, Value]) -> Config:
    """Return a row with other values; fields that make no difference to it stay as a row of the table has them.

    Raises:
        ValueError: The table cannot hold it, or its threads would have nothing to copy.
    """
    from kernels import muh_dispatch  # noqa: PLC0415 - as above

    changed: dict[str, Any] = dict(choice)
    if changed.get("whole_pages"):
        changed["key_dims"] = max(muh_dispatch.LEAST_TILE, base.head_size // 8)
    row = dataclasses.replace(base, **changed)
    if not isinstance(row, muh_dispatch.DecodeConfig):
        least = row.block_n * row.head_size // row.key_parts
    elif not row.whole_pages and row.block_m < muh_dispatch.LEAST_TILE:
        raise ValueError(
            f"{row.label}: without whole pages a tile of queries has at least {muh_dispatch.LEAST_TILE} rows"
        )
    elif row.whole_pages:
        least = row.block_n * row.head_size
    elif row.key_dims > row.head_size:
        raise ValueError(f"{row.label}: key_dims {row.key_dims} is more than a head has")
    else:
        least = row.block_n * row.key_dims
    threads = row.num_warps * muh_dispatch.DEVICES[row.device].warp
    if least * muh_dispatch.ELEMENT_BYTES[row.dtype] < COPY_BYTES * threads:
        raise ValueError(f"{row.label}: a load of {least} elements is less than {COPY_BYTES} B for each thread")
    return row


def with_own(values: Mapping[str, tuple[Value, ...]], row: Config) -> dict[str, list[Value]]:
    """Return the values of each field, that of a row among them."""
    return {name: sorted({*some, getattr(row, name)}) for name, some in values.items()}


def described(row: Config) -> dict[str, Any]:
    """Return a row as plain data: its fields, and what the table's model says of it.

    `registers` are those of four bytes that a block cannot do without: both products' results, in float32. `in_flight`
    are the bytes of keys and values that one block has under way: a tile of each, for every stage but the last.
    """
    from kernels import muh_dispatch  # noqa: PLC0415 - as above

    element = muh_dispatch.ELEMENT_BYTES[row.dtype]
    return {
        "fields": dataclasses.asdict(row),
        "shared": row.shared_bytes,
        "threads": row.num_warps * muh_dispatch.DEVICES[row.device].warp,
        "registers": row.block_m * (row.head_size + row.block_n),
        "in_flight": 2 * max(1, row.num_stages - 1) * row.block_n * row.head_size * element,
    }


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the space around the row that serves these inputs.

    Raises:
        LookupError: The table has no such row.
        ValueError: The table holds a row that does not fit.
    """
    from kernels import muh_dispatch  # noqa: PLC0415 - as above

    base = base_row(question)
    space = SPACES[question["operation"]]
    tiles, rules = (with_own(values, base) for values in (space.tiles, space.rules))
    found: list[dict[str, Any]] = []
    seen: dict[Config, int] = {}
    for values in itertools.product(*tiles.values()):
        choice = dict(zip(tiles, values, strict=True))
        try:
            row = candidate(base, choice)
        except ValueError as refused:
            found.append({"choice": choice, "refused": str(refused).partition(": ")[2]})
            continue
        same = seen.setdefault(row, len(found))
        found.append({"choice": choice, "same": same} if same < len(found) else {"choice": choice, **described(row)})
    return {
        "base": {"choice": {name: getattr(base, name) for name in (*tiles, *rules)}, **described(base)},
        "class": type(base).__name__,
        "defaults": {
            field.name: field.default for field in dataclasses.fields(base) if field.default is not dataclasses.MISSING
        },
        "limit": muh_dispatch.DEVICES[base.device].shared_bytes,
        "warp": muh_dispatch.DEVICES[base.device].warp,
        "compilers": targets_of(base.device, base.dtype),
        "shapes": space.shapes,
        "tiles": tiles,
        "rules": rules,
        "resident_is_held": space.resident_is_held,
        "compiled_splits": space.compiled_splits,
        "candidates": found,
    }


def devices() -> dict[str, Any]:
    """Return the names that the table and the space know."""
    from kernels import muh_dispatch  # noqa: PLC0415 - as above

    return {
        "devices": list(muh_dispatch.DEVICES),
        "types": list(muh_dispatch.ELEMENT_BYTES),
        "operations": {name: list(space.names) for name, space in SPACES.items()},
    }


def main(folder: str) -> None:
    """Answer the question on standard input; an empty one is answered by the names that are known.

    A device that the table does not name uses the rows that it would be given where it is.
    """
    sys.path.insert(0, folder)
    from kernels import muh_dispatch  # noqa: PLC0415 - as above

    question = json.load(sys.stdin)
    if not question:
        found = devices()
    else:
        if question["device"] not in muh_dispatch.DEVICES:
            question["device"] = muh_dispatch.device_of(question["reported"], question["shared"], {})
        found = {**answer(question), "device": question["device"]}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (LookupError, ValueError) as error:
        sys.stdout.write(json.dumps({"error": str(error.args[0] if error.args else error)}) + "\n")
