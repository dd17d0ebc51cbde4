"""What a stage says about releases of its base: until when it may stand, what may become of it, what ends it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, Field

from orchestrator.spec.model import Because, Model


class Fate(StrEnum):
    """What becomes of an edit, a deployed file, a wheel or the checks of a stage on another base."""

    EXACT = "exact"
    ADAPTED = "adapted"
    PRESENT = "already present"
    FIXED = "fixed upstream"
    MOVED = "moved"
    GONE = "gone"
    AMBIGUOUS = "ambiguous"
    CONFLICT = "conflict"
    CHECK_FAILED = "check failed"
    NOT_REACHED = "not reached"
    OFF = "off"


def _release(text: str) -> str:
    try:
        Version(text)
    except InvalidVersion:
        raise ValueError(f"'{text}' is not a version such as 0.8.5") from None
    return text


def _releases(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f"'{text}' is not a set of versions such as >=0.6.4,<0.8") from None
    return text


Release = Annotated[str, Field(min_length=1), AfterValidator(_release)]
Releases = Annotated[str, Field(min_length=1), AfterValidator(_releases)]
Expected = Annotated[
    Fate,
    Field(
        strict=False,
        description="what `bump` finds: " + ", ".join(f"`{fate}`" for fate in Fate if fate not in {"exact", "off"}),
    ),
]


class Expectation(Model):
    """A verdict of `bump` that is known and right, with the reason and the release up to which that was looked at."""

    verdict: Expected
    on: Annotated[Releases | None, Field(description="releases of the base, `>=0.6.5,<0.8`; all if absent")] = None
    because: Because
    until: Annotated[Release, Field(description="the last release for which this holds")]

    def covers(self, fate: Fate, version: str) -> bool:
        """Tell whether this speaks of a verdict on a release of the base."""
        inside = self.on is None or SpecifierSet(self.on).contains(version, prereleases=True)
        return fate is self.verdict and inside

    def over(self, version: str) -> bool:
        """Tell whether a release is later than this holds."""
        return is_past(version, self.until)


def is_past(version: str, last: str) -> bool:
    """Tell whether a release is later than another; what a builder added behind a `+` does not count."""
    return Version(Version(version).public) > Version(last)
