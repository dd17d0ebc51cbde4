"""Which files of a package define a name: read off their bytes once, so that a search parses only what it may need."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
_DEFINED: Final = (
    # The literal comes first, so that it is searched as such; what stands before it is looked at only there.
    re.compile(rb"def(?<!\wdef)[ \t]+([\w\x80-\xff]+)"),
    re.compile(rb"class(?<!\wclass)[ \t]+([\w\x80-\xff]+)"),
)


class Index:
    """The names that files define, by content: trees that share files share what is known of them.

    A name in a comment or a text counts as well. Who asks parses the file and sees.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, frozenset[bytes]] = {}
        self._tree: Mapping[str, bytes] | None = None
        self._found: dict[object, Any] = {}

    def once(self, tree: Mapping[str, bytes], key: object, make: Callable[[], T]) -> T:
        """Return `make()`, asked once for a key as long as the very same tree is searched."""
        if tree is not self._tree:
            self._tree, self._found = tree, {}
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]  # type: ignore[no-any-return]  # what `make` returned

    def names(self, raw: bytes) -> frozenset[bytes]:
        """Return the last names of all functions and classes in a file's bytes, and perhaps more."""
        if raw not in self._known:
            self._known[raw] = frozenset(name for pattern in _DEFINED for name in pattern.findall(raw))
        return self._known[raw]

    def defining(self, name: str) -> Callable[[bytes], bool]:
        """Return what tells of a file's bytes whether they may define `name`."""
        wanted = name.encode()
        return lambda raw: wanted in self.names(raw)


def python_files(tree: Mapping[str, bytes], file: str, wanted: Callable[[bytes], bool]) -> list[str]:
    """Return the Python files of the package root of `file` that bytes speak for, what is nearest to it first."""
    start = f"{file.partition('/')[0]}/"
    hits = (path for path, raw in tree.items() if path.endswith(".py") and path.startswith(start) and wanted(raw))
    return sorted(hits, key=lambda path: (path != file, _apart(path, file), path))


def _apart(path: str, file: str) -> int:
    """Return how many folders lie between two files: what moves seldom moves far."""
    one, other = PurePosixPath(path).parts, PurePosixPath(file).parts
    common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return len(one) + len(other) - 2 * common
