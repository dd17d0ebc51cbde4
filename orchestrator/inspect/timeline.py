"""What the order of events says: a later step that undoes, replaces or endangers what an earlier one did."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Severity
from orchestrator.inspect.paths import is_same, package_key, package_name, tail
from orchestrator.inspect.weights import is_python_path
from orchestrator.inspect.world import Edit, Entry, Event, Fetch, Install, Put, Verified

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place
    from orchestrator.inspect.session import Session

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_STARTUP = re.compile(r"/(?:(?:site|user)customize\.py|[^/]+\.pth)$")
_REFRESH = frozenset({"-U", "--upgrade", "--force-reinstall", "--reinstall", "-I", "--ignore-installed"})


def is_patch(event: Event) -> bool:
    """Tell whether an event changes an installed package."""
    return isinstance(event, Put | Edit) and bool(package_key(event.path))


def judge_events(session: Session, events: list[Event]) -> None:
    """Report what the order of one stage's events is wrong about."""
    _overwrites(session, events)
    _package_inits(session, events)
    _reinstalls(session, events)
    _network(session, events)
    _entries(session, events)


def is_verified(events: list[Event]) -> bool:
    """Tell whether files are held against digests in the build."""
    return any(isinstance(event, Verified) for event in events)


def _overwrites(session: Session, events: list[Event]) -> None:
    earlier: list[Put | Edit] = []
    for event in events:
        if not isinstance(event, Put | Edit):
            continue
        if isinstance(event, Put) or event.whole:
            for before in earlier:
                same_file = isinstance(before, Put) and isinstance(event, Put) and before.origin == event.origin
                if before.place == event.place or same_file or not is_same(before.path, event.path):
                    continue
                if isinstance(before, Put) and not package_key(event.path):
                    continue
                what = f"edited ({before.how})" if isinstance(before, Edit) else "replaced"
                who = "this copy" if isinstance(event, Put) else f"this {event.how}"
                message = f"{who} replaces {_shown(event.path)}, which an earlier step {what}"
                help_ = "Copy first and edit afterwards, or bring both changes into one file."
                session.report("E833", message, event.place, help_, f"{before.place}: the step whose work is lost")
                break
        earlier.append(event)


def _shown(path: str) -> str:
    return package_key(path).removeprefix("?/") or path


def _package_inits(session: Session, events: list[Event]) -> None:
    for event in events:
        if isinstance(event, Edit | Put) and _STARTUP.search(event.path) and package_key(event.path):
            message = f"{_shown(event.path)} runs at every start of Python, before all packages"
            help_ = "Patch the module that is meant; if it must be here, write down why."
            session.report("W813", message, event.place, help_, severity=Severity.WARNING)
            continue
        if (
            not isinstance(event, Edit | Put)
            or posixpath.basename(event.path) != "__init__.py"
            or not package_key(event.path)
        ):
            continue
        if isinstance(event, Put) and not _is_in_tree(session, event.path):
            continue
        message = (
            f"{_shown(event.path)} is the `__init__` of a package: what is added there runs before everything else"
        )
        help_ = "Patch the module that is meant; if it must be here, write down why."
        session.report("W813", message, event.place, help_, severity=Severity.WARNING)


def _is_in_tree(session: Session, path: str) -> bool:
    key = package_key(path)
    return key in session.tree or (key.startswith("?") and any(name.endswith(key[1:]) for name in session.tree))


def _patched_names(events: list[Event]) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for event in events:
        if isinstance(event, Put | Edit) and (name := package_name(event.path)):
            found.setdefault(name.lower().replace("_", "-"), event.place)
    return found


def requirement_name(text: str) -> str:
    """Return the distribution that a requirement, a wheel or an address names, normalised."""
    base = posixpath.basename(text) if text.endswith((".whl", ".tar.gz", ".zip")) else text
    match = re.search(r"[#&]egg=([\w.-]+)", text) or re.match(r"([A-Za-z0-9][\w.-]*?)\s*@\s", text)
    name = match[1] if match else (base.split("-")[0] if base != text or base.endswith(".whl") else "")
    if not name:
        found = _NAME.match(text)
        name = found[0] if found and "/" not in text else posixpath.basename(text.rstrip("/")).removesuffix(".git")
    return re.sub(r"[-_.]+", "-", name).lower()


