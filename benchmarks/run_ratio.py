"""How long a run takes, as a ratio: `run(plan, tree)` over libcst reading and printing the files that it edits.

Both sides are measured in this process, in turn, after a warm-up; fresh caches for every run. The run goes from
bytes in memory to verdicts: edits, checks and house rules, without YAML, imports, emit and the making of the base.

    python benchmarks/run_ratio.py [--rounds 15] [--limit 0.5] [--tree vllm=DIR]
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import libcst

from orchestrator.cli.options import Request
from orchestrator.cli.steps import base_of, lock_of, make_plan_for
from orchestrator.core.tree import Tree
from orchestrator.engine.run import run

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]


def seconds(function: Callable[[], object]) -> float:
    """Return how long one call takes, without a collection of garbage that others left."""
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def forget() -> None:
    """Clear every cache of the program, so that no run has what another one found."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "orchestrator":
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):  # noqa: SLF001 - the type has no public name
                    value.cache_clear()


def main() -> int:
    """Print the medians and their ratio; 1 if it is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=0.5)
    parser.add_argument("--tree", action="append", default=[])
    options = parser.parse_args()

    request = Request(workspace=ROOT, trees=tuple(options.tree), command="bench")
    plan = make_plan_for(request)
    base = dict(base_of(plan, request).tree)
    lock = lock_of(request)
    edited = sorted({edit.edit.file for stage in plan.stages for edit in stage.edits})
    finished = run(plan, Tree(base), lock)
    assert not finished.failed, finished.diagnostics

    def ours() -> object:
        return run(plan, Tree(base), lock)

    def theirs() -> object:
        return [libcst.parse_module(base[path]).bytes for path in edited]

    for warm_up in (ours, theirs):
        warm_up()
    pairs = []
    for _ in range(options.rounds):
        forget()
        pairs.append((seconds(ours), seconds(theirs)))
    run_s, libcst_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    result = {
        "run_ms": round(run_s * 1e3, 1),
        "libcst_ms": round(libcst_s * 1e3, 1),
        "ratio": round(ratio, 3),
        "ratio_min": round(min(a / b for a, b in pairs), 3),
        "ratio_max": round(max(a / b for a, b in pairs), 3),
        "rounds": options.rounds,
        "files": edited,
        "limit": options.limit,
    }
    print(json.dumps(result, indent=2))
    return int(ratio > options.limit)


if __name__ == "__main__":
    raise SystemExit(main())
