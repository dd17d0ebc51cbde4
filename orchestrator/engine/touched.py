"""Which stages, edits, files of the tree and artefacts a difference between two versions reaches.

The versions are compared as YAML has them, so that comments, quotes and the order of keys reach nothing, and so that
a version which is no longer valid can be compared as well.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from orchestrator.engine.claims import BUILD_TEMPLATES
from orchestrator.engine.reach import Part, Reach, stage_parts, unnumbered
from orchestrator.engine.versions import (
    SERVING_FACTS,
    WHOLE_TARGET,
    brings,
    changed_facts,
    changed_values,
    differing,
    locked_links,
    speaks_of,
    template_closure,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from orchestrator.engine.versions import Version

IMAGE = "(image)"
EVERY = "(every stage)"
"""In place of a stage's id: what belongs to the build as a whole; what is judged anew, though no byte need change."""
_GROUND = frozenset(["base", "roots", WHOLE_TARGET])
_WHOLE = frozenset(["enabled", "upstream", "when", "needs", "after", "one_of", "kind"])
"""Keys that decide whether, and after what, all of a stage happens."""
_SWITCHES = frozenset(["enabled", "upstream", "when"])
_PARTS = ("edits", "deploy", "render", "wheels")


def touched(
    old: Version, new: Version, changed: frozenset[str], below: Mapping[str, str] | None = None
) -> tuple[Reach, ...]:
    """Return what is reached, a stage each, in the order of the new version; then stages that are gone, then the image.

    `changed` are the paths of the workspace that differ. `below` are files of the base tree that another workspace
    makes and that are reached there, each with the reason; "" stands for all of them.
    """
    return _Comparison(old, new, changed, below or {}).reached()


