"""What the bytes of a whole tree say without being parsed: which attributes are set, which classes have which bases."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from orchestrator.code.spotting import has_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from orchestrator.checks.house.world import World
    from orchestrator.checks.view import View

# How an attribute called NAME is set: by an assignment (also one of several targets), as what a `for` or `with`
# binds, by `del`, by `setattr` with a literal, by what a test's `patch` replaces. The first group is who has it.
_SETTERS = (
    rb"([\w\])]+)\.NAME[ \t]*(?::[^\n=]*)?=(?!=)",
    rb"^[ \t]*[^\n=#(]*?([\w\])]+)\.NAME[ \t]*,[^\n=(]*=(?!=)",
    rb"\b(?:as|for|del)[ \t]+[(]?[ \t]*(?:\w+\.)*(\w+)\.NAME(?!\w)",
    rb"setattr\(\s*([\w.]+)\s*,\s*[\"']NAME[\"']",
    rb"(patch)(?:\.object)?\([^\n]*?[\"'](?:[\w.]*\.)?NAME[\"']",
)
# A line's end in front lets the search jump from one to the next; what is searched gets one in front of it.
_CLASS = re.compile(rb"\n[ \t]*class[ \t]+(\w+)[ \t]*\(([^)]*)\)")
_BASE = re.compile(rb"(\w+)[ \t]*(?:\[[^\]]*\]?)?[ \t]*(?=,|$)")
_OWN = frozenset({b"self", b"cls"})


@dataclass(frozen=True)
class Elsewhere:
    """Looks over all Python files of a view, each question answered once."""

    view: View
    _known: dict[str, _Imports] = field(default_factory=dict)
    _knowing: dict[str, tuple[tuple[str, bytes], ...]] = field(default_factory=dict)
    _bases: dict[str, dict[str, list[tuple[str, str]]]] = field(default_factory=dict)
    _nearby: dict[str, list[str]] = field(default_factory=dict)
    _setters: dict[str, frozenset[tuple[str, bytes]]] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World) -> Elsewhere:
        """Return the one that every rule asks about this world."""
        return world.once(cls, lambda: cls(world.view))

    @cached_property
    def files(self) -> tuple[tuple[str, bytes], ...]:
        """Every Python file with its bytes."""
        return tuple((path, self.view.tree[path]) for path in self.view.paths() if path.endswith(".py"))

    def is_set(self, attribute: str, own_files: Iterable[str] = ()) -> bool:
        """Tell whether something may set this attribute from outside, or `self.attribute` in one of these files."""
        if attribute not in self._setters:
            self._setters[attribute] = frozenset(self._setters_of(attribute.encode()))
        own = frozenset(own_files)
        return any(name not in _OWN or path in own for path, name in self._setters[attribute])

    def _setters_of(self, attribute: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield (file, who has it) of everything that sets an attribute."""
        patterns = [re.compile(p.replace(b"NAME", re.escape(attribute)), re.MULTILINE) for p in _SETTERS]
        for path, raw in self.files:
            if attribute in raw:
                yield from ((path, name) for pattern in patterns for name in pattern.findall(raw))

    def _who_may_know(self, path: str) -> tuple[tuple[str, bytes], ...]:
        """Return the files that may import from this one: those below the same root, and those that name the root."""
        root = path.partition("/")[0].removesuffix(".py")
        if root not in self._knowing:
            spelled = root.encode()
            self._knowing[root] = tuple(f for f in self.files if f[0].startswith(f"{root}/") or spelled in f[1])
        return self._knowing[root]

    def _children(self, path: str) -> Mapping[str, list[tuple[str, str]]]:
        """Return last name of a base → (file, class) of every class that names it, among the files that may."""
        root = path.partition("/")[0]
        if root not in self._bases:
            found: dict[str, list[tuple[str, str]]] = {}
            for other, raw in self._who_may_know(path):
                for name, bases in _CLASS.findall(b"\n" + raw):
                    for base in _BASE.findall(bases.replace(b"\n", b" ")):
                        found.setdefault(base.decode(), []).append((other, name.decode()))
            self._bases[root] = found
        return self._bases[root]

    def descendants(self, path: str, name: str) -> frozenset[tuple[str, str]]:
        """Return (file, class) of every class that, by the names of its bases, may come from this class of a file."""
        children = self._children(path)
        found: set[tuple[str, str]] = set()
        pending, seen = [name], {name}
        while pending:
            for file, child in children.get(pending.pop(), ()):
                found.add((file, child))
                if child not in seen:
                    seen.add(child)
                    pending.append(child)
        return frozenset(found)

    def reaching(self, start: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
        """Return each file that may use one of these (file, name), with the names it may use them by.

        A name is passed on by every file that imports it, that gives it another name, or that star-imports it.
        """
        known: dict[str, set[str]] = {}
        for path, name in start:
            known.setdefault(path, set()).add(name)
        pending = {path: set(names) for path, names in known.items()}
        while pending:
            path, names = pending.popitem()
            names |= {alias for name in names for alias in self._imports(path).aliases_of(name)}
            known[path] |= names
            stem = _stem(path)
            for other in self._near(path):
                there = self._imports(other)
                passed = set(names) if stem in there.stars else names & there.words
                used = passed | ({name for name in names if there.has(name)} if stem in there.words else set())
                passed |= {alias for name in used for alias in there.aliases_of(name)}
                new = (used | passed) - known.setdefault(other, set())
                known[other] |= new
                if new & passed:
                    pending[other] = pending.get(other, set()) | (new & passed)
        return {path: names for path, names in known.items() if names}

    def _near(self, path: str) -> list[str]:
        """Return the files that may import from this one: they name it, or stand in the package that it is."""
        if path not in self._nearby:
            stem = _stem(path)
            spelled = stem.encode()
            folder = path.removesuffix("__init__.py") if path.endswith("/__init__.py") else "\0"
            self._nearby[path] = [
                other
                for other, raw in self._who_may_know(path)
                if other != path and (other.startswith(folder) or self._names_module(other, raw, stem, spelled))
            ]
        return self._nearby[path]

    def _names_module(self, path: str, raw: bytes, stem: str, spelled: bytes) -> bool:
        """Tell whether the imports of a file have a word; a file whose imports are known is not searched for it."""
        return (path in self._known or spelled in raw) and stem in self._imports(path).words

    def _imports(self, path: str) -> _Imports:
        if path not in self._known:
            raw = self.view.tree[path]
            statements = b"".join(_IMPORT.findall(b"\n" + raw))
            words = frozenset(word.decode() for word in _WORD.findall(statements))
            stars = frozenset(module.decode() for module in _STAR.findall(statements))
            self._known[path] = _Imports(raw, statements, words, stars)
        return self._known[path]


@dataclass(frozen=True)
class _Imports:
    """The import statements of a file, the identifiers in them, the modules that are imported with a star."""

    raw: bytes
    statements: bytes
    words: frozenset[str]
    stars: frozenset[str]

    def has(self, name: str) -> bool:
        """Tell whether the file has an identifier anywhere."""
        return has_word(self.raw, name)

    def aliases_of(self, name: str) -> Iterator[str]:
        """Yield other names that the file gives to what it has under this one."""
        spelled = name.encode()
        if spelled not in self.raw:
            return
        for alias in re.findall(rb"(?<!\w)%b[ \t]+as[ \t]+(\w+)" % spelled, self.statements):
            yield alias.decode()
        # An instance or an alias; a definition of many names is searched from its end, where the name stands.
        for found in re.finditer(rb"=[ \t]*(?:\w+\.)*%b(?!\w)" % spelled, self.raw):
            line = self.raw[self.raw.rfind(b"\n", 0, found.start()) + 1 : found.start()]
            if assigned := re.match(rb"\w+(?=[ \t]*(?::|$))", line):
                yield assigned.group().decode()


_WORD = re.compile(rb"[A-Za-z_]\w*")
_IMPORT = re.compile(rb"\n[ \t]*(?:from|import)[ \t](?:[^\n(\\]|\\\r?\n)*(?:\([^()]*\))?")
_STAR = re.compile(rb"(\w+)[ \t]+import[ \t]*\*")


def _stem(path: str) -> str:
    """Return the last part of a module's name."""
    return path.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
