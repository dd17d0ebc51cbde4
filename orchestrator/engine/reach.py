"""What a stage is made of, part by part, and what of it a difference reaches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orchestrator.engine.versions import mappings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass
class Reach:
    """What of one stage is reached, and why. Edits count from 1; an edit that is gone has no number."""

    stage: str
    reasons: list[str] = field(default_factory=list)
    edits: set[int] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    artefacts: set[str] = field(default_factory=set)

    def add(self, reason: str, parts: Iterable[Part] = ()) -> None:
        """Add a reason and the parts of the stage that it is about."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        for part in parts:
            self.edits |= {part.number} if part.number else set()
            self.files |= {part.file} if part.file else set()
            self.artefacts |= {part.artefact} if part.artefact else set()

    def record(self) -> dict[str, Any]:
        """Return plain data for JSON output."""
        return {
            "event": "touched",
            "stage": self.stage,
            "reasons": self.reasons,
            "edits": sorted(self.edits),
            "files": sorted(self.files),
            "artefacts": sorted(self.artefacts),
        }


@dataclass(frozen=True)
class Part:
    """An edit, a deployed file, an artefact or a wheel of a stage, and the source that it comes from."""

    key: str
    data: Mapping[str, Any]
    number: int = 0
    file: str = ""
    artefact: str = ""
    source: str = ""

    @property
    def is_template(self) -> bool:
        """Whether its source is filled in: then files that it includes and values that it uses count as well."""
        return "template" in self.data

    @property
    def name(self) -> str:
        """What people call it."""
        if self.key == "edits":
            return f"edit of {self.file}"
        return f"{self.key} of {self.source or self.file or self.artefact}"


def stage_parts(stage: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a stage as its YAML has them, valid or not."""
    found = []
    for number, edit in enumerate(mappings(stage.get("edits")), 1):
        named = edit.get("op") == "transform" and "." not in str(edit.get("use", "."))
        source = f"stages/{edit['use']}.py" if named else ""
        found.append(Part("edits", edit, number, file=str(edit.get("file", "")), source=source))
    found += [
        Part(
            "deploy",
            deploy,
            file=str(deploy.get("to", "")),
            source=str(deploy.get("source") or deploy.get("template") or ""),
        )
        for deploy in mappings(stage.get("deploy"))
    ]
    for render in mappings(stage.get("render")):
        template = str(render.get("template", ""))
        found.append(Part("render", render, artefact=str(render.get("to", "")), source=template))
    for wheel in mappings(stage.get("wheels")):
        source = str(wheel.get("source") or wheel.get("requirement") or "")
        found.append(Part("wheels", wheel, source=source))
    return found


def unnumbered(part: Part) -> Part:
    """Return a part of the old version: it has no number in the new one."""
    return replace(part, number=0)
