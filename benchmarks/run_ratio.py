"""How long a run takes, as a ratio: `run(plan, tree)` over libcst reading and printing the files that it edits.

Both sides are measured in this process, in turn, after a warm-up; fresh caches for every run. The run goes from
bytes in memory to verdicts: edits, checks and house rules, without YAML, imports, emit and the making of the base.

    python benchmarks/run_ratio.py [--rounds 15] [--limit 0.5] [--tree vllm=DIR]
    python benchmarks/run_ratio.py --rules [--large FOLDER FILE FUNCTION]

With `--rules` it prints what each house rule costs instead, in processor time: in the run, and with `--large` over a
whole tree of packages in which one function takes one argument more than its callers pass.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import json
import statistics
import sys
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import libcst

from orchestrator.checks import house
from orchestrator.checks.view import View
from orchestrator.cli.options import Request
from orchestrator.cli.steps import base_of, lock_of, make_plan_for
from orchestrator.core.tree import Tree
from orchestrator.engine.run import run
from orchestrator.engine.wheels import with_wheels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchestrator.checks.house.world import World
    from orchestrator.core.diagnostics import Diagnostic
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


def costs(judged: Callable[[], object], rounds: int) -> dict[str, float]:
    """Return the median of the milliseconds of processor time that each rule takes while `judged` runs, by code.

    What several rules need is found once, and counts for the first of them.
    """
    plain = house.RULES
    taken: dict[str, list[float]] = {rule.code: [] for rule in plain}

    def timed(rule: house.HouseRule) -> house.HouseRule:
        def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
            start = time.process_time()
            found = list(rule.judge(world, touched))
            taken[rule.code].append(time.process_time() - start)
            return iter(found)

        return replace(rule, judge=judge)

    house.RULES = tuple(map(timed, plain))
    try:
        for _ in range(rounds):
            forget()
            gc.collect()
            judged()
    finally:
        house.RULES = plain
    return {code: statistics.median(several) * 1e3 for code, several in taken.items()}


def with_one_change(folder: Path, file: str, function: str) -> tuple[Tree, Tree]:
    """Return the Python files of a folder, and the same with a function that takes one argument more."""
    base = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.py")) if p.is_file()}
    text = base[file].decode()
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == function)
    lines = text.splitlines(keepends=True)
    head = lines[node.lineno - 1]
    lines[node.lineno - 1] = head.replace(f"def {function}(", f"def {function}(one_more, ", 1)
    return Tree(base), Tree({**base, file: "".join(lines).encode()})


def table(title: str, by_rule: dict[str, float], note: str) -> str:
    """Return what each rule costs as a table in Markdown."""
    total = sum(by_rule.values())
    titles = {rule.code: rule.title for rule in house.RULES}
    rows = [f"| {code} | {titles[code]} | {ms:.1f} | {ms / total:.0%} |" for code, ms in by_rule.items()]
    head = ["| code | rule | ms | share |", "| --- | --- | ---: | ---: |"]
    return "\n".join([f"{title}: {total:.1f} ms. {note}".rstrip(), "", *head, *rows, ""])


def over_large(folder: str, file: str, function: str, rounds: int) -> str:
    """Return the table for a whole tree in which one function changed, with the peak of memory."""
    base, changed = with_one_change(Path(folder), file, function)

    def judged() -> tuple[Diagnostic, ...]:
        return house.judge_house_rules(View(changed, base), frozenset({file}))

    by_rule = costs(judged, rounds)
    forget()
    tracemalloc.start()
    found = judged()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = sum(len(raw) for raw in base.values())
    title = f"{len(base)} files, {size / 1e6:.1f} MB, `{function}` of `{file}` changed"
    return table(title, by_rule, f"Peak of memory {peak / 1e6:.0f} MB, {len(found)} findings.")


def print_rules(plan: Plan, six: Plan, base: dict[str, bytes], lock: Lock | None, options: argparse.Namespace) -> None:
    """Print what each rule costs."""
    for name, each in (("six stages", six), ("all stages", plan)):
        print(table(name, costs(functools.partial(run, each, Tree(base), lock), options.rounds), ""))
    for folder, file, function in options.large:
        print(over_large(folder, file, function, min(options.rounds, 3)))


def main() -> int:
    """Print both measurements; 1 if the ratio of the six stages is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=0.5)
    parser.add_argument("--tree", action="append", default=[])
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--large", nargs=3, action="append", default=[], metavar=("FOLDER", "FILE", "FUNCTION"))
    options = parser.parse_args()

    request = Request(workspace=ROOT, trees=tuple(options.tree), command="bench")
    plan = make_plan_for(request)
    found = base_of(plan, request)
    plan, base = with_wheels(plan, found.wheels), dict(found.tree)
    six = replace(plan, stages=tuple(alone(stage) for stage in plan.stages if stage.id in SIX))
    if options.rules:
        print_rules(plan, six, base, lock_of(request), options)
        return 0
    results = {
        "six stages": measured(six, base, lock_of(request), options.rounds),
        "all stages": measured(plan, base, lock_of(request), options.rounds),
    }
    print(json.dumps({**results, "rounds": options.rounds, "limit of the six": options.limit}, indent=2))
    return int(results["six stages"]["ratio"] > options.limit)


if __name__ == "__main__":
    raise SystemExit(main())
