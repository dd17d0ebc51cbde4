"""What an image holds while its build goes on, and the record of what changed it."""

from __future__ import annotations

import fnmatch
import posixpath
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from orchestrator.inspect.paths import is_known, package_key

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Place

GLOB = frozenset("*?[")


class Presence(Enum):
    """Whether a path is there."""

    HERE = "here"
    ABSENT = "absent"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Put:
    """A file that came to a path; `origin` is its path in the context, empty where it is none of the context's."""

    path: str
    place: Place
    origin: str
    how: str


@dataclass(frozen=True)
class Edit:
    """A file that was changed in place; `whole`: nothing of what it was before is left."""

    path: str
    place: Place
    how: str
    whole: bool = False


@dataclass(frozen=True)
class Install:
    """Packages that were installed: the names, and whether their own dependencies come with them."""

    names: tuple[str, ...]
    place: Place
    how: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fetch:
    """Something that came over the network; `pinned` where its content cannot change unseen."""

    how: str
    place: Place
    pinned: bool = False


@dataclass(frozen=True)
class Entry:
    """An entry of a table `name → (module, class)` that a patch adds."""

    name: str
    module: str
    cls: str
    place: Place


@dataclass(frozen=True)
class Verified:
    """Files are checked against digests here."""

    place: Place


Event = Put | Edit | Install | Fetch | Entry | Verified


@dataclass
class Image:
    """The files of one stage of the build, as far as they are known."""

    files: dict[str, str] = field(default_factory=dict)
    copied: dict[str, str] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)

    def branched(self) -> Image:
        """Return a copy that goes its own way."""
        return Image(dict(self.files), dict(self.copied), set(self.opaque), list(self.events))

    def put(self, path: str, origin: str) -> None:
        """Place a file."""
        if len(self.files) < 300_000:  # noqa: PLR2004 - no context that a person has looked at is larger
            self.files[path] = origin

    def make(self, path: str, place: Place) -> None:
        """Place a file that COPY brings and that is none of the context's."""
        self.put(path, "")
        if path.endswith(".py") and package_key(path):
            self.events.append(Put(path, place, "", "COPY"))

    def find(self, path: str) -> tuple[Presence, list[str]]:
        """Return whether a path is there, and the files that it names: itself, those in it, or those of a pattern."""
        if GLOB & set(path.replace("${?}", "")):
            return self._find_glob(path)
        if path in self.files:
            return Presence.HERE, [path]
        inside = [name for name in self.files if name.startswith(f"{path.rstrip('/')}/")]
        if inside or path in self.copied:
            return Presence.HERE, inside
        if not is_known(path):
            return Presence.UNSURE, []
        above, below = posixpath.dirname(path), path
        while above != below:
            if above in self.opaque:
                return Presence.UNSURE, []
            if above in self.copied and above != "/":
                return Presence.ABSENT, []
            above, below = posixpath.dirname(above), above
        return Presence.UNSURE, []

    def _find_glob(self, path: str) -> tuple[Presence, list[str]]:
        depth = path.count("/")
        found = [
            n
            for n in self.files
            if n.count("/") >= depth and fnmatch.fnmatchcase("/".join(n.split("/")[: depth + 1]), path)
        ]
        if found:
            return Presence.HERE, found
        fixed = posixpath.dirname(path[: min(path.find(c) for c in GLOB if c in path)] + "x")
        return (Presence.ABSENT if fixed in self.copied and fixed not in self.opaque else Presence.UNSURE), []

    def elsewhere(self, name: str) -> str:
        """Return where a file with this last component lies, or nothing."""
        wanted = f"/{name.removeprefix('./').lstrip('/')}"
        return next((path for path in sorted(self.files) if path.endswith(wanted)), "")