class _Comparison:
    def __init__(self, old: Version, new: Version, changed: frozenset[str], below: Mapping[str, str]) -> None:
        self.old, self.new, self.changed, self.below = old, new, changed, below
        self.before, self.after = old.stages(), new.stages()
        self.found = {id_: Reach(id_) for id_ in (*self.after, *self.before, EVERY, IMAGE)}
        self.values = changed_values(old, new)
        self.provided: list[str] = []

    def reached(self) -> tuple[Reach, ...]:
        self.definitions()
        for id_, stage in self.after.items():
            self.sources(id_, stage)
            self.use_of_values(id_, stage)
        self.facts()
        self.locks()
        self.base()
        self.provisions()
        self.image()
        return tuple(reach for reach in self.found.values() if reach.reasons)

    def definitions(self) -> None:
        """What stands in the YAML about each stage."""
        for id_, stage in self.before.items():
            if id_ not in self.after:
                self.found[id_].add("the stage is gone", [unnumbered(part) for part in stage_parts(stage)])
                self.provided += [id_] if stage.get("provides") else []
        for id_, stage in self.after.items():
            if id_ not in self.before:
                self.found[id_].add("the stage is new", stage_parts(stage))
                self.provided += [id_] if stage.get("provides") else []
                continue
            for key in differing(self.before[id_], stage):
                self.key(id_, key)
        common = [id_ for id_ in self.after if id_ in self.before]
        former = [id_ for id_ in self.before if id_ in self.after]
        for tag, _, _, start, end in difflib.SequenceMatcher(None, former, common, autojunk=False).get_opcodes():
            for id_ in common[start:end] if tag in {"insert", "replace"} else ():
                self.found[id_].add("the stage stands at another place", stage_parts(self.after[id_]))

    def key(self, id_: str, key: str) -> None:
        """One key of a stage that differs."""
        new = stage_parts(self.after[id_])
        if key in _PARTS:
            old = stage_parts(self.before[id_])
            self.entries(id_, key, [p for p in old if p.key == key], [p for p in new if p.key == key])
            return
        self.found[id_].add(f"`{key}` has changed", new if key in _WHOLE else ())
        switches = key in _SWITCHES and self.after[id_].get("provides")
        if switches or key == "provides":
            self.provided.append(id_)

    def entries(self, id_: str, key: str, old: list[Part], new: list[Part]) -> None:
        before, after = [_text(p.data) for p in old], [_text(p.data) for p in new]
        fresh = [part for part, text in zip(new, after, strict=True) if text not in before]
        gone = [part for part, text in zip(old, before, strict=True) if text not in after]
        for part in fresh:
            self.found[id_].add(
                f"edit {part.number} has changed" if part.number else f"{part.name} has changed", [part]
            )
        for part in gone:
            self.found[id_].add(f"{part.name} is not as it was", [unnumbered(part)])
        if not (fresh or gone):
            self.found[id_].add(f"the order of `{key}` has changed", new)

    def sources(self, id_: str, stage: Mapping[str, Any]) -> None:
        """The files that a stage names, and those that its templates include."""
        for part in stage_parts(stage):
            closure = template_closure(part.source, (self.old, self.new))[0] if part.is_template else None
            files = frozenset([part.source]) if closure is None else closure
            for path in self.differ(files) if part.source else ():
                self.found[id_].add(f"{path} has changed", [part])
            for path in sorted(path for path in self.changed if part.key == "wheels" and brings(path, part.source)):
                self.found[id_].add(f"{path} has changed", [part])

    def differ(self, files: frozenset[str]) -> list[str]:
        """Return those of some files that have changed, themselves or what a link leads to."""
        return sorted(path for path in files if {path, self.new.real(path)} & self.changed)

    def use_of_values(self, id_: str, stage: Mapping[str, Any]) -> None:
        """The values that differ, where the stage or one of its templates uses them."""
        rest = {key: value for key, value in stage.items() if key not in _PARTS}
        for name in self.values:
            parts = [part for part in stage_parts(stage) if self.uses(part, name)]
            where = [key for key, value in rest.items() if _reference(name) in _text(value)]
            if _WHOLE & set(where):
                parts = stage_parts(stage)
            if parts or where:
                self.found[id_].add(f"{name} has changed", parts)
            if stage.get("provides") and (_SWITCHES | {"provides"}) & set(where):
                self.provided.append(id_)

    def uses(self, part: Part, name: str) -> bool:
        inside = part.is_template and speaks_of(template_closure(part.source, (self.new,))[1], name)
        return inside or (part.key != "render" and _reference(name) in _text(part.data))

    def facts(self) -> None:
        """The facts of the target: what a run starts from, what judges run configurations, what all rules use."""
        for fact in changed_facts(self.old, self.new):
            reason = f"the target's `{fact}` has changed" if fact != WHOLE_TARGET else "the target is another one"
            for id_, stage in self.after.items():
                parts = stage_parts(stage)
                if fact in SERVING_FACTS:
                    parts = [part for part in parts if part.data.get("schema") == "run-config"]
                elif fact not in _GROUND:
                    parts = [part for part in parts if part.is_template and fact == "name"]
                if parts:
                    self.found[id_].add(reason, parts)
            if fact in {*_GROUND, "image", "name"}:
                self.found[IMAGE].add(reason, [_DOCKERFILE])
            if fact not in {*_GROUND, *SERVING_FACTS, "name"}:
                self.found[EVERY].add(f"{reason}: the rules judge all stages anew")

    def locks(self) -> None:
        """What the lock says of each stage's definitions, of its sources, and of what all stages start from."""
        before, after = locked_links(self.old.lock), locked_links(self.new.lock)
        for id_, stage in self.after.items():
            links = before.get(id_, set()) ^ after.get(id_, set())
            if links:
                files = [Part("lock", {}, file=link[0]) for link in sorted(links)]
                self.found[id_].add("the lock holds other definitions", files)
            old, new = (lock.sources if lock else {} for lock in (self.old.lock, self.new.lock))
            for part in stage_parts(stage):
                if part.source and old.get(part.source) != new.get(part.source):
                    self.found[id_].add(f"the lock holds another {part.source}", [part])
        old, new = (lock.inputs if lock else {} for lock in (self.old.lock, self.new.lock))
        for name in differing(old, new):
            for id_, stage in self.after.items():
                self.found[id_].add(f"the lock holds another input {name}", stage_parts(stage))

    def base(self) -> None:
        """The files of the base that another workspace makes, where a stage writes one of them."""
        for id_, stage in self.after.items():
            for file, why in self.below.items():
                parts = [part for part in stage_parts(stage) if part.file and file in {"", part.file}]
                if parts:
                    self.found[id_].add(why, parts)

    def provisions(self) -> None:
        """The artefacts whose templates use what stages provide, where one provides something else."""
        for id_, stage in self.after.items() if self.provided else ():
            for part in stage_parts(stage):
                if part.key == "render" and speaks_of(template_closure(part.source, (self.new,))[1], "provided."):
                    by = ", ".join(f"'{other}'" for other in dict.fromkeys(self.provided))
                    self.found[id_].add(f"what {by} provides has changed", [part])

    def image(self) -> None:
        """The templates of the build, and the name that it carries."""
        for template, artefact in zip(BUILD_TEMPLATES, ("Dockerfile", ".dockerignore"), strict=True):
            files, _ = template_closure(template, (self.old, self.new))
            for path in self.differ(files):
                self.found[IMAGE].add(f"{path} has changed", [Part("render", {}, artefact=artefact)])
        if self.old.document.get("name") != self.new.document.get("name"):
            self.found[IMAGE].add("the pipeline has another name", [_DOCKERFILE])


_DOCKERFILE = Part("render", {}, artefact="Dockerfile")


def _text(data: object) -> str:
    return json.dumps(data, sort_keys=True, ensure_ascii=False, default=repr)


def _reference(name: str) -> str:
    return f"${{{name}}}"


def files_below(reaches: Iterable[Reach], folder: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a base that the reaches of the workspace which makes it are about, each with the reason."""
    for reach in reaches:
        if reach.stage in {EVERY, IMAGE}:
            continue
        why = f"base {folder}: stage '{reach.stage}' is reached"
        yield from ((file, why) for file in sorted(reach.files))
