"""The layers of an image as one file system in memory, read from the newest to the oldest.

An older layer only adds what no newer one has, hides (`.wh.NAME`, `.wh..wh..opq`) or puts something else in place of.
Names are those of the image without the leading slash. Contents are kept for what is wanted; of the rest, the names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.origin.base import BYTECODE, COMPILED, DEFAULT_LIMITS, MIB, Limits, shown_name

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_HOPS = 40  # links in one path, as Linux counts them
MAX_NAME = 4096  # bytes, as Linux limits a path
MAX_NAMES = 2_000_000
MAX_NAME_BYTES = 512 * MIB
OPAQUE, WHITEOUT, META = ".wh..wh..opq", ".wh.", ".wh..wh."


@dataclass(frozen=True, slots=True)
class File:
    """A regular file: its size, its content if it was wanted, and the name that holds it (for a hard link another)."""

    name: str
    size: int
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, or with `hard` a hard link to a name that its own layer does not have."""

    target: str
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder."""


@dataclass(frozen=True, slots=True)
class Special:
    """A device, a pipe or the like: named, never read."""


Entry = File | Link | Folder | Special
FOLDER, SPECIAL = Folder(), Special()


@dataclass(frozen=True)
class Wanted:
    """Whose contents are kept: all below folders of these names, and below these paths or the files there."""

    names: frozenset[str]
    paths: frozenset[str] = frozenset()
    limits: Limits = DEFAULT_LIMITS

    def __contains__(self, name: str) -> bool:
        parts = name.split("/")
        if not self.names.isdisjoint(parts[:-1]):
            return True
        return bool(self.paths) and any("/".join(parts[:end]) in self.paths for end in range(1, len(parts) + 1))

    def reads(self, name: str, size: int) -> bool:
        """Return whether a file's content is kept: wanted, no compiled file, not too large."""
        return size <= self.limits.file and PurePosixPath(name).suffix not in BYTECODE | COMPILED and name in self


@dataclass
class Layer:
    """One layer: what its tar holds. A name that comes twice means the later member."""

    wanted: Wanted
    entries: dict[str, Entry] = field(default_factory=dict)
    whiteouts: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)
    kept: int = 0

    def marks(self, name: str) -> bool:
        """Return whether a member is a mark that hides something below, and note what."""
        parent, _, last = name.rpartition("/")
        if last == OPAQUE:
            self.opaque.add(parent)
        elif last.startswith(WHITEOUT) and not last.startswith(META):
            hidden = last.removeprefix(WHITEOUT)
            if hidden in {"", ".", ".."}:
                message = f"the image hides '{shown_name(hidden)}', which is no name"
                raise Rejected(Diagnostic("E304", message, Place(shown_name(name)), help="Save the image again."))
            self.whiteouts.add(f"{parent}/{hidden}" if parent else hidden)
        return last.startswith(WHITEOUT)

    def bounded(self) -> None:
        """Raise `Rejected` (E304) where the layer has more names than an image may have."""
        if len(self.entries) + len(self.whiteouts) + len(self.opaque) > MAX_NAMES:
            raise Rejected(_too_many())

    def file(self, name: str, size: int, content: bytes | None) -> None:
        """Put a regular file in; raise `Rejected` (E304) when all that is kept grows past the limit."""
        self.kept += len(content or b"")
        if self.kept > self.wanted.limits.kept:
            message = f"the packages in the image have more than {self.wanted.limits.kept:,} bytes of source"
            raise Rejected(Diagnostic("E304", message, Place(shown_name(name)), help="Is this the right image?"))
        self.entries[name] = File(name, size, content)

    def hard_link(self, name: str, target: str) -> None:
        """Put a hard link in: one more name for a member that came before it, or lies in an older layer."""
        self.entries[name] = self.entries.get(target) or Link(f"/{target}", hard=True)


def _too_many() -> Diagnostic:
    message = f"the image has more than {MAX_NAMES:,} files, or their names are too long"
    return Diagnostic("E304", message, help="Is this the right image?")


