"""Which releases a pipeline is bumped to: single ones, and ranges held against the index."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from orchestrator.cli.bases import Wanted, projects
from orchestrator.cli.steps import Stopped
from orchestrator.core.diagnostics import Diagnostic, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.version import Version

    from orchestrator.cli.bases import Prepared


def wanted_releases(prepared: Prepared, texts: Sequence[str], *, newest_patch: bool) -> list[Wanted]:
    """Return the bases that `--to` asks for; a range is held against the index.

    Stops (usage) for what is no release, and where the index cannot be asked.
    """
    from orchestrator.origin.pinned import cache_folder
    from orchestrator.origin.sdist import releases

    request = prepared.request
    environment = request.environment or dict(os.environ)
    found: list[Wanted] = []
    for text in texts:
        requirement = _requirement(prepared, text)
        pins = [s for s in requirement.specifier if s.operator in {"==", "==="} and not s.version.endswith(".*")]
        if len(requirement.specifier) == 1 and pins:
            release = f"{requirement.name}=={pins[0].version}"
            found.append(Wanted(release, release=release))
            continue
        known = releases(requirement.name, cache_folder(environment), offline=request.offline, environment=environment)
        inside = {
            v: has for v, has in known.items() if requirement.specifier.contains(v, prereleases=_asked(requirement))
        }
        if not requirement.specifier:
            inside = {v: has for v, has in inside.items() if v == max((x for x in inside if inside[x]), default=v)}
        if not inside:
            where = " that is in the cache" if request.offline else ""
            near = f"{_near(known)}{' Without --offline the index is asked.' if request.offline else ''}"
            raise _stopped(f"--to {text}: no release of {requirement.name}{where} fits", near.strip())
        chosen = _newest_patches(inside) if newest_patch else sorted(inside)
        found += [_of_index(requirement.name, version, has=inside[version]) for version in chosen]
    return list({wanted.name: wanted for wanted in found}.values())


def _asked(requirement: Requirement) -> bool | None:
    return True if requirement.specifier.prereleases else None


def _requirement(prepared: Prepared, text: str) -> Requirement:
    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise _stopped(f"--to {text}: {str(error).splitlines()[0]}", "Write NAME==VERSION or a range.") from None
    if found.url or found.extras or found.marker:
        raise _stopped(f"--to {text}: more than a name and versions", "Write NAME==VERSION or a range.")
    known = projects(prepared)
    if canonicalize_name(found.name) not in known:
        raise _stopped(
            f"--to {text}: no package root of the target comes from {found.name}", did_you_mean(found.name, known)
        )
    return found


def _stopped(message: str, help_: str) -> Stopped:
    return Stopped.usage("E135", message, help_)


def _near(known: Iterable[Version]) -> str:
    newest = sorted(known)[-5:]
    return f"The newest are {', '.join(map(str, newest))}." if newest else ""


def _newest_patches(inside: Mapping[Version, bool]) -> list[Version]:
    """Return for every minor release the newest patch that has a source, else the newest."""
    minors: dict[tuple[int, ...], list[Version]] = {}
    for version in sorted(inside):
        minors.setdefault((version.epoch, *version.release[:2]), []).append(version)
    return [max((v for v in versions if inside[v]), default=versions[-1]) for versions in minors.values()]


def _of_index(name: str, version: Version, *, has: bool) -> Wanted:
    release = f"{name}=={version}"
    if has:
        return Wanted(release, release=release)
    message = f"the index has {release} without a source distribution"
    help_ = "Leave it out with `!=`, or hand its package over with --tree."
    return Wanted(release, missing=(Diagnostic("E303", message, help=help_),))
