"""What `sweep` is told, read from words, and what it says: the edge around `orchestrator.sweep`."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from typing import TYPE_CHECKING, Any

from orchestrator.cli.steps import Stopped
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.sweep.sweep import Result, Settings
    from orchestrator.sweep.trial import Rendered

_OURS = {"model", "prompt", "max_tokens", "stream", "stream_options"}


def look_at_command(words: Sequence[str], port: int | None) -> None:
    """Stop (usage) for a server command that cannot be filled in."""
    from orchestrator.sweep.command import faults_of

    found = faults_of(words, port)
    if found:
        raise Stopped(tuple(found), ExitCode.USAGE)


def look_at_path(health: str) -> None:
    """Stop (usage) for a `--health` that is no path of the server."""
    if not health.startswith("/") or health.startswith("//") or not health.isprintable():
        message = f"--health: `{health}` is no path"
        raise Stopped.usage("E911", message, "Write it from its slash on, as in /health; the port is the server's.")


def numbers(values: str) -> dict[str, float]:
    """Return the values of `--values`, as they are written, with the number that each is; stop (usage) for others."""
    found: dict[str, float] = {}
    for text in (part.strip() for part in values.split(",")):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or "_" in text:
            message = f"--values: `{text}` is no number"
            raise Stopped.usage("E911", message, "Write numbers with commas between, as in 4,8,16.")
        if number not in found.values():
            found[text] = number
    return found


def token_range(text: str) -> tuple[int, int]:
    """Return LOW-HIGH as two whole numbers; stop (usage) for anything else."""
    low, _, high = text.partition("-")
    if not (_whole(low) and _whole(high) and int(low) <= int(high)):
        message = f"--token-ids: `{text}` is no range"
        raise Stopped.usage("E911", message, "Write the smallest and the largest, as in 300-1299.")
    return int(low), int(high)


def lengths(text: str) -> tuple[int, ...]:
    """Return the lengths of `--prompt-tokens`; stop (usage) for anything else."""
    parts = [part.strip() for part in text.split(",")]
    wrong = next((part for part in parts if not _whole(part) or int(part) < 1), None)
    if wrong is not None:
        raise Stopped.usage("E911", f"--prompt-tokens: `{wrong}` is no length", "Write whole numbers, as in 512,2048.")
    return tuple(int(part) for part in parts)


def _whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < _DIGITS


_DIGITS = 10


def fields(text: str) -> dict[str, Any]:
    """Return the fields of `--body`; stop (usage) for anything but a JSON object without the load's own keys."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        data = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise Stopped.usage("E911", "--body: no JSON object", """Write it as in --body '{"ignore_eos": true}'.""")
    ours = sorted(_OURS & data.keys())
    if ours:
        message = f"--body: {', '.join(ours)} is for the load to say"
        raise Stopped.usage("E911", message, "Leave it out; see the other options.")
    return data


def changes_nothing(rendered: Sequence[Rendered], settings: Settings) -> tuple[Diagnostic, ...]:
    """Return a warning where every value gives the same run configuration, and the command does not hold the value."""
    contents = {one.content for one in rendered if not one.refused}
    several = sum(not one.refused for one in rendered) > 1
    if not several or len(contents) > 1 or any("{value}" in word for word in settings.serving.words):
        return ()
    message = f"the run configuration is the same for every value of {settings.parameter}"
    help_ = "Use the parameter in its template, or write {value} in the server command; images are not built here."
    return (Diagnostic("W910", message, help=help_, severity=Severity.WARNING),)


def tell(line: str) -> None:
    """Say on stderr how far it is."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def run(rendered: Sequence[Rendered], settings: Settings, folder: Path, *, as_json: bool) -> ExitCode:
    """Sweep, show what came of it, and return what the shell gets."""
    from orchestrator.sweep.folder import alone
    from orchestrator.sweep.records import RECORDS
    from orchestrator.sweep.sweep import sweep

    with alone(folder):
        try:
            result = asyncio.run(sweep(rendered, settings, folder, tell))
        except KeyboardInterrupt:
            tell(f"What was measured is in {folder / RECORDS}; the same command goes on from there.")
            raise
        return _show(result, settings, folder, as_json=as_json)


def _show(result: Result, settings: Settings, folder: Path, *, as_json: bool) -> ExitCode:
    from orchestrator.cli.output import console, print_diagnostics, print_records, print_table
    from orchestrator.sweep import report
    from orchestrator.sweep.folder import write
    from orchestrator.sweep.model import Measured
    from orchestrator.sweep.plot import plots

    if as_json:
        print_records(report.shown_records(result, settings))
    else:
        print_table(report.table(result, settings))
        console().print()
        for sentence in report.sentences(result, settings):
            console().print(sentence)
    for name, content in plots(result, settings).items():
        write(folder / name, content)  # last: where there is no space, what was measured is shown all the same
    if not as_json:
        console(stderr=True).print(f"{folder}: records.jsonl, sweep.svg, sweep.png, and a folder for each value")
    if any(isinstance(outcome.found, Measured) for outcome in result.outcomes):
        return ExitCode.OK
    last = result.outcomes[-1]
    message = f"no value could be measured; {settings.parameter}={last.value}: {getattr(last.found, 'message', '')}"
    notes = tuple(getattr(last.found, "log", ()))[-10:]
    help_ = f"Look at the server's log below {folder}, correct its command, and try again with --retry."
    print_diagnostics([Diagnostic("E913", message, help=help_, notes=notes)], as_json=as_json)
    return ExitCode.CHECK_FAILED
