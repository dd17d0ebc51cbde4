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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import libcst

from orchestrator.cli.options import Request
from orchestrator.cli.steps import base_of, lock_of, make_plan_for
from orchestrator.core.tree import Tree
from orchestrator.engine.run import run
from orchestrator.engine.wheels import with_wheels

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.engine.lock import Lock
    from orchestrator.engine.plan import Plan, PlannedStage

ROOT = Path(__file__).parents[1]
SIX = {
    "baseline-patch-ops",
    "triton-tuning-edited",
    "triton-enable",
    "v2-kernel-deploy",
    "decode-threshold",
    "run-config-render",
}
"""The main job. The whole pipeline is measured beside it."""


def seconds(function: Callable[[], object]) -> float:
    """Return how long one call takes, without a collection of garbage that others left."""
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alone(planned: PlannedStage) -> PlannedStage:
    """Return a stage of the six as it is without the others: switched on, and needing none of them."""
    needs = [need for need in planned.stage.needs if need in SIX]
    return replace(planned, stage=planned.stage.model_copy(update={"enabled": True, "needs": needs}))


def forget() -> None:
    """Clear every cache of the program, so that no run has what another one found."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "orchestrator":
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):  # noqa: SLF001 - the type has no public name
                    value.cache_clear()


def measured(plan: Plan, base: dict[str, bytes], lock: Lock | None, rounds: int) -> dict[str, float]:
    """Return the medians of a run and of libcst over the vendor files that the plan's stages edit, and their ratio."""
    finished = run(plan, Tree(base), lock)
    assert not finished.failed, finished.diagnostics
    original = dict(finished.installed)
    edited = sorted({e.edit.file for stage in plan.stages for e in stage.edits if e.edit.file in original})

    def ours() -> object:
        return run(plan, Tree(base), lock)

    def theirs() -> object:
        return [libcst.parse_module(original[path]).bytes for path in edited]

    for warm_up in (ours, theirs):
        warm_up()
    pairs = []
    for _ in range(rounds):
        forget()
        pairs.append((seconds(ours), seconds(theirs)))
    run_s, libcst_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = [a / b for a, b in pairs]
    return {
        "stages": len(plan.stages),
        "files": len(edited),
        "run_ms": round(run_s * 1e3, 1),
        "libcst_ms": round(libcst_s * 1e3, 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
    }


def main() -> int:
    """Print both measurements; 1 if the ratio of the six stages is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=0.5)
    parser.add_argument("--tree", action="append", default=[])
    options = parser.parse_args()

    request = Request(workspace=ROOT, trees=tuple(options.tree), command="bench")
    plan = make_plan_for(request)
    found = base_of(plan, request)
    plan, base = with_wheels(plan, found.wheels), dict(found.tree)
    six = replace(plan, stages=tuple(alone(stage) for stage in plan.stages if stage.id in SIX))
    results = {
        "six stages": measured(six, base, lock_of(request), options.rounds),
        "all stages": measured(plan, base, lock_of(request), options.rounds),
    }
    print(json.dumps({**results, "rounds": options.rounds, "limit of the six": options.limit}, indent=2))
    return int(results["six stages"]["ratio"] > options.limit)


if __name__ == "__main__":
    raise SystemExit(main())
