"""The study: what was tried, kept by Optuna where several processes and machines can share it.

A trial belongs to the process that asked for it, which it names by host, process and start. What belongs to a process
that is gone is tried again; what was tried is not. Optuna's states: complete is a value, pruned a configuration that
cannot be, failed a trial that says nothing about its configuration.
"""

from __future__ import annotations

import json
import os
import platform
import random
import re
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from orchestrator.tune.space import Choice, Value

IDENTITY = "orchestrator"
KEY, STAGE, OWNER, BEAT = "key", "stage", "owner", "beat"
FILTERED, COMPILER, FAILED, RAN, DUPLICATE, LOST = "filtered", "compiler", "failed", "ran", "duplicate", "lost"
"""How far a configuration came."""
BUSY_SECONDS = 60
PAUSES = (0.1, 0.4, 1.6)
"""Seconds before a storage is opened once more."""
GRACE_SECONDS = 900
"""Without a word for so long, a process on another machine counts as gone."""


@dataclass(frozen=True)
class Trial:
    """A configuration that was tried, as it is kept."""

    number: int
    choice: Choice
    stage: str
    value: float | None
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """A configuration that is this process's to try."""

    number: int
    choice: Choice
    trial: Any


def owner() -> dict[str, object]:
    """Return who this process is: host, number, and when it started, since numbers come again."""
    return {"host": platform.node(), "pid": os.getpid(), "started": started(os.getpid())}


def started(pid: int) -> str:
    """Return when a process of this machine started, as the system counts; empty where that is not to be had."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def gone(who: Mapping[str, Any], silent: float) -> bool:
    """Tell whether a process has ended; one on another machine counts as gone after `GRACE_SECONDS` without a word."""
    if who.get("host") != platform.node():
        return silent > GRACE_SECONDS
    try:
        os.kill(int(who["pid"]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError, ValueError):
        return False
    return started(int(who["pid"])) != who.get("started")


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Turn what a storage raises into E905."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError, OSError, ImportError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        first = first.replace(url, _public(url))
        message = f"the study's storage {_public(url)} cannot be used: {first}"
        help_ = "Check the address, its permissions and its space; another --storage starts afresh."
        raise Rejected(Diagnostic("E905", message, help=help_)) from None


def _public(url: str) -> str:
    """Return an address without its password, which is nothing for a log."""
    return re.sub(r"(?<=://)([^/@]*?):.*@", r"\1:***@", url)


@dataclass
class Study:
    """One study in one storage, and the fields that its trials choose."""

    study: optuna.Study
    url: str
    values: Mapping[str, tuple[Value, ...]]
    seed: int
    clock: Callable[[], float] = time.time
    mine: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def opened(
        cls, url: str, name: str, values: Mapping[str, tuple[Value, ...]], identity: Mapping[str, Any], seed: int
    ) -> Study:
        """Return the study of that name, made where there is none.

        Raises:
            Rejected: The storage cannot be used (E905), or the study is of another search (E906).
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        options = {"connect_args": {"timeout": BUSY_SECONDS}} if url.startswith("sqlite") else {}
        with storage_errors(url):
            storage = _storage(url, options)
            made = optuna.create_study(
                storage=storage, study_name=name, load_if_exists=True, direction="minimize",
                sampler=optuna.samplers.TPESampler(seed=seed),
            )  # fmt: skip
            kept = made.user_attrs.get(IDENTITY)
            plain = json.loads(json.dumps(identity))
            if kept is None:
                made.set_user_attr(IDENTITY, plain)
            elif kept != plain:
                _refuse_other(name, kept, plain)
            study = cls(made, url, values, seed)
            study.study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials()))
        return study

    def trials(self) -> list[Trial]:
        """Return what was tried and is known, in order."""
        return [
            Trial(found.number, dict(found.params), _stage(found), found.value, found.user_attrs)
            for found in self.study.get_trials(deepcopy=False)
            if found.state.is_finished()
        ]

    def taken(self) -> dict[str, int]:
        """Return the first trial of each configuration that was tried, or is being tried, by its key."""
        found: dict[str, int] = {}
        for trial in self.study.get_trials(deepcopy=False):
            if KEY in trial.user_attrs and trial.state != TrialState.FAIL:
                found.setdefault(trial.user_attrs[KEY], trial.number)
        return found

    def tried(self) -> int:
        """Return how many configurations came through the filters, those that are being tried among them."""
        filtered = {trial.number for trial in self.trials() if trial.stage == FILTERED}
        return len(set(self.taken().values()) - filtered)

    def ask(self, key: Any, fixed: Choice | None = None) -> Asked | None:  # noqa: ANN401 - a function of a choice
        """Return a configuration to try; None where it was tried, or is being tried, already.

        `key` tells what two choices have in common that mean the same; `fixed` is a choice to try next.
        """
        with storage_errors(self.url):
            if fixed is not None:
                self.study.enqueue_trial(fixed)
            trial = self.study.ask()
            trial.set_user_attr(OWNER, owner())
            trial.set_user_attr(BEAT, self.clock())
            choice = {name: trial.suggest_categorical(name, values) for name, values in self.values.items()}
            trial.set_user_attr(KEY, key(choice))
            if self.taken()[key(choice)] < trial.number:
                self.tell(Asked(trial.number, choice, trial), DUPLICATE)
                return None
            self.mine[trial.number] = trial
            return Asked(trial.number, choice, trial)

    def tell(self, asked: Asked, stage: str, value: float | None = None, **about: Any) -> None:  # noqa: ANN401 - plain data
        """Keep what became of a configuration."""
        with storage_errors(self.url):
            asked.trial.set_user_attr(STAGE, stage)
            for name, what in about.items():
                asked.trial.set_user_attr(name, what)
            state = TrialState.FAIL if stage in {DUPLICATE, LOST} else TrialState.PRUNED
            self.study.tell(
                asked.number, value, TrialState.COMPLETE if value is not None else state, skip_if_finished=True
            )
            self.mine.pop(asked.number, None)

    def release(self) -> int:
        """Give back what this process has not finished, to be tried again; return how many that were."""
        mine = [Asked(number, dict(trial.params), trial) for number, trial in self.mine.items()]
        for asked in mine:
            self.tell(asked, LOST)
            _again(self.study, asked)
        return len(mine)

    def alive(self) -> None:
        """Say that this process is there, for those on other machines."""
        with storage_errors(self.url):
            for trial in self.mine.values():
                trial.set_user_attr(BEAT, self.clock())

    def take_back(self) -> int:
        """Give back what processes that are gone left unfinished; return how many configurations that were."""
        count = 0
        with storage_errors(self.url):
            for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                silent = self.clock() - trial.user_attrs.get(BEAT, self.clock())
                if trial.number in self.mine or not gone(trial.user_attrs.get(OWNER, {}), silent):
                    continue
                self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                _again(self.study, trial)
                count += 1
        return count


