"""What each decision in our kernels is worth: variants with one thing undone, beside the kernels as they are.

Variants are the kernels' source edited by this project's own patterns, or their table with a row changed. Each has to
be right against float64 on the very cell before it is timed; one that does not fit, or whose edit no longer matches,
says so.

    python benchmarks/ablation.py --out found.json [--only REGEX] [--warm N]
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - the path comes first

from benchmarks.paged import cells, ours, report  # noqa: E402 - the same
from benchmarks.paged.contender import said, timed, verdict  # noqa: E402 - the same
from benchmarks.paged.data import Data, data_for, sets_for  # noqa: E402 - the same
from benchmarks.paged.machine import l2_bytes, machine  # noqa: E402 - the same
from benchmarks.paged.variants import Variant, kernels_of, variants  # noqa: E402 - the same
from benchmarks.paged.warm import compile_in_processes  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.paged.cells import Cell

NO_DEVICE = 2
BUDGET_MS = 20.0
KERNELS = {ours.DECODE: "_attend_split", ours.PREFILL: "_prefill"}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: Triton's interpreter, no times")
    parser.add_argument("--only", metavar="REGEX", default="", help="variants whose name matches, and their bases")
    parser.add_argument("--out", metavar="FILE.json", type=Path)
    parser.add_argument("--warm", metavar="N", type=int, default=0, help="compile everything in N processes first")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further cell after so many seconds")
    parser.add_argument("--compile", metavar="I/N", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def chosen(pattern: str) -> list[Variant]:
    """Return the variants that a pattern names, and those that they are compared with."""
    every = variants()
    named = [v for v in every if re.search(pattern, f"{v.module} {v.group} {v.name}")]
    bases = {(v.module, v.base) for v in named} | {(v.module, "as it is") for v in named}
    return [v for v in every if v in named or (v.module, v.name) in bases]


def small(cell: Cell) -> Cell:
    """Return a cell of the same heads that the interpreter does in a second."""
    if isinstance(cell, cells.Decode):
        return cells.Decode(cell.heads, 1, 40)
    return cells.Prefill(cell.heads, 1, 17 if cell.context else 0, 9)


def resources(kernels: ours.Kernels, module: str, known: set[int]) -> dict[str, Any]:
    """Return shared memory, registers and spills of the kernel that was compiled since `known`, if one was."""
    found: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # where Triton keeps it is its own business: then nothing is said
        for kept in getattr(kernels.module(module), KERNELS[module]).device_caches.values():
            for compiled in kept[0].values():
                if id(compiled) not in known:
                    known.add(id(compiled))
                    found = {"shared": compiled.metadata.shared, "registers": compiled.n_regs}
                    found |= {"spills": compiled.n_spills, "threads": 32 * compiled.metadata.num_warps}
    return found


class Ablation:
    """One run over variants and cells."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder, self.start = options, folder, time.monotonic()
        self.record: dict[str, Any] = {"meta": machine(options.device), "rows": []}
        self.data: dict[str, tuple[Data, int]] = {}

    def data_of(self, cell: Cell, sets: int = 0) -> tuple[Data, int]:
        """Return a cell's data and its sets; made once, since all variants read the same."""
        if str(cell) not in self.data:
            on_cpu = self.options.device == "cpu"
            count = sets or (1 if on_cpu else sets_for(cell.kv_bytes, l2_bytes(), most=16))
            self.data[str(cell)] = (data_for(small(cell) if on_cpu else cell, self.options.device, count), count)
        return self.data[str(cell)]

    def cells_of(self, variant: Variant) -> list[Cell]:
        """Return a variant's cells; for the interpreter, one of each kind of heads and context."""
        if self.options.device == "cuda":
            return list(variant.cells)
        return list({str(small(cell)): cell for cell in variant.cells}.values())

    def rows_of(self, variant: Variant) -> list[dict[str, Any]]:
        """Return a row for each cell of a variant: its time, or why there is none."""
        about = {"module": variant.module, "group": variant.group, "name": variant.name, "base": variant.base}
        try:
            kernels = kernels_of(variant, self.folder)
        except Exception as error:  # noqa: BLE001 - a refused edit is a row, and the exit status
            return [{**about, "refused": said(error)}]
        make = ours.decode_triton if variant.module == ours.DECODE else ours.prefill_triton
        rows = []
        known: set[int] = set()
        for cell in self.cells_of(variant):
            if time.monotonic() - self.start > self.options.seconds:
                rows.append({**about, "cell": str(cell), "failed": "out of time"})
                continue
            data, sets = self.data_of(cell)
            contender = make(kernels, variant.name)
            on_cpu = self.options.device == "cpu"
            found = verdict(contender, data) if on_cpu else timed(contender, data, sets, "cuda", BUDGET_MS)
            rows.append({**about, "cell": str(cell), **found, **resources(kernels, variant.module, known)})
        return rows

    def run(self) -> None:
        """Measure every variant, and compare it with its base."""
        for variant in chosen(self.options.only):
            rows = self.rows_of(variant)
            self.record["rows"] += rows
            shown = ", ".join(str(row.get("us") or row.get("failed") or row.get("refused") or "right") for row in rows)
            passed = time.monotonic() - self.start
            print(f"{passed:6.1f} s  {variant.module} {variant.name}: {shown}", file=sys.stderr, flush=True)
            self.save()

    def compile_share(self, share: str) -> None:
        """Call the kernels of this share of the variants once, so that Triton's cache on disk is filled."""
        index, count = map(int, share.split("/"))
        for variant in chosen(self.options.only)[index::count]:
            with contextlib.suppress(Exception):  # the measuring process says what fails
                kernels = kernels_of(variant, self.folder)
                make = ours.decode_triton if variant.module == ours.DECODE else ours.prefill_triton
                for cell in variant.cells:
                    with contextlib.suppress(Exception):  # the same
                        make(kernels).prepare(self.data_of(cell, 1)[0])(0)

    def save(self) -> None:
        """Write what is known so far."""
        self.record["meta"]["seconds"] = round(time.monotonic() - self.start, 1)
        if self.options.out:
            self.options.out.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")


