"""The audit: one record a line, each chained to the one before by digest; the run record comes last.

structlog's processor chain writes the lines. A line that is removed, edited, moved or cut off breaks the
chain or the count in the run record. The copy in the image has no run record, so that two renders of the
same input differ in nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from orchestrator.core.diagnostics import Diagnostic, Place
from orchestrator.core.digest import canonical_json, digest_data
from orchestrator.emit.memory import memory_records
from orchestrator.emit.records import artefact_record, finding_record, patchset_record, stage_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from orchestrator.engine.outcome import Run

FIRST = "0" * 64
"""What the first record names as the digest of the record before it."""


@dataclass(frozen=True)
class Circumstances:
    """What differs between two renders of the same input: the one place where clock and user enter."""

    time: str
    host: str
    user: str
    command: str = ""


class _Lines:
    """The logger at the end of the processor chain: keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def msg(self, message: str) -> None:
        self.lines.append(message)


class _Chain:
    """Processor: numbers each record, names the digest of the one before, and adds its own."""

    def __init__(self) -> None:
        self.number = 0
        self.previous = FIRST

    def __call__(self, logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        del logger, method
        self.number += 1
        event["number"] = self.number
        event["previous"] = self.previous
        self.previous = event["digest"] = digest_data(event)
        return event


def _render(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    del logger, method
    return canonical_json(dict(event))


def audit_lines(run: Run, patchset: Mapping[str, Any], circumstances: Circumstances | None) -> bytes:
    """Return the log of `run` as JSON lines.

    `patchset` says what was emitted (digests); without `circumstances` the run record is left out.
    """
    records = [
        *(stage_record(result, run.final.get(result.id, ())) for result in run.results),
        *(artefact_record(name, content) for name, content in sorted(run.artefacts.items())),
        *memory_records(run),
        *(finding_record(found) for found in (*run.plan.warnings, *run.findings)),
        patchset_record(run, patchset),
    ]
    return chained_lines(records, circumstances)


def chained_lines(records: Iterable[Mapping[str, Any]], circumstances: Circumstances | None) -> bytes:
    """Return records as a log: chained JSON lines with, if there are `circumstances`, the run record at the end."""
    sink = _Lines()
    log = structlog.wrap_logger(sink, processors=[_Chain(), _render], wrapper_class=structlog.BoundLoggerBase)

    def write(record: Mapping[str, Any]) -> None:
        fields = dict(record)
        event = fields.pop("event")
        log._proxy_to_logger("msg", event, **fields)  # noqa: SLF001 - structlog's documented hook for own methods

    for record in records:
        write(record)
    if circumstances is not None:
        count = len(sink.lines) + 1
        write(
            {
                "event": "run",
                "records": count,
                "time": circumstances.time,
                "host": circumstances.host,
                "user": circumstances.user,
                "command": circumstances.command,
            }
        )
    return "".join(f"{line}\n" for line in sink.lines).encode()


def read_audit(content: bytes) -> list[dict[str, Any]]:
    """Return the records of a log that `audit_faults` finds nothing wrong with."""
    return [json.loads(line) for line in content.decode().splitlines()]


def audit_faults(name: str, content: bytes, *, complete: bool = True) -> list[Diagnostic]:
    """Return what is wrong with a log (E610 … E613), [] for one that is whole.

    With `complete` the run record must be there and count the lines.
    """
    help_ = "The log was changed after it was written: render again, and compare."
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return [Diagnostic("E610", "the log is not UTF-8", Place(name), help=help_)]
    found: list[Diagnostic] = []
    if lines[-1] != "":
        found.append(Diagnostic("E613", "the last line is cut off", Place(name, len(lines), 1), help=help_))
    records: list[dict[str, Any]] = []
    previous = FIRST
    for number, line in enumerate(lines[:-1], start=1):
        fault, record = _line_fault(line, number, previous)
        if fault:
            return [*found, Diagnostic(fault[0], fault[1], Place(name, number, 1), help=help_)]
        records.append(record)
        previous = record["digest"]
    last = records[-1] if records else {}
    if complete and (last.get("event") != "run" or last.get("records") != len(records)):
        message = "the run record at the end is missing: lines were cut off"
        found.append(Diagnostic("E613", message, Place(name, max(1, len(records)), 1), help=help_))
    return found


def _line_fault(line: str, number: int, previous: str) -> tuple[tuple[str, str] | None, dict[str, Any]]:
    try:
        record = json.loads(line)
        if not isinstance(record, dict) or not {"digest", "number", "previous", "event"} <= record.keys():
            return ("E610", "the line is not an audit record"), {}
        content = {key: value for key, value in record.items() if key != "digest"}
        untouched = digest_data(content) == record["digest"] and canonical_json(record) == line
    except (ValueError, RecursionError):  # not JSON, or JSON that we never write: NaN, half a character, a deep nest
        return ("E610", "the line is not JSON"), {}
    if not untouched:
        return ("E611", "the record was edited: its digest does not fit its content"), {}
    if record["number"] != number or record["previous"] != previous:
        message = f"record {record['number']} stands where record {number} belongs: lines were removed, added or moved"
        return ("E612", message), {}
    return None, record