@dataclass
class Layers:
    """The file system that the layers read so far make."""

    entries: dict[str, Entry] = field(default_factory=dict)
    whiteouts: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)
    bytes_of_names: int = 0
    _inside: dict[str, list[str]] | None = None

    def add(self, layer: Layer) -> None:
        """Put an older layer below those that are there."""
        below = {name: entry for name, entry in layer.entries.items() if name not in self.entries}
        gone: dict[str, bool] = {}
        for name in [name for name in below if self._hidden(name, gone)]:
            del below[name]
        self.bytes_of_names += sum(map(len, below))
        self.entries.update(below)
        if len(self.entries) > MAX_NAMES or self.bytes_of_names > MAX_NAME_BYTES:
            raise Rejected(_too_many())
        self.whiteouts |= layer.whiteouts
        self.opaque |= layer.opaque
        self._inside = None

    def _hidden(self, name: str, gone: dict[str, bool]) -> bool:
        """Tell whether newer layers hide a name of an older one; `gone` remembers the folders asked for."""
        return name in self.whiteouts or self._below_is_hidden(name.rpartition("/")[0], gone)

    def _below_is_hidden(self, folder: str, gone: dict[str, bool]) -> bool:
        """Tell whether whatever an older layer has in `folder` is hidden."""
        if folder in gone:
            return gone[folder]
        answer = folder in self.opaque or folder in self.whiteouts
        if folder and not answer:
            other = self.entries.get(folder)
            replaced = other is not None and not isinstance(other, Folder)
            answer = replaced or self._below_is_hidden(folder.rpartition("/")[0], gone)
        gone[folder] = answer
        return answer

    def resolve(self, path: str) -> str | None:
        """Return a path with all links followed, None for a circle. What does not exist is taken for a folder."""
        found = self._followed(path)
        return found[0] if found else None

    def settled(self, path: str) -> bool:
        """Tell whether no older layer can change what lies at and below `path`."""
        found = self._followed(path)
        return found is None or (found[1] and self._below_is_hidden(found[0], {}))

    def _followed(self, path: str) -> tuple[str, bool] | None:
        """Return the real path, and whether each step to it is known: a folder, a link, or hidden from below."""
        todo, hops, known = path.split("/")[::-1], 0, True
        done: list[str] = []
        gone: dict[str, bool] = {}
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]  # at the root it stays there, as in a container
            elif part not in {"", "."}:
                done.append(part)
            here = "/".join(done)
            entry = self.entries.get(here)
            if isinstance(entry, Link):
                hops += 1
                if hops > MAX_HOPS:
                    return None
                done = [] if entry.target.startswith("/") else done[:-1]
                todo.extend(entry.target.split("/")[::-1])
            elif entry is None and here and not self._hidden(here, gone):
                known = False
        return "/".join(done), known

    def rehome(self) -> None:
        """Move what a layer put behind a link of an older one to where the link leads, as unpacking does."""
        for name in [name for name in self.entries if self._under_link(name)]:
            parent, _, last = name.rpartition("/")
            real = self.resolve(parent)
            entry = self.entries.pop(name)
            if real is not None:
                self.entries[f"{real}/{last}" if real else last] = entry
        self._inside = None

    def _under_link(self, name: str) -> bool:
        parents = (str(parent) for parent in PurePosixPath(name).parents)
        return any(isinstance(self.entries.get(parent), Link) for parent in parents)

    def inside(self, folder: str) -> list[str]:
        """Return the names of the entries of a folder, sorted."""
        if self._inside is None:
            self._inside = {}
            seen: set[str] = set()
            for name in self.entries:
                for child in _upwards(name):
                    if child in seen:
                        break
                    seen.add(child)
                    self._inside.setdefault(child.rpartition("/")[0], []).append(child)
        return sorted(self._inside.get(folder, ()))

    def is_folder(self, name: str) -> bool:
        """Tell whether a real name is a folder, be it only because something lies in it."""
        entry = self.entries.get(name)
        return isinstance(entry, Folder) or (entry is None and bool(self.inside(name)))


def _upwards(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition("/")[0]


def plain_name(name: str) -> str:
    """Return a member's name without `.` parts; raise `Rejected` (E304) if it names a place outside, or is too long."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\0" in name or len(name) > MAX_NAME:
        message = f"the member '{shown_name(name[:200])}' names a place outside of the image, or no place"
        raise Rejected(
            Diagnostic("E304", message, help="Save the image again with a current docker, podman or skopeo.")
        )
    return "" if str(pure) == "." else str(pure)