def table(record: dict[str, Any]) -> str:
    """Return every variant's factor over its base, a column for each cell."""
    base = {(row["module"], row["name"], row.get("cell")): row["us"] for row in record["rows"] if "us" in row}
    names = list(dict.fromkeys(row["cell"] for row in record["rows"] if "cell" in row))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in record["rows"]:
        line = lines.setdefault((row["module"], row["group"], row["name"], row["base"]), {})
        against = base.get((row["module"], row["base"], row.get("cell")))
        if "us" in row and against:
            line[row["cell"]] = f"{row['us'] / against:.2f}"
        elif "cell" in row:
            line[row["cell"]] = "right" if row.get("ok") else "failed"
    return report.table(
        ("variant", "against", *names),
        [
            [f"{group}: {name}", base_name, *(line.get(c, report.NONE) for c in names)]
            for (_, group, name, base_name), line in lines.items()
        ],
    )


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table; 2 without a device, 1 where an edit was refused or a variant is wrong."""
    options = arguments(given)
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if (options.device == "cuda" and not torch.cuda.is_available()) or (options.device == "cpu" and not interpreted):
        print("There is no CUDA device here. TRITON_INTERPRET=1 and --device cpu try the variants.", file=sys.stderr)
        return NO_DEVICE
    with tempfile.TemporaryDirectory() as folder:
        if options.warm and not options.compile:
            compile_in_processes(__file__, list(sys.argv[1:] if given is None else given), options.warm)
        ablation = Ablation(options, Path(folder))
        if options.compile:
            ablation.compile_share(options.compile)
            return 0
        ablation.run()
    print(table(ablation.record))
    bad = [row for row in ablation.record["rows"] if "refused" in row or "wrong" in row.get("failed", "")]
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