def _stage(trial: optuna.trial.FrozenTrial) -> str:
    """Return how far a trial came: a process may end after it has said so, and before it has ended the trial."""
    stage = str(trial.user_attrs.get(STAGE, ""))
    return LOST if trial.state == TrialState.FAIL and stage != DUPLICATE else stage


def _storage(url: str, options: dict[str, Any]) -> RDBStorage:
    """Return the storage; two processes that make its tables at the same time get in each other's way, once."""
    for pause in PAUSES:
        try:
            return RDBStorage(url, options)
        except (IntegrityError, OperationalError):
            time.sleep(pause)
    return RDBStorage(url, options)


def _again(study: optuna.Study, trial: Any) -> None:  # noqa: ANN401 - Optuna's trial, or one of ours
    """Have a configuration tried again, unless its process ended before it was whole: then nothing is known of it."""
    params = trial.choice if isinstance(trial, Asked) else trial.params
    if params:
        study.enqueue_trial(dict(params))


def shuffled(seed: int, count: int) -> list[int]:
    """Return the numbers below `count` in an order that the seed decides."""
    order = list(range(count))
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, no secret
    return order


def _refuse_other(name: str, kept: Any, wanted: Mapping[str, Any]) -> None:  # noqa: ANN401 - what somebody stored
    known = kept if isinstance(kept, dict) else {}
    different = sorted(key for key in {*known, *wanted} if known.get(key) != wanted.get(key))
    notes = tuple(f"{key}: {known.get(key)!r} there, {wanted.get(key)!r} here" for key in different)
    message = f"the study '{name}' is of another search: {', '.join(different)} differ"
    help_ = "Its values cannot be compared with new ones: name another --study."
    raise Rejected(Diagnostic("E906", message, help=help_, notes=notes))
