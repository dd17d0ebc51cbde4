"""How fast paged attention is on this machine: its ceilings, ours, torch's own, and whichever peers are installed.

Every contender is checked against float64 before it is timed: on small ragged data (ours with NaN in unused slots) and
on the cell itself. A CUDA graph of many calls is replayed, the calls rotate over data that exceeds the L2 several
times, and the median replay counts; `eager us` is one call as Python launches it. Compare figures of one run only.

    python benchmarks/attention.py --out found.json --plot found.svg       all of both tables
    python benchmarks/attention.py --quick                                 a few cells
    python benchmarks/attention.py --rows h200_48k --shapes 'decode 4q'    also with the rows of another device
    python benchmarks/attention.py --device cpu                            the PyTorch paths, without CUDA

Peers: FlashInfer, xformers, conch-triton-kernels and nvidia-cudnn-frontend, where they can be imported.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - the path comes first

from benchmarks.paged import cells, ours, peers, plot, report, sweeps  # noqa: E402 - the same
from benchmarks.paged.contender import Contender, absence, timed, verdict  # noqa: E402 - the same
from benchmarks.paged.data import data_for, sets_for, small_data  # noqa: E402 - the same
from benchmarks.paged.machine import l2_bytes, machine  # noqa: E402 - the same
from benchmarks.paged.warm import compile_in_processes  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.paged.cells import Cell

NO_DEVICE = 2
CPU_BYTES = 1 << 25
"""Cells that a CPU is asked for hold at most so much."""

PREFILL_SETS = 4
"""Prefill is bound by arithmetic: few sets are enough, and its new keys may be warm, as they are in service."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="a few cells, no batch steps")
    parser.add_argument("--tiny", action="store_true", help="cells that take milliseconds, to try the program itself")
    parser.add_argument("--shapes", metavar="REGEX", default="", help="cells whose name matches, no batch steps")
    parser.add_argument("--rows", metavar="DEVICE", action="append", default=[], help="our kernels with its rows, too")
    parser.add_argument("--out", metavar="FILE.json", type=Path)
    parser.add_argument("--plot", metavar="FILE.svg", type=Path)
    parser.add_argument("--warm", metavar="N", type=int, default=0, help="compile everything in N processes first")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further cell after so many seconds")
    parser.add_argument("--compile", metavar="I/N", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def chosen_cells(options: argparse.Namespace) -> list[Cell]:
    """Return the cells that the options ask for."""
    found: list[Cell] = [*cells.decode_cells(), *cells.prefill_cells()]
    if options.tiny:
        found = cells.tiny_cells()
    elif options.quick:
        found = cells.quick_cells()
    elif options.device == "cpu":
        found = [cell for cell in found if isinstance(cell, cells.Decode) and cell.kv_bytes <= CPU_BYTES]
    return [cell for cell in found if re.search(options.shapes, str(cell))]


def interpreted() -> bool:
    """Return whether Triton's kernels run in its interpreter, on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@dataclass
class Bench:
    """One run: its contenders by kind, and the record that grows."""

    options: argparse.Namespace
    copies: Path
    contenders: dict[str, list[Contender]] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.device: str = self.options.device
        kernels = [ours.AS_THEY_ARE, *(ours.copied(self.copies, {}, rows) for rows in self.options.rows)]
        triton = {"decode": ours.decode_triton, "prefill": ours.prefill_triton}
        for kind, make in triton.items():
            mine = [make(each) for each in kernels] if self.device == "cuda" or interpreted() else []
            others = [peer for peer in peers.peers(kind) if self.device == "cuda" or not peer.needs]
            self.contenders[kind] = [*mine, *ours.in_pytorch(kind), *others]
        self.record |= {"meta": machine(self.device), "absent": {}, "checks": {}, "cells": []}

    def seconds(self) -> float:
        """Return how long the run has taken."""
        return time.monotonic() - self.start

    def say(self, text: str) -> None:
        """Tell who waits how far it is."""
        print(f"{self.seconds():6.1f} s  {text}", file=sys.stderr, flush=True)

    def save(self) -> None:
        """Write what is known so far."""
        self.record["meta"]["seconds"] = round(self.seconds(), 1)
        if self.options.out:
            self.options.out.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")

    def check(self) -> None:
        """Leave only contenders that are installed and right; the record says what became of the others."""
        heads = (cells.QWEN_RANK, cells.LLAMA) if self.device == "cuda" else (cells.Heads(4, 2, 32),)
        for kind, found in self.contenders.items():
            checks = self.record["checks"].setdefault(kind, {})
            self.contenders[kind] = []
            data = {
                poison: [small_data(kind, each, self.device, poison=poison) for each in heads]
                for poison in (True, False)
            }
            for contender in found:
                if why := absence(contender):
                    self.record["absent"][contender.name] = why
                    continue
                mine = data[contender.poison]
                verdicts = [verdict(contender, each) for each in mine] if contender.ragged else [{"skipped": "ragged"}]
                checks[contender.name] = {str(each): said for each, said in zip(heads, verdicts, strict=False)}
                if any("failed" in said for said in verdicts):
                    self.say(f"not timed: {contender.name}: {verdicts}")
                else:
                    self.contenders[kind].append(contender)
            self.say(f"{kind}: {len(self.contenders[kind])} of {len(found)} are there and right")

    def sets_of(self, cell: Cell) -> int:
        """Return over how many sets calls of a cell rotate."""
        if self.device == "cpu":
            return 1
        prefill = isinstance(cell, cells.Prefill)
        return sets_for(cell.kv_bytes, l2_bytes(), **({"most": PREFILL_SETS} if prefill else {}))

    def time_cell(self, cell: Cell) -> dict[str, Any]:
        """Return a cell with the times of all its contenders."""
        kind, sets = type(cell).__name__.lower(), self.sets_of(cell)
        data = data_for(cell, self.device, sets)
        times = {c.name: {"family": c.family, **timed(c, data, sets, self.device)} for c in self.contenders[kind]}
        sizes = {"kv_bytes": cell.kv_bytes, "flop": getattr(cell, "flop", None), "sets": sets}
        return {"cell": str(cell), "kind": kind, "heads": str(cell.heads), **sizes, "times": times}

    def compile_share(self, share: str) -> None:
        """Call every contender once on this share of the cells, so that Triton's cache on disk is filled."""
        index, count = map(int, share.split("/"))
        work = [(cell, c) for cell in chosen_cells(self.options) for c in self.contenders[type(cell).__name__.lower()]]
        for cell, contender in work[index::count]:
            if contender.needs and not contender.gathered:
                with contextlib.suppress(Exception):  # the measuring process says what fails
                    contender.prepare(data_for(cell, self.device, 1))(0)

    def run(self) -> None:
        """Measure everything."""
        wanted = chosen_cells(self.options)
        if self.device == "cuda":
            from benchmarks.paged import ceilings  # noqa: PLC0415 - Triton kernels, for CUDA only

            sizes = [cell.kv_bytes for cell in wanted if isinstance(cell, cells.Decode)]
            self.record["ceilings"] = ceilings.measured(sizes, l2_bytes())
            self.say("ceilings")
        self.check()
        for cell in wanted:
            if self.seconds() > self.options.seconds:
                self.record["cells"].append({"cell": str(cell), "skipped": "out of time"})
                continue
            self.record["cells"].append(self.time_cell(cell))
            self.say(report.line(self.record["cells"][-1]))
            self.save()
            if self.device == "cuda":
                torch.cuda.empty_cache()
        if self.device == "cuda" and not (self.options.quick or self.options.shapes or self.options.tiny):
            self.record["steps"] = sweeps.steps(ours.AS_THEY_ARE)
            self.record["bound"] = sweeps.bounds(ours.AS_THEY_ARE)
            self.say("steps")
        self.save()


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the tables; 2 where the device is missing."""
    options = arguments(given)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("There is no CUDA device here. `--device cpu` measures the PyTorch paths.", file=sys.stderr)
        return NO_DEVICE
    with tempfile.TemporaryDirectory() as folder:
        if options.warm and not options.compile:
            compile_in_processes(__file__, list(sys.argv[1:] if given is None else given), options.warm)
        bench = Bench(options, Path(folder))
        if options.compile:
            bench.compile_share(options.compile)
            return 0
        bench.run()
    print("\n\n".join(report.tables(bench.record)))
    if options.plot:
        options.plot.write_text(plot.drawn(bench.record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
