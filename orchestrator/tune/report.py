"""What a search found, as records; people read tables that are made from these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.tune import judge
from orchestrator.tune.study import RAN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.tune.bench import Timed
    from orchestrator.tune.search import Search

SHOWN = 10


def records(search: Search) -> Iterator[dict[str, Any]]:
    """Yield the space with its rejections, and the best configurations."""
    space, study = search.space, search.study
    passing, rejected = judge.counted(space, search.figures, preferred=search.preferred)
    trials = study.trials()
    stages: dict[str, int] = {}
    for trial in trials:
        stages[trial.stage] = stages.get(trial.stage, 0) + 1
    yield {
        "event": "space",
        "operation": space.operation,
        "device": space.device,
        "study": study.study.study_name,
        "tiles": sum(not isinstance(entry, int) for entry in space.rows),
        "rejected": dict(sorted(rejected.items())),
        "passing": len(passing),
        "not_judged_by": judge.missing(search.figures),
        "compilers": [
            f"Triton {search.compilers.pythons[major][1]} sm_{number}" for major, number in search.compilers.used
        ],
        "disagreements": len(search.disagreements),
        "trials": stages,
        "exhausted": search.exhausted,
        "timed_on": search.bench.machine["device"] if search.bench else None,
    }
    ran = sorted((t for t in trials if t.stage == RAN and t.value is not None), key=lambda t: (t.value, t.number))
    own = search.space.key({name: space.base.choice[name] for name in study.values})
    for trial in ran[:SHOWN] + [t for t in ran[SHOWN:] if space.key(t.choice) == own]:
        keys = ("shared", "registers", "spilled", "us", "base_us")
        about = {name: trial.about[name] for name in keys if name in trial.about}
        row = {"event": "row", "basis": "measured" if search.bench else "derived", "trial": trial.number}
        yield {**row, "table": space.key(trial.choice) == own, "value": trial.value, "choice": trial.choice, **about}


def evidence(search: Search, timed: Timed, shapes: Sequence[str], date: str) -> str:
    """Return how a row's worth is known: device, versions, study, figures, day."""
    machine = search.bench.machine if search.bench else {}
    pairs = zip(shapes, timed.us, timed.base_us, strict=True)
    figures = ", ".join(f"{shape} {us:.4g} us ({base:.4g})" for shape, us, base in pairs)
    return (
        f"measured {date} on one {machine.get('device')}, Triton {machine.get('triton')}, study "
        f"{search.study.study.study_name}: {timed.ratio:.3f} of the time of the row before it (in brackets), geometric "
        f"mean; {figures}; right against float64"
    )


def reason(search: Search, choice: Mapping[str, Any]) -> str:
    """Return what led to a row: what it changed, among how many."""
    ran = sum(trial.stage == RAN for trial in search.study.trials())
    base = search.space.base.choice
    changed = ", ".join(f"{name} {base[name]} to {value}" for name, value in choice.items() if base[name] != value)
    return f"the fastest of {ran} configurations that orchestrator tune timed: {changed}"


def sentence(search: Search) -> str:
    """Return what the figures are worth."""
    if search.bench is not None:
        return f"Timed on {search.bench.machine['device']}; 1.000 is the time of the table's row."
    return (
        "Nothing was timed: these rows are only derived, ranked by the model (bytes or rows that a multiprocessor "
        "works on), compiled but never run. The table keeps its row."
    )
