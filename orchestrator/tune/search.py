"""The search: ask for configurations, filter, compile, check, time, tell; until the budget or the space is used up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.tune import judge
from orchestrator.tune.bench import Timed
from orchestrator.tune.compilers import disagreement
from orchestrator.tune.space import Row
from orchestrator.tune.study import COMPILER, FAILED, FILTERED, RAN, shuffled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.device.quantity import Figures
    from orchestrator.tune.bench import Bench
    from orchestrator.tune.compilers import Compilers, Made
    from orchestrator.tune.space import Choice, Space
    from orchestrator.tune.study import Asked, Study

IDLE_ASKS = 12
"""After so many configurations in a row that are known already, those that are left are taken in a random order."""
MOST_RULES = 4096
"""Combinations of rules that are looked through for each tile that is left."""
CONFIRMED = 3
"""The best so many are timed once more, together: of many that are as fast, the luckiest looks best."""


@dataclass(frozen=True)
class Budget:
    """When the search ends: configurations of the study that came through the filters, and seconds of this process."""

    trials: int
    seconds: float


@dataclass
class Search:
    """All that one process searches with: what the space was asked, and so on; without a `bench` nothing is timed."""

    question: Mapping[str, Any]
    space: Space
    figures: Figures
    compilers: Compilers
    study: Study
    bench: Bench | None
    budget: Budget
    jobs: int
    now: Callable[[], float]
    progress: Callable[[int, str], None]
    preferred: bool = False
    seed: int = 0
    disagreements: dict[str, Diagnostic] = field(default_factory=dict)
    exhausted: bool = False
    best: float = math.inf

    def run(self) -> None:
        """Search until the budget or the space is used up; what is unfinished when it is interrupted is given back."""
        end = self.now() + self.budget.seconds
        try:
            self.study.take_back()
            if not self.study.taken():
                self._evaluated([asked for asked in [self._asked(self._own())] if asked])
            while self.study.tried() < self.budget.trials and self.now() < end and not self.exhausted:
                self._evaluated(self._batch())
                self.study.take_back()
        finally:
            self.study.release()

    def close(self) -> None:
        """End the processes that time; what the study holds can still be asked for."""
        if self.bench is not None:
            self.bench.close()

    def _own(self) -> Choice:
        """Return the table's own choice, which is tried first: everything else is compared with it."""
        return {name: self.space.base.choice[name] for name in self.study.values}

    def _is_own(self, choice: Choice) -> bool:
        return self.space.key(choice) == self.space.key(self._own())

    def _asked(self, fixed: Choice | None = None) -> Asked | None:
        return self.study.ask(self.space.key, fixed)

    def _batch(self) -> list[Asked]:
        """Return configurations that pass the model, one for each job; without times nothing is learnt from others."""
        wanted = min(self.jobs, self.budget.trials - self.study.tried())
        batch: list[Asked] = []
        idle = 0
        while self.bench is not None and len(batch) < wanted and idle < IDLE_ASKS:
            asked = self._asked()
            if asked is not None and self._passes(asked):
                batch.append(asked)
                idle = 0
            else:
                idle += 1
        left = self._left() if len(batch) < wanted else iter(())
        while len(batch) < wanted:
            choice = next(left, None)
            if choice is None:
                self.exhausted = not batch
                break
            asked = self._asked(choice)
            batch += [asked] if asked is not None and self._passes(asked) else []
        return batch

    def _passes(self, asked: Asked) -> bool:
        """Tell whether the model lets a configuration through; keep why it does not."""
        entry = self.space.rows[self.space.at(asked.choice)]
        if isinstance(entry, int) or self._is_own(asked.choice):
            return True
        wrong = judge.misfit(entry, self.figures, preferred=self.preferred)
        if wrong is None and isinstance(entry, Row) and "resident" in asked.choice:
            wrong = judge.held_too_many(self.space, entry, int(asked.choice["resident"]), self.figures)
        if wrong is not None:
            self.study.tell(asked, FILTERED, reason=f"{wrong.bound}: {wrong.reason}")
        return wrong is None

    def _left(self) -> Iterator[Choice]:
        """Yield what passes the model and was not tried, by rank where nothing is timed, else as the seed decides."""
        taken = set(self.study.taken())
        passing, _ = judge.counted(self.space, self.figures, preferred=self.preferred)
        rules = {name: values for name, values in self.space.rules.items() if name in self.study.values}
        combinations = math.prod(len(values) for values in rules.values())
        rows = [entry for number in passing if isinstance(entry := self.space.rows[number], Row)]
        if self.bench is None:
            rows.sort(key=lambda row: judge.derived(self.space, row, self.figures))
        else:
            rows = [rows[place] for place in shuffled(self.seed, len(rows))]
        for rule in shuffled(self.seed, combinations)[:MOST_RULES]:
            for entry in rows:
                choice = {**entry.choice, **_combination(rules, rule)}
                if self.space.key(choice) not in taken:
                    yield choice

    def row_of(self, choice: Choice) -> tuple[Row, dict[str, object]]:
        """Return the row of a choice's tiles, and all its fields with the chosen rules."""
        entry = self.space.base if self._is_own(choice) else self.space.rows[self.space.at(choice)]
        if not isinstance(entry, Row):
            raise TypeError("only what passed has a row")
        rules = {name: choice[name] for name in self.space.rules if name in choice}
        return entry, {**entry.fields, **rules}

    def _evaluated(self, batch: list[Asked]) -> None:
        """Compile, check and time a batch, and keep what comes out."""
        self.study.alive()
        self.compilers.compiled([self.space.at(asked.choice) for asked in batch], self.jobs)
        self.study.alive()
        ready = [(asked, made) for asked in batch if (made := self._compiled(asked)) is not None]
        if self.bench is None:
            for asked, made in ready:
                row, _ = self.row_of(asked.choice)
                value = judge.derived(self.space, row, self.figures, made.registers)
                self._told(asked, value, shared=made.shared, registers=made.registers, spilled=made.spilled)
            return
        fields = [self._fields(asked.choice, made.spilled) for asked, made in ready]
        wrong = self.bench.checked(fields)
        for (asked, _), reason in zip(ready, wrong, strict=True):
            if reason:
                self.study.tell(asked, FAILED, reason=reason)
        right = [(pair, row) for pair, row, reason in zip(ready, fields, wrong, strict=True) if not reason]
        self.study.alive()
        for ((asked, made), _), timed in zip(right, self.bench.timed([row for _, row in right]), strict=True):
            if isinstance(timed, str):
                self.study.tell(asked, FAILED, reason=timed)
            else:
                self._told(asked, timed.ratio, us=timed.us, base_us=timed.base_us, shared=made.shared,
                           registers=made.registers, spilled=made.spilled)  # fmt: skip

    def _fields(self, choice: Choice, spilled: int) -> dict[str, object]:
        """Return a row's fields as they are timed: it may spill what its compilers make it, or the table's row does."""
        return {**self.row_of(choice)[1], "spilled": max(spilled, self._base_spilled)}

    @property
    def _base_spilled(self) -> int:
        return int(self.space.base.fields["spilled"])

    def _compiled(self, asked: Asked) -> Made | None:
        """Return what the compilers made of a configuration, None (and keep why) where it is of no use."""
        row, _ = self.row_of(asked.choice)
        made = self.compilers.made[self.space.at(asked.choice)]
        found = disagreement(row, made)
        if found is not None:
            self.disagreements[found.message] = found
        reason = made.death
        if not reason and made.shared > self.space.limit:
            reason = f"{made.shared} B of shared memory, the table's limit is {self.space.limit} B"
        is_worse = made.spilled > self._base_spilled
        if not reason and is_worse and self.bench is None and not self._is_own(asked.choice):
            reason = f"{made.spilled} B of registers spilled, and nothing here can tell whether that is worth it"
        if reason:
            self.study.tell(asked, COMPILER, reason=reason, shared=made.shared, spilled=made.spilled)
            self.progress(self.study.tried(), self._shown())
        return None if reason else made

    def _told(self, asked: Asked, value: float, **about: object) -> None:
        self.study.tell(asked, RAN, value, **about)
        self.best = min(self.best, value)
        self.progress(self.study.tried(), self._shown())

    def _shown(self) -> str:
        return f"best {self.best:.3f} of the table's time" if self.bench and math.isfinite(self.best) else ""

    def confirmed(self) -> tuple[Choice, dict[str, object], Timed] | None:
        """Return the best configuration with its fields and times, of another measurement with the next best ones."""
        ran = sorted(
            (t for t in self.study.trials() if t.stage == RAN and t.value is not None), key=lambda t: t.value or 0
        )
        best = [trial for trial in ran if not self._is_own(trial.choice)][:CONFIRMED]
        if self.bench is None or not best:
            return None
        rows = [self._fields(trial.choice, trial.about["spilled"]) for trial in best]
        timed = self.bench.timed(rows)
        found = [
            (t.choice, row, time) for t, row, time in zip(best, rows, timed, strict=True) if isinstance(time, Timed)
        ]
        return min(found, key=lambda one: one[2].ratio) if found else None


def _combination(values: dict[str, tuple[int | float | bool, ...]], number: int) -> Choice:
    """Return the combination of that number."""
    found: Choice = {}
    for name, some in values.items():
        number, place = divmod(number, len(some))
        found[name] = some[place]
    return found
