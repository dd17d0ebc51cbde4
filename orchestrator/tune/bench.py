"""Rows on a device: right or not, and how fast beside the table's own row."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.tune.child import Death, Worker, end_all
from orchestrator.tune.space import MEASURE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

START_SECONDS = 300.0


@dataclass(frozen=True)
class Timed:
    """A row's microseconds at each shape, and those of the table's row in the same rounds."""

    us: tuple[float, ...]
    base_us: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Time over the table's row's, geometric mean over the shapes; below 1 is faster."""
        pairs = zip(self.us, self.base_us, strict=True)
        return math.exp(sum(math.log(us / base) for us, base in pairs) / len(self.us))


@dataclass
class Bench:
    """Processes with the device: all of them check, one at a time measures, while the others wait."""

    workers: list[Worker]
    base: Mapping[str, Any]
    limit: float
    machine: Mapping[str, Any]

    @classmethod
    def started(  # noqa: PLR0913, PLR0917 - all that a measurement depends on
        cls, root: Path, asked: Mapping[str, Any], base: Mapping[str, Any], jobs: int, limit: float,
        environment: Mapping[str, str],
    ) -> Bench | str:  # fmt: skip
        """Return the bench, or why nothing can be timed here."""
        command = [sys.executable, str(root / MEASURE), str(root)]
        workers = [Worker(command, asked, environment, START_SECONDS) for _ in range(max(1, jobs))]
        found = workers[0].start()
        if isinstance(found, Death) or "absent" in found:
            workers[0].close()
            return found.reason if isinstance(found, Death) else str(found["absent"])
        return cls(workers, base, limit, found)

    def checked(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return for each row why it is wrong, or nothing."""
        count = len(self.workers)
        found = [""] * len(rows)
        with ThreadPoolExecutor(count) as pool:
            try:
                parts = pool.map(self._checked_by, self.workers, [rows[start::count] for start in range(count)])
                for start, said in enumerate(parts):
                    found[start::count] = said
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                end_all()  # or the interrupt would wait for them
                raise
        return found

    def _checked_by(self, worker: Worker, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        found = []
        for fields in rows:
            said = worker.ask({"check": fields}, self.limit)
            if isinstance(said, Death):
                found.append(said.reason)
            else:
                found.append("" if said.get("ok") else str(said.get("failed") or said))
                if said.get("fatal"):
                    worker.close()
        return found

    def timed(self, rows: Sequence[Mapping[str, Any]]) -> list[Timed | str]:
        """Return the times of rows, or why there are none; all in the same rounds unless one of them breaks those."""
        if not rows:
            return []
        found = self._together(rows)
        if isinstance(found, str):
            return [found] if len(rows) == 1 else [one for row in rows for one in self.timed([row])]
        return list(found)

    def _together(self, rows: Sequence[Mapping[str, Any]]) -> list[Timed] | str:
        said = self.workers[0].ask({"time": [self.base, *rows]}, self.limit * (1 + len(rows)))
        if isinstance(said, Death):
            return said.reason
        if "us" not in said:
            self.workers[0].close()
            return str(said.get("failed") or said)
        base, *others = (tuple(map(float, row)) for row in said["us"])
        if not all(us > 0 and math.isfinite(us) for row in (base, *others) for us in row):
            return f"no times: {said['us']}"
        return [Timed(row, base) for row in others]

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.close()
