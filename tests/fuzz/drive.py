"""Fuzz for as long as one likes: target after target in turns, round after round, each round with another seed.

    python -m tests.fuzz.drive --minutes 60 --log fuzz.jsonl [TARGET…]

Every turn of a target appends one line of JSON: target, seed, how many inputs were read and refused, seconds, failures.
A failure appends one line too, with the smallest input that was found and its traceback; the run goes on with the next
target. Exit code 1 where there was one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.fuzz.bounds import bounded
from tests.fuzz.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = 150
"""Inputs of one target in one round."""
TURN = 20
"""Seconds of one target before the next has its turn; a round is never cut short."""


class Round:
    """One round of one target: how its inputs ended, and the last one that failed."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.seed = target, seed
        self.ends: Counter[str] = Counter()
        self.failed: Any = None

    def run(self) -> BaseException | None:
        """Return what went wrong with the smallest input, None if nothing did."""

        @seeded(self.seed)
        @settings(
            max_examples=CASES,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
        )
        @given(self.target.inputs)
        def one(value: Any) -> None:  # noqa: ANN401 - each target has its own kind of input
            try:
                with bounded():
                    self.ends[self.target.check(value)] += 1
            except BaseException:
                self.failed = value
                self.ends["failed"] += 1
                raise

        try:
            one()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a hang goes past hypothesis: it would be tried again and again
            return error
        return None


def write(log: Path, record: dict[str, Any]) -> None:
    """Append one line to the log, and show it."""
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    sys.stdout.write(json.dumps({key: str(value)[:200] for key, value in record.items() if key != "traceback"}) + "\n")


def turn(name: str, seed: int, log: Path) -> int:
    """Fuzz one target for about `TURN` seconds, each round with a new seed, and log it; return how many failed."""
    start, failures, rounds = time.monotonic(), 0, 0
    ends: Counter[str] = Counter()
    while time.monotonic() < start + TURN:
        current = Round(TARGETS[name], seed * 1000 + rounds)
        error = current.run()
        rounds += 1
        ends += current.ends
        if error is not None:
            failures += 1
            shown = "".join(traceback.format_exception(error))[-6000:]
            write(
                log, {"failure": name, "seed": current.seed, "input": repr(current.failed)[:5000], "traceback": shown}
            )
            break  # the next turn has another seed; the same one would find the same
    spent = round(time.monotonic() - start, 1)
    write(log, {"target": name, "seed": seed, "rounds": rounds, **ends, "seconds": spent, "failures": failures})
    return failures


def fuzz(names: Sequence[str], minutes: float, log: Path, first: int) -> int:
    """Fuzz these targets in turns until the time is over; return how many turns failed."""
    end = time.monotonic() + 60 * minutes
    failures = 0
    for number in itertools.count():
        name = names[number % len(names)]
        if time.monotonic() >= end:
            break
        failures += turn(name, first + number // len(names), log)
    return failures


def main() -> int:
    """Read the command line, fuzz, add up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--log", type=Path, default=Path("fuzz.jsonl"))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    options.log.parent.mkdir(parents=True, exist_ok=True)
    return int(fuzz(options.targets or list(TARGETS), options.minutes, options.log, options.seed) > 0)


if __name__ == "__main__":
    sys.exit(main())
