"""An immutable map of package path to bytes, with one digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType

from orchestrator.core.digest import digest_files


class Tree(Mapping[str, bytes]):
    """Files of one or more package roots: `vllm/sequence.py` → bytes. The first component names the root."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._files = MappingProxyType(dict(files or {}))

    def __getitem__(self, path: str) -> bytes:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"Tree({len(self)} files)"

    @cached_property
    def digest(self) -> str:
        """The digest of all paths and contents."""
        return digest_files(self._files.items())

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that holds a file, directly or further down."""
        found: set[str] = set()
        for path in self._files:
            for parent in PurePosixPath(path).parents:
                if str(parent) in found:
                    break
                found.add(str(parent))
        return frozenset(found - {"."})

    def with_files(self, changed: Mapping[str, bytes]) -> Tree:
        """Return a tree with `changed` on top; nothing of this one changes."""
        return Tree({**self._files, **changed}) if changed else self

    def with_roots(self, roots: Mapping[str, Mapping[str, bytes]]) -> Tree:
        """Return a tree in which each package root of `roots` holds the given files (full paths) and nothing else."""
        if not roots:
            return self
        kept = {path: content for path, content in self._files.items() if path.partition("/")[0] not in roots}
        return Tree(kept | {path: content for files in roots.values() for path, content in files.items()})

    def holds_the_same(self, other: Tree) -> bool:
        """Tell whether both trees hold the very same objects: quick, and never wrong about a difference."""
        if self is other:
            return True
        return len(self) == len(other) and all(other.get(path) is content for path, content in self._files.items())

    def changed_since(self, base: Tree) -> tuple[str, ...]:
        """Return the paths that differ from `base` or are not in it, sorted."""
        return tuple(sorted(path for path, content in self.items() if base.get(path) != content))
