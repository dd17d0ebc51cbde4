"""A bump as annotations of GitHub Actions: workflow commands on stdout, one for each part to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import errors
from orchestrator.emit.bumped.table import NO_SOURCE
from orchestrator.engine.bump.fates import FINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from orchestrator.core.diagnostics import Place
    from orchestrator.engine.bump.fates import BaseFate, Part, StageFate


def commands(bases: Sequence[BaseFate], placed: Callable[[Place], Place]) -> Iterator[str]:
    """Yield an annotation for every part that is not exact: an error, or a notice where it is declared.

    `placed` turns a place of the workspace into one of the repository. The fingerprint at the end of each message
    depends on what the part is and on its verdict, not on where it stands, so that tools can follow it.
    """
    for base in bases:
        for fault in base.missing:
            yield _command("error", None, f"{base.name}: {NO_SOURCE}", f"{fault.code} {fault.message}")
        for fault in errors(base.findings):
            where = placed(fault.place) if fault.place else None
            yield _command("error", where, f"{base.name}: {fault.code}", fault.message)
        for stage in base.stages:
            for part in stage.parts:
                if part.fate not in FINE:
                    yield _annotation(base, stage, part, placed)


def _annotation(base: BaseFate, stage: StageFate, part: Part, placed: Callable[[Place], Place]) -> str:
    lines = [part.detail, *part.notes, *(f"near: {near}" for near in part.near)]
    if part.found:
        lines.insert(0, f"now at {part.found}")
    if part.declared:
        lines.insert(0, f"declared: {part.declared}")
    if part.yaml:
        lines += [f"write instead ({part.proven}):", part.yaml.rstrip("\n")]
    lines.append(f"fingerprint {part.fingerprint}")
    title = f"{base.name}: {stage.stage}, {part.name}: {part.fate}"
    where = placed(part.place) if part.place else None
    return _command("notice" if part.declared else "error", where, title, "\n".join(filter(None, lines)))


def _command(level: str, place: Place | None, title: str, message: str) -> str:
    properties = (
        {"file": place.file, "line": str(max(1, place.line)), "col": str(max(1, place.column))} if place else {}
    )
    properties["title"] = title
    shown = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{level} {shown}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Return a text as a workflow command has it: what would end it, or a property of it, is written in hexadecimal."""
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
