"""The sources of COPY and ADD: are they in the folder, in the build context, in git, and no links to elsewhere."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Severity, did_you_mean
from orchestrator.inspect.ignore import glob_regex
from orchestrator.inspect.paths import is_known
from orchestrator.inspect.world import GLOB

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place
    from orchestrator.inspect.session import Session


@dataclass(frozen=True)
class Match:
    """A file or a folder of the context that a source names; `files` are those of it that the builder sends."""

    path: str
    files: tuple[str, ...]
    is_folder: bool


def matches(session: Session, spelled: str, place: Place, *, alone: bool) -> list[Match]:
    """Return what a source names, and report what is wrong with it."""
    folder = session.folder
    if not is_known(spelled):
        session.note(f"{spelled} depends on a value that is not known here, so its source was not looked at", place)
        return []
    cleaned = posixpath.normpath(f"/{spelled}").lstrip("/") or "."
    if spelled.startswith("..") and not folder.holds(cleaned):
        help_ = "Move it into the folder, or build with the folder above as the context."
        session.report("E810", f"{spelled} lies outside of the build context", place, help_)
        return []
    names = _named(session, cleaned)
    if not names:
        if not (GLOB & set(cleaned)) or alone:
            _report_missing(session, spelled, cleaned, place)
        return []
    found = [_match(session, name) for name in names]
    if not any(match.files for match in found) and any(folder.under(name) for name in names):
        _report_ignored(session, spelled, names[0], place)
        return []
    for match in found:
        _check_links(session, match, place)
        _check_git(session, spelled, match, place)
    return found


def _named(session: Session, cleaned: str) -> list[str]:
    folder = session.folder
    if cleaned == ".":
        return ["."]
    if not GLOB & set(cleaned):
        real = folder.real(cleaned)
        return [cleaned] if folder.holds(cleaned) or (real is not None and folder.holds(real)) else []
    try:
        regex = re.compile(glob_regex(cleaned.replace("**", "*")))
    except re.error:
        return []
    return sorted(name for name in (*folder.files, *folder.folders) if regex.fullmatch(name))


def _match(session: Session, name: str) -> Match:
    folder = session.folder
    real = folder.real(name) if name != "." else "."
    if real is None or not folder.holds(real):
        return Match(name, (name,), is_folder=False)
    files = tuple(file for file in folder.under(real) if session.ignore.ignoring(file) is None)
    return Match(real, files, real in folder.folders or real in {".", ""})


def _report_missing(session: Session, spelled: str, cleaned: str, place: Place) -> None:
    folder = session.folder
    near = [
        name for name in (*folder.files, *folder.folders) if posixpath.basename(name) == posixpath.basename(cleaned)
    ]
    if len(folder.files) <= 1:
        return  # said once, for all of them
    if cleaned == ".git":
        session.note("there is no .git in this folder; a checkout has it", place)
        return
    what = "matches nothing" if GLOB & set(cleaned) else "does not exist"
    hint = f"did you mean '{min(near, key=len)}'?" if near else did_you_mean(cleaned, _siblings(session, cleaned))
    help_ = hint if hint.startswith("did") else "Correct the path; it counts from the top of the build context."
    above = folder.above(cleaned) if not GLOB & set(cleaned) else ""
    notes = (f"{above} has it: is that the build context? Then inspect it, with --dockerfile",) if above else ()
    session.report("E810", f"{spelled} {what} in the build context", place, help_, *notes)


def _siblings(session: Session, cleaned: str) -> list[str]:
    above = posixpath.dirname(cleaned)
    return [n for n in (*session.folder.files, *session.folder.folders) if posixpath.dirname(n) == above][:2000]


def _report_ignored(session: Session, spelled: str, name: str, place: Place) -> None:
    first = next(iter(session.folder.under(name)), name)
    pattern = session.ignore.ignoring(name) or session.ignore.ignoring(first)
    shown = f"{session.ignore.file}:{pattern.line}:1: {pattern.text}" if pattern else ""
    help_ = f"Take it back in {session.ignore.file}, with a line `!{name}`."
    session.report("E811", f"{spelled} is left out of the build context", place, help_, *([shown] if shown else []))


def _check_links(session: Session, match: Match, place: Place) -> None:
    folder = session.folder
    inside = f"{match.path}/" if match.path not in {".", ""} else ""
    for link in sorted(folder.links):
        if link != match.path and not link.startswith(inside):
            continue
        if session.ignore.ignoring(link) is not None:
            continue
        real = folder.real(link)
        if real is not None and folder.holds(real):
            continue
        own = link == match.path
        message = f"{link} is a link to {folder.links[link]}, which is not in the build context"
        severity = Severity.ERROR if own or link.endswith((".py", ".sh")) else Severity.WARNING
        session.report("E812", message, place, "Put a copy of the file in its place.", severity=severity)


def _check_git(session: Session, spelled: str, match: Match, place: Place) -> None:
    """Say so where a fresh clone would not have the source: the build works here and nowhere else."""
    folder = session.folder
    if folder.tracked is None or not match.files:
        return
    lost = [file for file in match.files if file not in folder.tracked]
    if len(lost) < len(match.files):
        lost = [f for f in lost if f.endswith((".py", ".sh", ".patch")) and "__pycache__" not in f]
    if not lost:
        return
    ignored = [f for f in lost if any(f == i or f.startswith(f"{i}/") for i in folder.ignored)]
    why = "git ignores" if ignored else "git does not track"
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    message = f"{spelled}: {why} {(ignored or lost)[0]}{more}: a fresh clone does not have it"
    session.report("W811", message, place, "Commit it, or fetch it in the build.", severity=Severity.WARNING)
