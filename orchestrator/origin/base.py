"""What every origin hands over, and the one rule for which files of a package belong into a tree."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.core.tree import Tree

MIB = 2**20
MAX_DEPTH = 64
MAX_FOLDERS = 50_000
BYTECODE = frozenset({".pyc", ".pyo"})
COMPILED = frozenset({".so", ".pyd"})


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes that no honest package exceeds: one file, all files kept, what an archive unpacks to."""

    file: int = 4 * MIB
    kept: int = 512 * MIB
    unpacked: int = 512 * MIB


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Base:
    """The source of a package as it was found, and where.

    `source` says so in words; `sha256` is that of the archive, None for a folder. `left_out` names what is there
    but is not in the tree: bytecode, compiled modules, large and special files. `compiled` holds the dotted names
    of the compiled modules, so that imports of them resolve.
    """

    tree: Tree
    source: str
    sha256: str | None
    left_out: tuple[str, ...]
    compiled: frozenset[str]


@dataclass
class Harvest:
    """Collects files while an origin is read. Paths are those of the tree: `vllm/sequence.py`."""

    limits: Limits
    files: dict[str, bytes] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    compiled: set[str] = field(default_factory=set)
    findings: list[Diagnostic] = field(default_factory=list)
    kept: int = 0
    folders: int = 0

    def enters(self, real: str, shown: str, above: tuple[str, ...]) -> bool:
        """Return whether to read the folder `real`, seen as `shown`; `above` are the real folders around it.

        A link back up is named, not followed: that would never end. Raises `Rejected` (E304) where links or
        nesting make more of a package than there is.
        """
        if real in above:
            self.left_out.add(shown)
            return False
        self.folders += 1
        if len(above) > MAX_DEPTH or self.folders > MAX_FOLDERS:
            message = "the folders are nested too deep, or linked into each other too often"
            raise Rejected(Diagnostic("E304", message, Place(shown_name(shown)), help="Remove the links."))
        return True

    def wants(self, path: str, size: int) -> bool:
        """Return whether a regular file of `size` bytes belongs into the tree; note its name if it does not."""
        pure = PurePosixPath(path)
        if "__pycache__" in pure.parts:
            cached = pure.parts.index("__pycache__")
            self.left_out.add("/".join(pure.parts[: cached + 1]))
            return False
        if not is_plain(path):
            message = f"the file name {shown_name(path)} is not plain text"
            self.findings.append(Diagnostic("E306", message, help="Rename the file, or leave it out of the package."))
            self.left_out.add(shown_name(path))
            return False
        if pure.suffix in COMPILED:
            self.compiled.add(module_name(path))
        if pure.suffix in BYTECODE | COMPILED or size > self.limits.file:
            self.left_out.add(path)
            return False
        return True

    def keep(self, path: str, content: bytes) -> None:
        """Put a file in; raise `Rejected` (E304) when all of them together grow past the limit."""
        self.kept += len(content)
        if self.kept > self.limits.kept:
            message = f"the package has more than {self.limits.kept:,} bytes of source"
            raise Rejected(Diagnostic("E304", message, Place(path), help="Name the package itself, not what holds it."))
        self.files[path] = content

    def base(self, source: str, sha256: str | None) -> Base:
        """Return what was collected."""
        return Base(Tree(self.files), source, sha256, tuple(sorted(self.left_out)), frozenset(self.compiled))


def module_name(path: str) -> str:
    """Return the dotted name under which a compiled file is imported: `vllm/_C.abi3.so` is `vllm._C`."""
    pure = PurePosixPath(path)
    return ".".join((*pure.parts[:-1], pure.name.split(".", 1)[0]))


def is_plain(path: str) -> bool:
    """Return whether a path has neither control characters nor bytes that are not UTF-8."""
    return not re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", path)


def shown_name(path: str) -> str:
    """Return a path fit for messages: what is not plain text is shown as escapes."""
    visible = "".join(c if is_plain(c) else c.encode("unicode_escape", "surrogatepass").decode() for c in path)
    return visible if visible == path else f"'{visible}'"
