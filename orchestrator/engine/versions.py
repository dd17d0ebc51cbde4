"""Two versions of a pipeline side by side: which values, facts and locked definitions differ between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.claims import code_of, included
from orchestrator.spec.pins import pin, wheel_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.engine.lock import Lock
    from orchestrator.spec.target import Target

SERVING_FACTS = frozenset(["server", "memory_runs", "required_env", "refused_env", "read_env"])
"""Facts of the target by which run configurations are judged, and nothing else."""
WHOLE_TARGET = "*"
"""In place of a key of the target: one of two versions has none that can be read."""
_VALUES = frozenset(["device", "model", "engine"])


@dataclass(frozen=True)
class Version:
    """One version: the document as YAML has it, nothing filled in; its target, its lock, and its files.

    `document` is empty where the pipeline is not there, or no mapping; `target` is None where it cannot be read.
    """

    document: Mapping[str, Any]
    target: Target | None
    lock: Lock | None
    read: Callable[[str], bytes | None]
    real: Callable[[str], str] = lambda path: path
    """Path of the workspace → the one that it leads to by links."""
    further: Mapping[str, Target | None] = field(default_factory=dict)
    """The files of `targets:` → what they say, None where one cannot be read."""

    def both(self, other: Version) -> list[tuple[Target | None, Target | None]]:
        """Return each target as it is here and in another version, the first and the further ones."""
        files = sorted({*self.further, *other.further})
        return [(self.target, other.target), *((self.further.get(f), other.further.get(f)) for f in files)]

    def stages(self) -> dict[str, Mapping[str, Any]]:
        """Return the stages by id, in the order in which they stand."""
        return {str(stage.get("id")): stage for stage in mappings(self.document.get("stages"))}


def mappings(data: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; [] for anything else, which a version that is not valid may hold."""
    return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []


def table(data: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return data if isinstance(data, dict) else {}


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values differ, sorted; True and 1 are different values."""
    absent = object()
    return sorted(key for key in {*old, *new} if repr(old.get(key, absent)) != repr(new.get(key, absent)))


def changed_values(old: Version, new: Version) -> list[str]:
    """Return the dotted names of parameters and figures that differ, those that a variant sets otherwise included."""
    names = {f"params.{key}" for key in differing(table(old.document.get("params")), table(new.document.get("params")))}
    before, after = table(old.document.get("variants")), table(new.document.get("variants"))
    for variant in differing(before, after):
        names |= {f"params.{key}" for key in differing(table(before.get(variant)), table(after.get(variant)))}
    for one, two in old.both(new):
        if one and two:
            names |= set(differing(one.values(), two.values())) | (one.unknown() ^ two.unknown())
    return sorted(names)


def changed_facts(old: Version, new: Version) -> list[str]:
    """Return the keys of the targets, figures aside, that differ in any of them."""
    found: set[str] = set()
    for one, two in old.both(new):
        if one is None or two is None:
            found |= set() if one is two else {WHOLE_TARGET}
        else:
            found |= {key for key in differing(one.model_dump(), two.model_dump()) if key not in _VALUES}
    return sorted(found)


def locked_links(lock: Lock | None) -> dict[str, set[tuple[str, ...]]]:
    """Return by stage what a lock holds of the definitions that it touches; the file comes first."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for base, chain in lock.bases.items() if lock else ():
        for link in chain.links:
            entry = (link.definition.file, link.definition.name, base, str(link.before), str(link.after))
            found.setdefault(link.stage, set()).add(entry)
    return found


def template_closure(name: str, versions: tuple[Version, ...]) -> tuple[frozenset[str], str]:
    """Return a template and all that it includes, and what jinja reads of them, in any of the versions."""
    seen: set[str] = set()
    code: list[str] = []
    pending = [name]
    while pending:
        path = pending.pop()
        bodies = [] if path in seen else [body for body in (v.read(path) for v in versions) if body is not None]
        for body in bodies:
            seen.add(path)
            text = body.decode("utf-8", errors="replace")
            code.append(code_of(text))
            pending += [other for other in sorted(included(text)) if "." in other or "/" in other]
    return frozenset({name, *seen}), "\n".join(code)


def speaks_of(code: str, name: str) -> bool:
    """Tell whether a template's code uses a dotted value, or its whole section, in which the value may be meant."""
    section, _, key = name.partition(".")
    return re.search(rf"\b{section}\b(?!\s*\.\s*(?!{re.escape(key)}\b)\w)", code) is not None


def brings(path: str, requirement: str) -> bool:
    """Tell whether a file of the workspace is the wheel that a requirement `NAME==VERSION` means."""
    try:
        (name, version), wanted = wheel_name(path), pin(requirement)
    except Rejected:
        return False
    return path.startswith("wheels/") and (canonicalize_name(name), version) == (
        canonicalize_name(wanted[0]),
        wanted[1],
    )
