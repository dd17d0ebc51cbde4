"""Files that commands need and put elsewhere: are they where the command looks for them, and where do they go."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Severity
from orchestrator.inspect.paths import is_known, joined, package_key
from orchestrator.inspect.world import GLOB, Presence, Put

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place
    from orchestrator.inspect.deeds import Copy
    from orchestrator.inspect.machine import Machine

MAX_FILES = 5000
_SCRIPTS = (".py", ".sh", ".patch", ".diff", ".whl")


def need(machine: Machine, spelled: str, place: Place, *, quiet: bool = False) -> list[str]:
    """Return the files of the image that a command finds under a path; say so where it finds none.

    A relative path is looked for in the working directory in force. What the base image has is not known: there the
    path counts as missing only where the file that is meant lies elsewhere among those that the build itself brought.
    """
    path = joined(machine.state.cwd, spelled)
    presence, files = machine.image.find(path)
    if presence is Presence.HERE or machine.optional or not spelled or spelled == "-" or machine.runtime:
        return files
    relative = not spelled.startswith(("/", "$", "~"))
    open_path = not is_known(path)
    if open_path and not (relative and path.startswith("${cwd}/")):
        if not quiet and spelled.endswith(_SCRIPTS) and not files:
            machine.session.note(f"{spelled} was not looked for: a part of its path is not known here", place)
        return files
    name = _fixed_tail(spelled) if relative else posixpath.basename(spelled)
    other = machine.image.elsewhere(name) if name and not GLOB & set(name) else ""
    if not other and machine.script and relative:
        other = _beside(machine, spelled)
    if presence is Presence.ABSENT or (relative and other):
        _report(machine, spelled, path, place, other)
    elif not quiet:
        _report_ignored(machine, spelled, path, place)
    return files


def _fixed_tail(spelled: str) -> str:
    parts = [part for part in spelled.split("/") if part not in {"", "."}]
    return "" if any("${" in part or part == ".." for part in parts) else "/".join(parts)


def _beside(machine: Machine, spelled: str) -> str:
    """Return where a file lies beside the script that names it."""
    folder = posixpath.dirname(machine.state.zero)
    path = joined(joined(machine.state.cwd, folder), spelled)
    presence, _ = machine.image.find(path)
    return path if presence is Presence.HERE else ""


def _report(machine: Machine, spelled: str, path: str, place: Place, other: str) -> None:
    sure = is_known(path)
    session = machine.session
    if _report_ignored(machine, spelled, path, place):
        return
    if spelled.startswith("/"):
        notes = (f"it lies at {other}",) if other else ()
        session.report("E810", f"{spelled} is not in the image at this point", place, "Correct the path.", *notes)
        return
    where = machine.state.cwd
    notes = (f"it lies at {other}",) if other else ()
    if not sure:
        message = (
            f"`{spelled}` is looked for in a working directory that the base image sets, and that is not known here"
        )
        help_ = "Set WORKDIR, or name the file by its full path."
        session.report("E813", message, place, help_, *notes, severity=Severity.WARNING)
        return
    message = f"`{spelled}` is looked for in {where}, the working directory in force, and is not there"
    help_ = 'Name it by its full path, or relative to the script: "$(dirname "$0")/…".'
    session.report("E813", message, place, help_, *notes)


def _report_ignored(machine: Machine, spelled: str, path: str, place: Place) -> bool:
    """Say so where the file is in the folder, and only `.dockerignore` keeps it out of the image."""
    session = machine.session
    for target, source in machine.image.copied.items():
        if target.startswith("git:") or not path.startswith(f"{target.rstrip('/')}/"):
            continue
        origin = posixpath.normpath(posixpath.join(source or ".", path[len(target.rstrip("/")) + 1 :]))
        pattern = session.ignore.ignoring(origin)
        if pattern is not None and origin in session.folder.files:
            message = f"{spelled} is not in the image: `{pattern.text}` leaves it out of the build context"
            help_ = f"Take it back in {session.ignore.file}, with a line `!{origin}`."
            session.report("E811", message, place, help_, f"{session.ignore.file}:{pattern.line}:1: {pattern.text}")
            return True
    return False


def copy_files(machine: Machine, act: Copy, place: Place) -> None:
    """Put files where `cp` and its like put them."""
    image = machine.image
    target = joined(machine.state.cwd, act.target)
    into = act.into or _is_folder(machine, target, act)
    for spelled in act.sources:
        if "://" in spelled or (act.how == "rsync" and ":" in spelled):
            continue
        source = joined(machine.state.cwd, spelled)
        files = need(machine, spelled, place)
        if not files:
            _put(machine, posixpath.join(target, posixpath.basename(source)) if into else target, "", act.how, place)
            continue
        globbed = bool(GLOB & set(spelled))
        contents = spelled.endswith("/.") or (act.how == "rsync" and spelled.endswith("/"))
        for file in files[:MAX_FILES]:
            base = posixpath.dirname(source) if globbed or file == source else source
            inner = posixpath.relpath(file, base) if not globbed else _after_glob(file, source)
            if file == source:
                end = posixpath.join(target, posixpath.basename(file)) if into else target
            elif globbed or contents or not (into or image.find(target)[0] is Presence.HERE):
                end = posixpath.join(target, inner)
            else:
                end = posixpath.join(target, posixpath.basename(source), inner)
            _put(machine, end, image.files.get(file, ""), act.how, place)
            if act.moves:
                image.files.pop(file, None)


def _after_glob(file: str, source: str) -> str:
    depth = source.count("/")
    return "/".join(file.split("/")[depth:])


def _is_folder(machine: Machine, target: str, act: Copy) -> bool:
    """Tell whether a copy goes into a folder; of a package's folders the name alone tells."""
    image = machine.image
    if target in image.files:
        return False
    if any(name.startswith(f"{target.rstrip('/')}/") for name in image.files) or target in image.copied:
        return True
    source = posixpath.basename(act.sources[0].rstrip("/"))
    return "." in source and "." not in posixpath.basename(target.replace("${", "").replace("}", ""))


def _put(machine: Machine, path: str, origin: str, how: str, place: Place) -> None:
    image = machine.image
    if is_known(path):
        image.put(path, origin)
    if package_key(path) or origin.endswith(".py"):
        image.events.append(Put(path, place, origin, how))
    if origin:
        machine.session.deployed.setdefault(origin, path)
        if origin.endswith(".py") and package_key(path):
            machine.session.pythons[origin] = (machine.python, True)