def _reinstalls(session: Session, events: list[Event]) -> None:
    for at, event in enumerate(events):
        if not isinstance(event, Install):
            continue
        patched = _patched_names([e for e in events[:at] if is_patch(e)])
        if not patched:
            continue
        named = {requirement_name(name): name for name in event.names}
        hit = next((name for name in named if name in patched), None)
        help_ = "Install before the patches, or not at all."
        if hit is not None:
            message = f"{event.how} of {named[hit]} after patches of it: they are lost, or mixed with another version"
            session.report("E834", message, event.place, help_, f"{patched[hit]}: a patch of {hit}")
        elif _REFRESH & set(event.options) and "--no-deps" not in event.options:
            shown = ", ".join(sorted(patched))
            message = (
                f"{event.how} with an upgrade of dependencies, after patches of {shown}: it may install {shown} anew"
            )
            session.report(
                "E834", message, event.place, f"{help_} `--no-deps` keeps to what is named.", severity=Severity.WARNING
            )


def _network(session: Session, events: list[Event]) -> None:
    first = next((at for at, event in enumerate(events) if is_patch(event)), None)
    if first is None:
        return
    scripts = {event.place.file for event in events if is_patch(event) and isinstance(event, Put | Edit)}
    for at, event in enumerate(events):
        if not isinstance(event, Fetch) or event.pinned:
            continue
        if at < first and (event.place.file not in scripts or event.place.file == events[first].place.file == ""):
            continue
        if at < first and event.place.line < _first_line(events, event.place.file):
            continue
        message = f"{event.how} fetches over the network in the midst of the patches: what comes is not always the same"
        help_ = "Bring it in the build context, or fetch it earlier, by digest (`--require-hashes`, `--checksum`)."
        session.report("W814", message, event.place, help_, severity=Severity.WARNING)


def _first_line(events: list[Event], file: str) -> int:
    return min(
        (e.place.line for e in events if is_patch(e) and isinstance(e, Put | Edit) and e.place.file == file), default=0
    )


def _entries(session: Session, events: list[Event]) -> None:
    put = [event.path for event in events if isinstance(event, Put)]
    put += [event.path for event in events if isinstance(event, Edit)]
    for event in events:
        if not isinstance(event, Entry):
            continue
        module = event.module.replace(".", "/")
        endings = (f"/{module}.py", f"/{module}/__init__.py")
        if any(path.endswith(endings) or path in {e[1:] for e in endings} for path in put):
            continue
        if any(f"/{name}".endswith(endings) for name in session.tree):
            continue
        here = [name for name in session.folder.files if f"/{name}".endswith(endings)]
        message = f"the entry {event.name!r} names the module {event.module!r}, which no step puts into the image"
        if session.tree or here:
            notes = (
                (f"{here[0]} is in the folder, and nothing copies it",) if here else ("it is not in the tree either",)
            )
            session.report("E835", message, event.place, "Copy the module, or remove the entry.", *notes)
        else:
            help_ = "Copy the module; or give the package's source with --tree, if the base image has it."
            session.report("E835", message, event.place, help_, severity=Severity.WARNING)


def judge_seds(session: Session) -> None:
    """Report `sed -i` on Python whose result nobody looks at: it succeeds when nothing matched."""
    for sed in session.seds:
        if any(is_same(sed.path, path) for path in session.looked_at) or not is_python_path(sed.path):
            continue
        message = f"sed -i leaves {_shown(sed.path)} as it is where nothing matches, and succeeds"
        help_ = "Look for the new text afterwards with `grep -q`, so that the build stops."
        severity = Severity.ERROR if package_key(sed.path) else Severity.WARNING
        session.report("E830", message, sed.place, help_, severity=severity)


def last_two(path: str) -> str:
    """Return the last two components of a path."""
    return tail(path, 2)
