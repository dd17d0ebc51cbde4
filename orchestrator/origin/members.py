"""The members of an archive as a small file system in memory: names, contents, links."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, Severity, did_you_mean
from orchestrator.origin.base import BYTECODE, COMPILED, Harvest, Limits, shown_name

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_HOPS = 40  # links in one path, as Linux counts them


@dataclass
class Contents:
    """What an archive holds under folders of the package's name; of the rest only the names of packages.

    Names are normalised. A name that comes twice means the later member, as when it is unpacked.
    """

    package: tuple[str, ...]
    limits: Limits
    files: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    kept: int = 0

    def wants(self, member: str, size: int) -> bool:
        """Return whether the content of a regular file is needed; note its name and size if it is not."""
        name = _safe(member, member)
        pure = PurePosixPath(name)
        if not any(prefixes(name, self.package)):
            if pure.name == "__init__.py" and len(pure.parts) in {2, 3}:
                self.others.add(pure.parts[-2])
            return False
        if size > self.limits.file or pure.suffix in BYTECODE | COMPILED:
            self._forget(name)
            self.sizes[name] = size
            return False
        return True

    def file(self, member: str, content: bytes) -> None:
        """Put a regular file in; raise `Rejected` (E304) when all together grow past the limit."""
        name = _safe(member, member)
        self._forget(name)
        self.files[name] = content
        self.kept += len(content)
        if self.kept > self.limits.kept:
            message = f"the package has more than {self.limits.kept:,} bytes of source"
            raise Rejected(Diagnostic("E304", message, Place(name), help="Is this the right archive?"))

    def special(self, member: str) -> None:
        """Note a device, a pipe or the like: named, never read."""
        name = _safe(member, member)
        self._forget(name)
        self.sizes[name] = self.limits.file + 1

    def link(self, member: str, target: str) -> None:
        """Put a symbolic link in; its target counts from its own folder."""
        name = _safe(member, member)
        self._forget(name)
        parent = str(PurePosixPath(name).parent)
        self.links[name] = target if target.startswith("/") else f"{parent}/{target}"

    def hard_link(self, member: str, target: str) -> None:
        """Put a hard link in: one more name for a member that came before it."""
        name, other = _safe(member, member), _safe(target, member)
        self._forget(name)
        if other in self.files:
            self.files[name] = self.files[other]
        elif other in self.sizes:
            self.sizes[name] = self.sizes[other]
        else:
            self.links[name] = other

    def names(self) -> Iterator[str]:
        """Yield the name of everything that is no folder."""
        yield from self.files
        yield from self.sizes
        yield from self.links

    def resolve(self, name: str) -> str | None:
        """Return the name with all links followed, None if that leads out of the archive or in a circle."""
        todo, hops = name.split("/")[::-1], 0
        done: list[str] = []
        while todo:
            part = todo.pop()
            if part == ".." and not done:
                return None
            if part == "..":
                done.pop()
            elif part not in {"", "."}:
                done.append(part)
            if (target := self.links.get("/".join(done))) is not None:
                hops += 1
                if hops > MAX_HOPS or target.startswith("/"):
                    return None
                done = []
                todo.extend(target.split("/")[::-1])
        return "/".join(done)

    def _forget(self, name: str) -> None:
        self.files.pop(name, None)
        self.sizes.pop(name, None)
        self.links.pop(name, None)


def pick(contents: Contents, package: str, root: str, source: str) -> Harvest:
    """Return the files of the shallowest package folder in an archive, as paths `root/...`, and what was found.

    Raises `Rejected` with E304 if there is no such folder, more than one, or a member lies under a link.
    """
    prefix = _shallowest(contents, package, source)
    inside: defaultdict[str, set[str]] = defaultdict(set)
    for name in contents.names():
        for parent in PurePosixPath(name).parents:
            folder = str(parent)
            if folder in contents.links:
                message = f"{source} puts '{shown_name(name)}' under the link '{shown_name(folder)}'"
                raise Rejected(Diagnostic("E304", message, help="Do not use this archive: nothing honest does that."))
            inside[folder].add(name)
            if name in inside[str(parent.parent)]:
                break
            name = folder  # noqa: PLW2901 - climbing: each folder is an entry of the one above
    walk = _Walk(contents, inside, prefix, Harvest(contents.limits))
    walk.folder(prefix, root, ())
    return walk.harvest


def prefixes(name: str, package: tuple[str, ...]) -> Iterator[str]:
    """Yield each folder of `name` that is called like the package: `a/vllm` and `a/vllm/vllm` of `a/vllm/vllm/x`."""
    parts = name.split("/")
    for end in range(len(package), len(parts)):
        if tuple(parts[end - len(package) : end]) == package:
            yield "/".join(parts[:end])


def _shallowest(contents: Contents, package: str, source: str) -> str:
    """A folder with an `__init__.py` goes before one without: the checkout `vllm/` before the package `vllm/vllm`."""
    found = {prefix for name in contents.names() for prefix in prefixes(name, contents.package)}
    found = {f for f in found if any(n.endswith(".py") and n.startswith(f"{f}/") for n in contents.files)}
    if not found:
        message = f"{source} holds no package folder '{package}'"
        near = did_you_mean(package, contents.others)
        help_ = near or f"Pack the folder itself: `tar -C PARENT -c {package}`."
        raise Rejected(Diagnostic("E304", message, help=help_))
    rank = {f: (f"{f}/__init__.py" not in contents.files, f.count("/")) for f in found}
    best = sorted(f for f in found if rank[f] == min(rank.values()))
    if len(best) > 1:
        notes = tuple(shown_name(f) for f in best)
        help_ = "Pack only the one that is meant."
        raise Rejected(Diagnostic("E304", f"{source} holds {len(best)} folders '{package}'", notes=notes, help=help_))
    return best[0]


@dataclass(frozen=True)
class _Walk:
    """One pass over the package folder `prefix`; `inside` maps a folder to the full names of its entries."""

    contents: Contents
    inside: defaultdict[str, set[str]]
    prefix: str
    harvest: Harvest

    def folder(self, real: str, shown: str, above: tuple[str, ...]) -> None:
        """Read the folder `real`, which the tree knows as `shown`; `above` are the real folders around it."""
        if self.harvest.enters(real, shown, above):
            for name in sorted(self.inside[real]):
                self.entry(name, f"{shown}/{PurePosixPath(name).name}", (*above, real))

    def entry(self, name: str, shown: str, above: tuple[str, ...]) -> None:
        """Read one entry of a folder: descend, follow, keep or name it."""
        real = self.contents.resolve(name)
        if real is None or not f"{real}/".startswith(f"{self.prefix}/"):
            self.harvest.findings.append(_leaves(shown, self.contents.links[name], self.prefix))
        elif real in self.contents.files:
            content = self.contents.files[real]
            if self.harvest.wants(shown, len(content)):
                self.harvest.keep(shown, content)
        elif real in self.contents.sizes:
            self.harvest.wants(shown, self.contents.sizes[real])
        elif real in self.inside:
            self.folder(real, shown, above)
        else:
            self.harvest.findings.append(_dangling(shown))


def _leaves(shown: str, target: str, prefix: str) -> Diagnostic:
    message = f"this link leaves {shown_name(prefix)} or turns in a circle: {shown_name(target)}"
    help_ = "Pack a copy of the file in its place: a tree holds only what lies in the package."
    return Diagnostic("E305", message, Place(shown_name(shown)), help=help_)


def _dangling(shown: str) -> Diagnostic:
    message = "this link points to nothing, so it is left out"
    return Diagnostic("E306", message, Place(shown_name(shown)), help="Remove it.", severity=Severity.WARNING)


def _safe(name: str, member: str) -> str:
    """Return a member's name without `.` parts; raise `Rejected` (E304) if it would leave where it is unpacked."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\0" in name:
        link = f", a link to '{shown_name(name)}'," if name != member else ""
        message = f"the archive member '{shown_name(member)}'{link} names a place outside of the archive"
        help_ = "Pack with relative names: `tar -C PARENT -c FOLDER`."
        raise Rejected(Diagnostic("E304", message, help=help_))
    return str(pure)
