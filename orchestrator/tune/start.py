"""A search made ready: the space is read, the device's bounds, the compilers, the bench and the study are there."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Diagnostic, Rejected
from orchestrator.core.digest import digest
from orchestrator.device.quantity import Known, figure, figures_of
from orchestrator.tune import judge
from orchestrator.tune.bench import Bench
from orchestrator.tune.compilers import OLD_TRITON, Compilers, absent, interpreters
from orchestrator.tune.search import Budget, Search
from orchestrator.tune.space import COMPILE, MEASURE, SPACE, names_of, space_of
from orchestrator.tune.study import Study

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from orchestrator.device.quantity import Figures
    from orchestrator.spec.target import Target
    from orchestrator.tune.space import Space


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for. Empty and zero stand for what the target or the space says.

    A shape is a batch and the tokens in the cache of each sequence, `new` what prefill adds to each.
    """

    root: Path
    target: Target
    operation: str
    dtype: str = "float16"
    head_size: int = 0
    heads: str = ""
    shapes: tuple[tuple[int, int], ...] = ()
    new: int = 1
    study: str = ""
    storage: str = ""
    trials: int = 0
    seconds: float = 0.0
    seed: int = 0
    jobs: int = 0
    limit: float = 60.0
    pythons: tuple[str, ...] = ()
    preferred: bool = False
    timed: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)


def prepared(wanted: Wanted, cache: Path, progress: Callable[[int, str], None]) -> tuple[Search, str, list[Diagnostic]]:
    """Return the search, why nothing is timed (or nothing), and warnings; raise `Rejected` for what it cannot be."""
    figures = figures_of(wanted.target)
    environment = {**wanted.environment, "TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1"}
    query, kv = heads_of(wanted.heads, figures)
    size = wanted.head_size or _known(figures, "model.head_dim", "--head-size")
    operation = names_of(wanted.root, wanted.operation, wanted.dtype, environment)
    reported = str(_word(wanted.target, "name") or wanted.target.name)
    question = {"operation": operation, "device": wanted.target.name, "reported": reported, "dtype": wanted.dtype,
                "head_size": size, "group": query // kv,
                "shared": _known(figures, judge.LIMIT, "a --device")}  # fmt: skip
    space = space_of(wanted.root, question, environment)
    found = interpreters(wanted.pythons or (sys.executable, str(wanted.root / OLD_TRITON)), environment)
    warnings = absent(space, found)
    new = wanted.new if any(shape[2] > 1 for shape in space.shapes) else 1
    shapes = tuple((*shape, new) for shape in wanted.shapes) or space.shapes
    if new == 1 and not all(tokens for _, tokens, _ in shapes):
        raise Rejected(Diagnostic("E902", "decode with nothing in the cache", help="Give --length above 0."))
    asked = {"operation": operation, "name": reported, "dtype": wanted.dtype, "query_heads": query, "kv_heads": kv,
             "head_size": size, "shapes": shapes}  # fmt: skip
    jobs = wanted.jobs or max(1, min(8, os.cpu_count() or 1))
    bench: Bench | str = "--no-timing was given"
    if wanted.timed:
        bench = Bench.started(wanted.root, asked, space.base.fields, jobs, wanted.limit, environment)
    why = bench if isinstance(bench, str) else ""
    timer = None if isinstance(bench, str) else bench
    try:
        study = _study(wanted, space, asked, timer, cache, sorted(version for _, version in found.values()))
        compilers = Compilers(wanted.root, space, query // kv, size, wanted.limit, environment, found)
        budget = Budget(wanted.trials or sys.maxsize, wanted.seconds or float("inf"))
        search = Search(question, space, figures, compilers, study, timer, budget, jobs, time.monotonic, progress,
                        wanted.preferred, wanted.seed)  # fmt: skip
    except BaseException:
        if timer is not None:
            timer.close()
        raise
    return search, why, warnings


def _study(  # noqa: PLR0913, PLR0917 - all that the values of a study depend on
    wanted: Wanted, space: Space, asked: Mapping[str, Any], bench: Bench | None, cache: Path, tritons: list[str]
) -> Study:
    """Return the study; its identity is everything without which its values could not be compared."""
    basis = "measured" if bench else "derived"
    name = wanted.study or f"{space.operation}-{space.device}-{wanted.dtype}-{asked['head_size']}-{basis}"
    values = {**space.tiles, **(space.rules if bench else {})}
    programs = [(wanted.root / path).read_bytes() for path in (SPACE, COMPILE, MEASURE)]
    identity = {
        **{key: value for key, value in asked.items() if bench or key != "shapes"},
        "basis": basis,
        "row of the table": {
            key: value for key, value in space.base.fields.items() if key not in {"reason", "evidence"}
        },
        "values": values,
        "Triton": tritons,
        "programs": digest(b"".join(programs)),
        "machine": dict(bench.machine) if bench else {},
    }
    return Study.opened(wanted.storage or default_storage(cache), name, values, identity, wanted.seed)


def default_storage(cache: Path) -> str:
    """Return the address of the storage in the cache, whose folder is made.

    Raises:
        Rejected: The folder cannot be made (E905).
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the folder {cache} for studies cannot be made: {error.strerror}"
        raise Rejected(Diagnostic("E905", message, help="Name another place with --storage.")) from None
    return f"sqlite:///{cache / 'tune.sqlite'}"


def heads_of(given: str, figures: Figures) -> tuple[int, int]:
    """Return query heads and KV heads: those given as `16/2`, else those of one rank of the target's model."""
    if not given:
        names = ("model.query_heads_per_rank", "model.kv_heads_per_rank")
        return _known(figures, names[0], "--heads"), _known(figures, names[1], "--heads")
    query, _, kv = given.partition("/")
    numbers = [int(word) if word.isdecimal() else 0 for word in (query, kv)]
    if min(numbers) < 1 or numbers[0] % numbers[1]:
        message = f"--heads {given} is not QUERY/KV, query heads that can be divided among KV heads"
        raise Rejected(Diagnostic("E902", message, help="For example --heads 16/2."))
    return numbers[0], numbers[1]


def _known(figures: Figures, name: str, option: str) -> int:
    found = figure(figures, name)
    if isinstance(found, Known):
        return int(found.value)
    raise Rejected(Diagnostic("E902", f"the target does not know `{name}`", help=f"Give {option}."))


def _word(target: Target, name: str) -> object:
    entry = target.device.get(name)
    return getattr(entry, "value", entry)
