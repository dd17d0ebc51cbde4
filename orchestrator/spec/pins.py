"""What the name of a wheel, or a requirement, says: one distribution in one version."""

from __future__ import annotations

from pathlib import PurePosixPath

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from orchestrator.core.diagnostics import Diagnostic, Rejected


def wheel_name(file: str) -> tuple[str, str]:
    """Return (name, version) that the name of a wheel file states; raise `Rejected` (E240) where it is no such name."""
    try:
        name, version, _, _ = parse_wheel_filename(PurePosixPath(file).name)
    except InvalidWheelFilename as error:
        help_ = "Keep the name that the wheel was built with: NAME-VERSION-TAGS.whl."
        raise Rejected(Diagnostic("E240", f"'{file}' is not the name of a wheel: {error}", help=help_)) from None
    return name, str(version)


def pin(requirement: str) -> tuple[str, str]:
    """Return (name, version) of `NAME==VERSION`; raise `Rejected` (E240) where the version is none."""
    name, _, version = requirement.partition("==")
    try:
        return name, str(Version(version))
    except InvalidVersion:
        help_ = "Write NAME==VERSION, as the index has it."
        raise Rejected(Diagnostic("E240", f"'{version}' is not a version", help=help_)) from None
