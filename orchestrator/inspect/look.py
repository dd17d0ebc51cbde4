"""One inspection from its parts: read, run on paper, judge, sort."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Severity
from orchestrator.inspect.bases import report_bases
from orchestrator.inspect.build import Build
from orchestrator.inspect.counts import judge_shell_counts
from orchestrator.inspect.deeds import RunScript
from orchestrator.inspect.dockerfile import read_dockerfile
from orchestrator.inspect.expansion import State
from orchestrator.inspect.ignore import Ignore
from orchestrator.inspect.machine import Machine
from orchestrator.inspect.piles import judge_copies, judge_markers
from orchestrator.inspect.scripts import run_python, run_shell
from orchestrator.inspect.session import Session
from orchestrator.inspect.status import losses
from orchestrator.inspect.syntax import Statement
from orchestrator.inspect.syntaxes import syntax_fault
from orchestrator.inspect.text import Chunk, decoded
from orchestrator.inspect.timeline import is_patch, is_verified, judge_events, judge_seds
from orchestrator.inspect.world import Image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.inspect.fates import Loss
    from orchestrator.inspect.folder import Folder

Version = tuple[int, int]
_TAKES_NOTHING_FOR_GOOD = frozenset(
    {"sh", "bash", "dash", "python", "python3", "patch", "tee", "git", "cat", "psql", "source"}
)
_SHOWN = {
    Severity.ERROR: "Let it fail: `set -euo pipefail` in bash, `&&` between the steps, no `|| true`.",
    Severity.WARNING: "Let it fail, or say in the script why it may.",
}


def look(
    folder: Folder,
    ignore: Ignore,
    dockerfile: tuple[str, bytes],
    tree: Mapping[str, bytes],
    python: Version | None = None,
) -> tuple[Diagnostic, ...]:
    """Return all that is found in a Dockerfile and in what it runs, sorted by place. Nothing is run or imported."""
    session = Session(folder, ignore, tree)
    name, raw = dockerfile
    instructions, faults = read_dockerfile(name, decoded(raw))
    session.found += faults
    build = Build(session, python)
    build.run(instructions)
    sources = [i for i in instructions if i.name in {"COPY", "ADD"} and i.flag("from") is None]
    if sources and not folder.files - {name}:
        session.note("the folder holds nothing but the Dockerfile: its sources were not looked at", Place(name))
    events = [event for stage in build.stages for event in stage.image.events]
    for stage in build.stages:
        judge_events(session, stage.image.events)
    report_bases(session, build.stages, patched=any(map(is_patch, events)), verified=is_verified(events))
    return _finish(session)


def look_at_scripts(folder: Folder, tree: Mapping[str, bytes], python: Version | None = None) -> tuple[Diagnostic, ...]:
    """Return what is found in the scripts of a folder that has no Dockerfile: each as if run where it lies."""
    session = Session(folder, Ignore(), tree)
    image = Image(files={f"/{name}": name for name in folder.files}, copied={"/": ""})
    nothing = Statement(None, negated=False, background=False, redirects=(), start=0, end=0)
    for name in sorted(folder.files):
        above = f"/{posixpath.dirname(name)}"
        machine = Machine(session, image, State(above, {}))
        machine.python = python
        chunk = Chunk(name, "")
        if name.endswith((".sh", ".bash")):
            run_shell(machine, RunScript("shell", f"/{name}", direct=True), Place(name), chunk, nothing, "")
        elif name.endswith(".py") and re.search(r"patch|apply|fix", posixpath.basename(name)):
            run_python(machine, RunScript("python", f"/{name}"), Place(name), chunk, nothing, "")
    judge_events(session, image.events)
    session.note("there is no Dockerfile: each script was read as if it were run in its own folder", Place("."))
    return _finish(session)


def _finish(session: Session) -> tuple[Diagnostic, ...]:
    _judge_status(session)
    judge_shell_counts(session)
    judge_seds(session)
    judge_copies(session)
    judge_markers(session)
    _judge_python(session)
    unique = {(d.code, d.place, d.message): d for d in session.found}
    return tuple(sorted(unique.values(), key=lambda d: (d.place or Place(""), d.code, d.message)))


def _judge_status(session: Session) -> None:
    for run in session.runs.values():
        found: list[Loss] = []
        no_pipestatus: list[tuple[int, str]] = []
        with session.bounded(run.chunk.place(0)):
            found, no_pipestatus = losses(run.statements, run.options)
        for loss in found:
            place = run.chunk.place(loss.offset)
            weight = session.weights.get(place, "")
            if loss.is_trap:
                weight = "error"
            if weight == "warning" and (loss.mild or loss.in_condition):
                continue
            if weight == "warning" and loss.consumer and loss.consumer not in _TAKES_NOTHING_FOR_GOOD:
                continue  # a reader that gets nothing fails by itself
            if not weight:
                continue
            severity = Severity.WARNING if weight == "warning" or loss.mild else Severity.ERROR
            shown = _command(run.chunk, loss.offset, loss.end)
            at = run.chunk.place(loss.offset, len(shown))
            message = f"a failure of `{shown}` is not noticed: {loss.reason}"
            session.report("E801", message, at, _SHOWN[severity], severity=severity)
        for offset, name in no_pipestatus:
            message = f"${{{name}[…]}} does not exist in `sh`, which runs this: the status is never seen"
            help_ = 'Use bash: `SHELL ["/bin/bash", "-o", "pipefail", "-c"]`, or end the pipe.'
            session.report("E803", message, run.chunk.place(offset), help_)


def _command(chunk: Chunk, start: int, end: int) -> str:
    text = chunk.text.encode("utf-8", errors="surrogatepass")[start:end].decode("utf-8", errors="replace")
    first = " ".join(text.split("\n", 1)[0].split()).rstrip("; &")
    return first if len(first) <= 60 else f"{first[:57]}…"  # noqa: PLR2004 - one line of a message


def _judge_python(session: Session) -> None:
    """Report every Python file, run or deployed, that the image's Python cannot read."""
    unknown = False
    for name, (version, sure) in sorted(session.pythons.items()):
        text = session.folder.text(name)
        if text is None or (
            not sure and set(name.split("/")[:-1]) & {"tests", "test", "testdata", "fixtures", "templates", "data"}
        ):
            continue
        unknown = unknown or (version is None and sure)
        if version is None and not sure:
            continue
        fault = syntax_fault(Chunk(name, text), version)
        if fault is not None:
            session.found.append(fault)
    if unknown:
        help_ = "Say it with --python 3.10, for example."
        session.note(
            "the image's Python version is not known: the scripts were read with that of this program",
            Place("."),
            help_,
        )
