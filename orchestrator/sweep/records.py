"""The records of a sweep: JSON lines, one for each value, appended and synced, read again to resume."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.core.diagnostics import Rejected
from orchestrator.core.digest import digest, digest_data
from orchestrator.sweep.folder import unwritable
from orchestrator.sweep.model import Fault, Kind, Measured, measured_from

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.sweep.model import Load
    from orchestrator.sweep.trial import Rendered, Serving

FORMAT = 2
"""1: times were those at which the client got round to reading, far too long with many streams."""
RECORDS = "records.jsonl"


@dataclass(frozen=True)
class Outcome:
    """What is known of one value. `inputs` is the digest of all that it depends on; `resumed`: from an earlier run."""

    parameter: str
    value: str
    number: float
    inputs: str
    at: str
    found: Measured | Fault
    resumed: bool = False

    def record(self) -> dict[str, Any]:
        """Return the record: plain data."""
        about = {
            "event": "value",
            "format": FORMAT,
            "parameter": self.parameter,
            "value": self.value,
            "number": self.number,
            "inputs": self.inputs,
            "at": self.at,
        }
        match self.found:
            case Measured():
                means = {f"{rate}_tps": self.found.mean(rate) for rate in ("output", "input", "cached")}
                return {**about, "outcome": "measured", **means, "measured": self.found.plain()}
            case Fault():
                fault = asdict(self.found)
                return {**about, "outcome": "failed", "fault": {**fault, "kind": str(self.found.kind)}}


def now() -> str:
    """Return the time as records have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def inputs_of(rendered: Rendered, serving: Serving, load: Load, parameter: str) -> str:
    """Return one digest of what a measurement depends on: pipeline, run configuration, command, load."""
    return digest_data(
        {
            "format": FORMAT,
            "parameter": parameter,
            "value": rendered.value,
            "patchset": rendered.patchset,
            "config": digest(rendered.content),
            # As JSON in ASCII: what the shell hands over, and --body, may hold what UTF-8 cannot.
            "command": json.dumps(serving.words),
            "model": json.dumps(serving.model),
            "load": json.dumps(asdict(load), sort_keys=True),
        }
    )


def read(folder: Path) -> dict[str, Outcome]:
    """Return what earlier runs recorded, by digest of the inputs; the later of two, and no line that is no record."""
    try:
        lines = (folder / RECORDS).read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Rejected(unwritable(folder, error)) from None
    found = {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            outcome = _outcome(json.loads(line))
            found[outcome.inputs] = outcome
    return found


def _outcome(data: dict[str, Any]) -> Outcome:
    if data["event"] != "value" or data["format"] != FORMAT:
        raise ValueError("another kind of record")
    found: Measured | Fault
    if data["outcome"] == "measured":
        found = measured_from(data["measured"])
        if not found.repeats:
            raise ValueError("nothing was measured")
    else:
        fault = data["fault"]
        log = tuple(str(line) for line in fault["log"])
        found = Fault(Kind(fault["kind"]), str(fault["phase"]), str(fault["message"]), log)
    if not math.isfinite(data["number"]):
        raise ValueError("no value")
    return Outcome(
        parameter=str(data["parameter"]),
        value=str(data["value"]),
        number=float(data["number"]),
        inputs=str(data["inputs"]),
        at=str(data["at"]),
        found=found,
        resumed=True,
    )


def append(folder: Path, outcome: Outcome) -> None:
    """Append a record and see it to the disk; a line that a dying process left unfinished is closed first."""
    line = json.dumps(outcome.record(), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    try:
        with (folder / RECORDS).open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Rejected(unwritable(folder, error)) from None
