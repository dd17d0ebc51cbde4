"""What a judge sees: the tree, the base tree, the artefacts and the target's facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.checks.serving.facts import Serving
from orchestrator.code.source import Source
from orchestrator.code.spotting import has_word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.core.tree import Tree

T = TypeVar("T")


@dataclass(frozen=True)
class Facts:
    """The target's facts that checks and house rules reason with. `python` is (major, minor)."""

    python: tuple[int, int] = (3, 10)
    roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packages: frozenset[str] = frozenset()
    vendor_modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vendor_signatures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    serving: Serving = field(default_factory=Serving)
    compiler: tuple[str, ...] = ()
    """The command of the compiler for device code in the image, without its source; () where there is none."""
    no_compiler: str = ""
    """Why there is none, if the target says so."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package root → the version of the base, where its origin says it; else the package itself does."""


class Sources:
    """Parsed files of one run, each parsed once: the key is path and content."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], Source] = {}
        self._made: dict[tuple[str, bytes], object] = {}
        self._words: dict[str, dict[bytes, bool]] = {}

    @property
    def parsed(self) -> int:
        """How many different files are known."""
        return len(self._known)

    def get(self, path: str, raw: bytes) -> Source:
        """Return the source for these bytes, the same object each time."""
        key = (path, raw)
        if key not in self._known:
            self._known[key] = Source(path, raw)
        return self._known[key]

    def once(self, path: str, raw: bytes, make: Callable[[str, bytes], T]) -> T:
        """Return `make(path, raw)`, made at the first call: for files that are not Python, each read in one way."""
        key = (path, raw)
        if key not in self._made:
            self._made[key] = make(path, raw)
        return self._made[key]  # type: ignore[return-value]  # one file is read in one way

    def has_word(self, raw: bytes, name: str) -> bool:
        """Tell whether a file has an identifier anywhere, by its bytes; stages ask the same of most files."""
        known = self._words.setdefault(name, {})
        found = known.get(raw)
        if found is None:
            found = known[raw] = has_word(raw, name)
        return found

    def copy(self) -> Sources:
        """Return sources that know what these know; what either learns from now on is its own."""
        made = Sources()
        made._known = dict(self._known)
        return made

    def keep(self, source: Source) -> Source:
        """Remember a source that an edit made."""
        return self._known.setdefault((source.path, source.raw), source)

    def forget(self, path: str, raw: bytes) -> None:
        """Let go of what was derived from these bytes; who asks for them again has them parsed again."""
        self._known.pop((path, raw), None)


@dataclass
class Reads:
    """What a judge has looked at: single files with their content (None: absent), and whether it went over all."""

    files: dict[str, bytes | None] = field(default_factory=dict)
    everything: bool = False


@dataclass(frozen=True)
class View:
    """One moment of a run. `base` is the tree before the first stage; `artefacts` are files outside the tree.

    What a judge reads is noted in `reads`, so that its verdict can be kept while nothing of that changes.
    """

    tree: Tree
    base: Tree
    facts: Facts = field(default_factory=Facts)
    artefacts: Mapping[str, bytes] = field(default_factory=dict)
    sources: Sources = field(default_factory=Sources)
    reads: Reads = field(default_factory=Reads)

    def content(self, path: str) -> bytes | None:
        """Return a file of the tree or an artefact, None if there is neither; nothing is noted."""
        return self.tree.get(path, self.artefacts.get(path))

    def read(self, path: str) -> bytes | None:
        """Return a file of the tree or an artefact, None if there is neither."""
        found = self.reads.files[path] = self.content(path)
        return found

    def source(self, path: str) -> Source | None:
        """Return a Python file of the tree, None if it is not there."""
        raw = self.tree.get(path)
        self.reads.files[path] = self.content(path)
        return None if raw is None else self.sources.get(path, raw)

    def paths(self) -> tuple[str, ...]:
        """Return every path of the tree, for a judge that goes over all files."""
        self.reads.everything = True
        return tuple(self.tree)

    def base_source(self, path: str) -> Source | None:
        """Return a Python file of the base tree, None if it is not there."""
        raw = self.base.get(path)
        return None if raw is None else self.sources.get(path, raw)
