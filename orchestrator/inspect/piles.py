"""Copies of one module in a folder of which only one goes into the image, and markers that prove nothing."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from orchestrator.code.likeness import Body
from orchestrator.core.diagnostics import Place, Severity
from orchestrator.inspect.paths import package_key, tail
from orchestrator.inspect.session import Sign

if TYPE_CHECKING:
    from orchestrator.inspect.session import Session

_ELSEWHERE = frozenset(
    [
        "tests",
        "test",
        "examples",
        "example",
        "docs",
        "doc",
        "build",
        "dist",
        "node_modules",
        ".venv",
        "venv",
        ".git",
        "__pycache__",
        "vendor",
        "third_party",
    ]
)
MIN_BODY = 200
ALIKE = 0.5


def judge_copies(session: Session) -> None:
    """Report copies of a deployed module that nothing deploys: an edit of one of them has no effect."""
    folder = session.folder
    deployed = [name for name, path in session.deployed.items() if name.endswith(".py") and package_key(path)]
    others = [
        name
        for name in folder.files
        if name.endswith(".py")
        and name not in session.deployed
        and not session.pythons.get(name, (None, False))[1]
        and not _ELSEWHERE & set(name.split("/")[:-1])
    ]
    bodies = {name: folder.read(name) or b"" for name in [*deployed, *others]}
    for other in sorted(others):
        twin = next(
            (name for name in sorted(deployed) if _are_twins(name, other, session.deployed[name], bodies)), None
        )
        if twin is None:
            continue
        message = f"this is a copy of {twin}, and only that one goes into the image: changes here have no effect"
        help_ = "Remove it, or deploy it; one module has one file."
        session.report(
            "W812", message, Place(other), help_, f"{session.deployed[twin]} gets {twin}", severity=Severity.WARNING
        )


def _are_twins(name: str, other: str, target: str, bodies: dict[str, bytes]) -> bool:
    a, b = bodies[name], bodies[other]
    if len(a) >= MIN_BODY and a.split() == b.split():
        return True
    if posixpath.basename(other) == "__init__.py":
        return False
    key = package_key(target)
    if "/" in other and tail(other) in {tail(name), tail(key)}:
        return True
    return posixpath.basename(name) == posixpath.basename(other) and Body(a).likeness(Body(b)) >= ALIKE


def judge_markers(session: Session) -> None:
    """Report what is taken for "already applied" and is true of the original as well."""
    found = list(session.signs)
    for facts in session.facts.values():
        found += [Sign(text, path, place) for text, path, place in facts.markers]
        found += [Sign("", path, place) for path, place in facts.present if package_key(path)]
    for sign in found:
        for name, content in _originals(session, sign.path):
            if not sign.text:
                message = (
                    f"that {package_key(sign.path) or sign.path} is there is taken for a sign that the patch is in"
                )
                help_ = "The original has it too, so the patch never applies: compare digests."
                session.report("E832", message, sign.place, help_, name)
            elif sign.text.encode() in content:
                line = content[: content.index(sign.text.encode())].count(b"\n") + 1
                message = f"{sign.text[:60]!r} is taken for a sign that the patch is in, but the original has it too"
                help_ = "The patch never applies: ask for text that only the patched file has, or compare digests."
                session.report("E832", message, sign.place, help_, f"{name}:{line}")
    for facts in session.facts.values():
        for anchor, path, place in facts.anchors:
            for name, content in _originals(session, path):
                if session.tree and name in session.tree and anchor.encode() not in content:
                    session.report(
                        "E830", f"{anchor[:60]!r} is not in {name}", place, "Make the patch for this state of the file."
                    )


def _originals(session: Session, path: str) -> list[tuple[str, bytes]]:
    """Return the unpatched file that a path means: of the tree that was given, or of the folder."""
    key = package_key(path)
    if key:
        wanted = key.removeprefix("?").lstrip("/")
        found = [name for name in session.tree if name == key or (key.startswith("?") and name.endswith(f"/{wanted}"))]
        return [(name, session.tree[name]) for name in found] if len(found) == 1 else []
    origin = next((o for o, target in session.deployed.items() if target == path), None)
    content = session.folder.read(origin) if origin else None
    return [(origin, content)] if origin and content is not None else []
