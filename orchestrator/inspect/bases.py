"""What FROM says of an image: whether it is pinned, and which Python it has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Severity
from orchestrator.inspect.paths import is_known

if TYPE_CHECKING:
    from orchestrator.inspect.build import Stage
    from orchestrator.inspect.session import Session

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_PYTHON_IMAGE = re.compile(r"(?:^|/)(?:python|pypy)(?:@|:(?:[\w.]*-)?(\d+)\.(\d+)|:|$)")
_IN_NAME = re.compile(r"(?:^|[^a-z0-9])(?:python|py|cp)-?_?(3)\.?(\d{1,2})(?![\d])", re.IGNORECASE)


def is_pinned(image: str) -> bool:
    """Tell whether a reference names one image for good."""
    return image == "scratch" or bool(_DIGEST.search(image))


def python_of(image: str) -> tuple[int, int] | None:
    """Return the Python version that a reference tells, in the tag of an official image or in any name."""
    match = _PYTHON_IMAGE.search(image)
    if match and match[1]:
        return int(match[1]), int(match[2])
    match = _IN_NAME.search(image)
    return (int(match[1]), int(match[2])) if match else None


def report_bases(session: Session, stages: list[Stage], *, patched: bool, verified: bool) -> None:
    """Say which bases may change under the patches."""
    for stage in stages:
        if not stage.external or is_pinned(stage.base) or not is_known(stage.base):
            continue
        message = f"{stage.base} is not pinned: its tag may name another image tomorrow"
        if verified:
            notes = ("the build checks the originals against digests, so another image would be refused",)
            session.report("W816", message, stage.place, "", *notes, severity=Severity.NOTE)
            continue
        made = ("the patches were made for one state of it",) if patched else ()
        session.report(
            "W816", message, stage.place, "Add its digest: `IMAGE:TAG@sha256:…`.", *made, severity=Severity.WARNING
        )
