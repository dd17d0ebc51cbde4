"""The lock: which image of which definition every stage was last seen to fit. Computed, never typed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from orchestrator.code.scopes import Definition
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.engine.outcome import Applied, Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchestrator.engine.outcome import Run

VERSION = 1


@dataclass(frozen=True)
class Pinned:
    """What is locked of an installed transform or check: the distribution's version, the digest of its source."""

    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.version} {_short(self.sha256)}"


@dataclass(frozen=True)
class Chain:
    """For each definition, its images from the base on: the links of all stages that touch it, in order."""

    links: tuple[Link, ...]

    def of_stage(self, stage: str) -> tuple[Link, ...]:
        """Return the links that a stage makes."""
        return tuple(link for link in self.links if link.stage == stage)

    def images(self, definition: Definition) -> tuple[str | None, ...]:
        """Return a definition's images in order, the base's first."""
        links = [link for link in self.links if link.definition == definition]
        return (links[0].before, *(link.after for link in links)) if links else ()

    def position(self, link: Link, current: str | None) -> int | None:
        """Return how many stages of the definition's chain `current` has behind it, None if it is no image of it."""
        images = self.images(link.definition)
        return images.index(current) if current in images else None

    def index(self, link: Link) -> int:
        """Return the position that the definition has right before `link`."""
        links = [other for other in self.links if other.definition == link.definition]
        return links.index(link)


@dataclass(frozen=True)
class Lock:
    """`pipeline.lock`: inputs, sources and, for each base digest, the chain."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    bases: Mapping[str, Chain] = field(default_factory=dict)
    base_names: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, Pinned] = field(default_factory=dict)
    """`transform NAME` or `check NAME` → the distribution's version and source."""

    def base_image(self, definition: Definition) -> frozenset[str | None]:
        """Return the images that a definition has in the locked bases; empty if it is not locked."""
        found = [chain.images(definition) for chain in self.bases.values()]
        return frozenset(images[0] for images in found if images)

    def with_base(self, digest: str, name: str, chain: Chain) -> Lock:
        """Return the lock with the chain of one base set."""
        names = {**self.base_names, digest: name}
        return replace(self, bases={**self.bases, digest: chain}, base_names=names)

    def accepting(self, digest: str, name: str, links: Iterable[Link], order: Sequence[str]) -> Lock:
        """Return the lock with what some stages meet in one base; what it holds of other stages and bases stays.

        `order` are the stages as the plan has them.
        """
        new = list(links)
        stages = {link.stage for link in new}
        kept = [link for link in self.bases[digest].links if link.stage not in stages] if digest in self.bases else []
        place = {stage: number for number, stage in enumerate(order)}
        chain = Chain(tuple(sorted([*kept, *new], key=lambda link: place.get(link.stage, len(place)))))
        return self.with_base(digest, name, chain)

    def to_bytes(self) -> bytes:
        """Return the lock file: sorted, one spelling, readable in a diff."""
        data = {
            "version": VERSION,
            "tools": dict(self.tools),
            "inputs": dict(self.inputs),
            "sources": dict(self.sources),
            "bases": {
                digest: {"name": self.base_names.get(digest, ""), "chain": [_written(link) for link in chain.links]}
                for digest, chain in self.bases.items()
            },
        }
        if self.plugins:
            data["plugins"] = {name: asdict(pinned) for name, pinned in self.plugins.items()}
        return (json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read_lock(name: str, content: bytes) -> Lock:
    """Return the lock in `content`; raise `Rejected` (E601) if it is damaged or of another version."""
    try:
        data: dict[str, Any] = json.loads(content)
        found = data["version"]
        if found != VERSION:
            raise _damaged(name, f"version {found} is not {VERSION}")
        return Lock(
            inputs=_strings(data["inputs"]),
            sources=_strings(data["sources"]),
            bases={digest: Chain(tuple(_link(e) for e in base["chain"])) for digest, base in data["bases"].items()},
            base_names={digest: str(base["name"]) for digest, base in data["bases"].items()},
            tools=_strings(data["tools"]),
            plugins={
                str(name): Pinned(str(entry["version"]), str(entry["sha256"]))
                for name, entry in data.get("plugins", {}).items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(name, str(error)) from None


def _damaged(name: str, why: str) -> Rejected:
    help_ = "Restore it from version control, or remove it and run `orchestrator lock`."
    return Rejected(Diagnostic("E601", f"the lock cannot be read: {why}", Place(name), help=help_))


def chain_of(run: Run) -> Chain:
    """Return the chain that a run on a base made."""
    return Chain(tuple(link for result in run.results if isinstance(result.outcome, Applied) for link in result.links))


def differences(old: Lock, new: Lock) -> tuple[str, ...]:
    """Return what `new` would bless that `old` does not hold, a line each, by definition."""
    lines = [*_changed("input", old.inputs, new.inputs), *_changed("source", old.sources, new.sources)]
    for name in sorted({*old.plugins, *new.plugins}):
        was, now = old.plugins.get(name), new.plugins.get(name)
        if was != now:
            lines.append(f"plugin {name}: {was or 'absent'} → {now or 'absent'}")
    for digest, chain in new.bases.items():
        before = old.bases.get(digest)
        if before is None:
            lines.append(f"new base {digest[:12]} {new.base_names.get(digest, '')}".rstrip())
        lines.extend(_changed_links(before.links if before else (), chain.links))
    lines.extend(f"base gone {digest[:12]}" for digest in old.bases if digest not in new.bases)
    return tuple(lines)


def _changed(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterable[str]:
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield f"{what} {key}: {_short(old.get(key))} → {_short(new.get(key))}"


def _changed_links(old: tuple[Link, ...], new: tuple[Link, ...]) -> Iterable[str]:
    def images(links: tuple[Link, ...]) -> dict[str, str]:
        return {f"{link.stage}: {link.definition}": f"{_short(link.before)} → {_short(link.after)}" for link in links}

    before, after = images(old), images(new)
    for key in [*after, *(k for k in before if k not in after)]:
        if before.get(key) != after.get(key):
            yield f"{key}   {after.get(key, 'no longer touched')}"


def _short(digest: str | None) -> str:
    return digest[:12] if digest else "absent"


def _strings(data: Any) -> dict[str, str]:  # noqa: ANN401 - from JSON
    return {str(key): str(value) for key, value in data.items()}


def _written(link: Link) -> dict[str, str | None]:
    return {
        "file": link.definition.file,
        "name": link.definition.name,
        "stage": link.stage,
        "before": link.before,
        "after": link.after,
    }


def _link(entry: Mapping[str, Any]) -> Link:
    return Link(Definition(entry["file"], entry["name"]), entry["stage"], entry["before"], entry["after"])
