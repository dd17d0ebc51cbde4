"""Whether rows of the table are right, and how fast: one process that answers until its input ends.

    python benchmarks/tune/measure.py FOLDER

uses the kernels of `FOLDER/kernels`. Requests and answers are JSON objects, one a line. The first request says what is
measured; the answer names the device, or says why there is nothing to measure with:

    {"dtype": "float16", "query_heads": 16, "kv_heads": 2, "head_size": 256, "operation": …, "shapes": [[1, 8192, 1]]}
    {"check": FIELDS}          {"ok": true, "error": 0.0003} or {"failed": "…"}
    {"time": [FIELDS, …]}      {"us": [[…], …]}, for each row its time at each shape

A row is checked against float64 on ragged data with NaN in unused slots, and on each shape. Times are those of graphs
that are replayed in turn, over copies of the data that exceed the L2 several times.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch

    from benchmarks.paged.cells import Cell

MOST_SETS = 16
PREFILL_SETS = 4
"""Prefill is bound by arithmetic: few sets are enough."""
ROUNDS = 7
ERROR_LENGTH = 300


class Bench:
    """The data of all shapes on the device, and the kernels with one row of their table exchanged at a time."""

    def __init__(self, asked: Mapping[str, Any], device: str = "cuda") -> None:
        import torch  # noqa: PLC0415 - it takes seconds, and may not be there

        from benchmarks.paged import cells, data, machine, ours  # noqa: PLC0415 - the same

        self.device = device
        heads = cells.Heads(asked["query_heads"], asked["kv_heads"], asked["head_size"])
        self.decode = asked["operation"] == "paged_decode_v2"
        self.module = ours.AS_THEY_ARE.module(ours.DECODE if self.decode else ours.PREFILL)
        self.make: Callable[..., Callable[[int], torch.Tensor]] = ours.decode_call if self.decode else ours.prefill_call
        self.shapes: list[Cell] = [
            cells.Decode(heads, batch, length) if self.decode else cells.Prefill(heads, batch, length, new)
            for batch, length, new in asked["shapes"]
        ]
        most = MOST_SETS if self.decode else PREFILL_SETS
        on_cpu = device == "cpu"
        self.sets = [
            1 if on_cpu else data.sets_for(cell.kv_bytes, machine.l2_bytes(), most=most) for cell in self.shapes
        ]
        self.kept: dict[int, data.Data] = {}
        self.dtype = getattr(torch, asked["dtype"])
        self.small = data.small_data("decode" if self.decode else "prefill", heads, device, dtype=self.dtype)
        self.library = data
        self.row: Mapping[str, Any] = {}

    def data_of(self, index: int) -> Any:  # noqa: ANN401 - of the benchmarks' own types
        """Return the data of a shape, made when first asked for."""
        if index not in self.kept:
            self.kept[index] = self.library.data_for(self.shapes[index], self.device, self.sets[index], self.dtype)
        return self.kept[index]

    def use(self, fields: Mapping[str, Any]) -> None:
        """Put a row into the table, and forget what was planned with another."""
        from kernels import muh_dispatch  # noqa: PLC0415 - from the folder that the command line names

        if fields is self.row:
            return
        row: Any = (muh_dispatch.DecodeConfig if self.decode else muh_dispatch.PrefillConfig)(**fields)
        rows: Any = muh_dispatch.DECODE if self.decode else muh_dispatch.PREFILL
        rows[row.key] = row
        (self.module._plan if self.decode else self.module.config_for).cache_clear()  # noqa: SLF001 - the plans in use
        self.row = fields

    def check(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return whether a row gives the right answers."""
        from benchmarks.paged.contender import TOLERANCE  # noqa: PLC0415 - it imports PyTorch

        self.use(fields)
        worst = 0.0
        for data in (self.small, *map(self.data_of, range(len(self.shapes)))):
            found = self.library.error_of(self.make(data, self.module)(0), data)
            if not found < TOLERANCE:  # NaN is wrong, too
                return {"failed": f"wrong: relative error {found:.2g} against float64"}
            worst = max(worst, found)
        return {"ok": True, "error": float(f"{worst:.2g}")}

    def time(self, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the microseconds of each row at each shape."""
        from benchmarks.paged.clock import interleaved  # noqa: PLC0415 - it imports PyTorch

        columns = []
        for index, sets in enumerate(self.sets):
            call = self.make(self.data_of(index), self.module)
            columns.append(
                interleaved([self.with_row(fields, call) for fields in rows], sets, ROUNDS, device=self.device)
            )
        return {"us": [[float(f"{us:.5g}") for us in row] for row in zip(*columns, strict=True)]}

    def with_row(self, fields: Mapping[str, Any], call: Callable[[int], object]) -> Callable[[int], object]:
        """Return a call that is made with its own row in the table."""

        def own(index: int) -> object:
            self.use(fields)
            return call(index)

        return own


def bench_of(asked: Mapping[str, Any]) -> tuple[Bench | None, dict[str, Any]]:
    """Return the bench and what it runs on, or None and why there is none."""
    try:
        import torch  # noqa: PLC0415 - it may not be there
        import triton  # noqa: PLC0415 - the same
    except ImportError as error:
        return None, {"absent": f"{error.name} cannot be imported"}
    if not torch.cuda.is_available():
        return None, {"absent": "there is no CUDA device"}
    name = torch.cuda.get_device_properties(0).name
    if asked.get("name") and asked["name"].lower() not in name.lower() and name.lower() not in asked["name"].lower():
        return None, {"absent": f"the device here is an {name}, not the target's {asked['name']}"}
    if asked["dtype"] == "float32":
        return None, {"absent": "float32 is not timed: the inputs are made in half precision"}
    return Bench(asked), {"device": name, "torch": torch.__version__, "triton": triton.__version__}


def answers(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield an answer for each request. What breaks a CUDA context ends the process: no later answer could be right."""
    import itertools  # noqa: PLC0415 - beside its only use

    bench = None
    for number, line in zip(itertools.count(), lines):
        request = json.loads(line)
        if not number:
            bench, found = bench_of(request)
            yield found
            continue
        if bench is None:
            raise SystemExit(1)
        try:
            yield bench.check(request["check"]) if "check" in request else bench.time(request["time"])
        except Exception as error:  # noqa: BLE001 - a row that breaks is an answer
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:ERROR_LENGTH]}"
            fatal = "CUDA" in said or "cuda" in type(error).__module__
            yield {"failed": said, "fatal": fatal}
            if fatal:
                raise SystemExit(1) from None


def main(folder: str) -> None:
    """Answer until the input ends."""
    sys.path[:0] = [folder, str(Path(__file__).parents[2])]
    out, sys.stdout = sys.stdout, sys.stderr  # what compilers print is no answer
    for found in answers(iter(sys.stdin)):
        out.write(json.dumps(found) + "\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
