"""Which modules there are in the target, and which names those of the tree have.

A module is in the tree, in the target's inventory of packages, among the vendor's modules, or in the standard
library of the target's Python.
"""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.checks.house.making import makes_modules, makes_names
from orchestrator.code.imports import ANYTHING, Import, ModuleNames, globals_in, module_names
from orchestrator.code.symbols import bound_by
from orchestrator.core.diagnostics import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from orchestrator.checks.view import View
    from orchestrator.code.source import Source

T = TypeVar("T")

# The standard library of the Python that runs us, corrected for the target's: first version that has a module,
# first version that has it no more (the "What's New" of 3.11 to 3.14).
_ADDED = {"tomllib": (3, 11), "annotationlib": (3, 14), "compression": (3, 14)}
_REMOVED = {
    **dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), (3, 12)),
    **dict.fromkeys(("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap"), (3, 13)),
    **dict.fromkeys(("msilib", "nis", "nntplib", "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau"), (3, 13)),
    **dict.fromkeys(("telnetlib", "uu", "xdrlib"), (3, 13)),
}


@dataclass(frozen=True)
class InTree:
    """A module of the tree; `source` is None for a namespace package (a folder without `__init__.py`)."""

    name: str
    source: Source | None
    is_package: bool


@dataclass(frozen=True)
class Outside:
    """A module that is there but not in the tree; `names` are what it has, None where nobody listed them."""

    name: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Missing:
    """No such module. `known` are the names that could have stood in place of the part that is missing."""

    name: str
    part: str
    known: tuple[str, ...] = ()


_COMPILED = (".so", ".pyd")
Module = InTree | Outside | Missing


@dataclass(frozen=True)
class World:
    """The modules that a file of the patched tree can import."""

    view: View
    _resolved: dict[str, Module] = field(default_factory=dict)
    deployed: Mapping[str, bytes] = field(default_factory=dict)
    """Files that stages deploy, as they deploy them: edits of one count from there."""
    asked: frozenset[str] = frozenset()
    """Files that the image's own program imports to ask them what is in use."""
    brought: frozenset[str] = frozenset()
    """Files that wheels put into the image."""
    _kept: dict[type, Any] = field(default_factory=dict)
    _named: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def once(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return what answers questions of one kind about this world, the same for every rule."""
        if kind not in self._kept:
            self._kept[kind] = make()
        return self._kept[kind]  # type: ignore[no-any-return]  # what `make` returned

    @cached_property
    def before(self) -> World:
        """The base tree's."""
        return World(replace(self.view, tree=self.view.base))

    @cached_property
    def roots(self) -> frozenset[str]:
        """The top-level names that the tree itself has."""
        return frozenset(path.partition("/")[0].removesuffix(".py") for path in self.view.tree)

    @cached_property
    def _standard(self) -> frozenset[str]:
        python = self.view.facts.python
        removed = {name for name, version in _REMOVED.items() if version <= python}
        later = {name for name, version in _ADDED.items() if version > python}
        return (sys.stdlib_module_names | set(_REMOVED) | set(_ADDED) | {"__main__"}) - removed - later

    def find(self, module: str) -> Module:
        """Return where `module` (absolute, dotted) comes from."""
        if module not in self._resolved:
            inside = module.partition(".")[0] in self.roots
            self._resolved[module] = self._in_tree(module) if inside else self._outside(module)
        return self._resolved[module]

    def _in_tree(self, module: str) -> Module:
        path = module.replace(".", "/")
        for candidate, is_package in ((f"{path}/__init__.py", True), (f"{path}.py", False)):
            source = self.view.source(candidate)
            if source is not None:
                return InTree(module, source, is_package)
        if _covering(module, self.view.facts.packages, deeper_than=1) or module in self.view.facts.vendor_modules:
            return Outside(module)
        if any(other.endswith(_COMPILED) for other in self._starting(f"{path}.")):
            return Outside(module)
        if any(self._starting(f"{path}/")):
            return InTree(module, None, is_package=True)
        return self._missing(module)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        return tuple(sorted(self.view.tree))

    def _starting(self, prefix: str) -> Iterator[str]:
        """Yield the paths of the tree that start so, in order."""
        for number in range(bisect_left(self._paths, prefix), len(self._paths)):
            if not self._paths[number].startswith(prefix):
                return
            yield self._paths[number]

    def _outside(self, module: str) -> Module:
        facts = self.view.facts
        top = module.partition(".")[0]
        if module in facts.vendor_modules:
            return Outside(module, tuple(facts.vendor_modules[module]) or None)
        if _parent_of_any(module, facts.vendor_modules):
            return Outside(module)
        if any(module.startswith(f"{key}.") and not names for key, names in facts.vendor_modules.items()):
            return Outside(module)
        if top in self._standard or _covering(module, facts.packages) or not facts.packages:
            return Outside(module)
        parts = {p.partition(".")[0] for p in (*facts.packages, *facts.vendor_modules)} | self.roots
        if top in parts:
            dotted = {*facts.packages, *facts.vendor_modules}
            return Missing(module, module, tuple(sorted(p for p in dotted if p.partition(".")[0] == top)))
        return Missing(module, top, tuple(sorted(parts)))

    def _missing(self, module: str) -> Missing | Outside:
        """Name the first part of a dotted name that is not there."""
        parts = module.split(".")
        end = next((n for n in range(2, len(parts)) if isinstance(self.find(".".join(parts[:n])), Missing)), len(parts))
        parent = self.find(".".join(parts[: end - 1]))
        if isinstance(parent, Outside):  # what a compiled module brings along is not for us to see
            return Outside(module)
        if isinstance(parent, InTree) and parent.source and makes_modules(parent.source):
            return Outside(module)
        return Missing(module, parts[end - 1], self.submodules(".".join(parts[: end - 1])))

    def submodules(self, module: str) -> tuple[str, ...]:
        """Return the names of what lies directly in a package of the tree."""
        prefix = module.replace(".", "/") + "/"
        rests = (path.removeprefix(prefix) for path in self._starting(prefix))
        found = {rest.partition("/")[0].removesuffix(".py") for rest in rests if rest.endswith(".py")}
        return tuple(sorted(found - {"__init__"}))

    @property
    def has_inventory(self) -> bool:
        """Whether the target lists its packages: only then can one be said to be absent."""
        return bool(self.view.facts.packages)

    def has(self, module: InTree, name: str) -> bool:
        """Tell whether `from module import name` finds something, on any path through the module."""
        if module.is_package and not isinstance(self.find(f"{module.name}.{name}"), Missing):
            return True
        if module.source is None:
            return False
        if _stands_plainly(module.source.raw, name):
            return True
        names = self.names(module)
        return names is None or name in names

    def names(self, module: InTree) -> frozenset[str] | None:
        """Return every name that a module of the tree may have, None where it cannot be known."""
        if module.source is None:
            return frozenset()
        path = module.source.path
        if path not in self._named:
            try:
                self._named[path] = self._names(module.source, {path})
            except Rejected:
                self._named[path] = None
        return self._named[path]

    def _names(self, source: Source, seen: set[str]) -> frozenset[str] | None:
        own = module_names(source)
        if "__getattr__" in own or makes_names(source):
            return None
        names = set(own.bindings) | _MODULE_ATTRIBUTES
        names |= globals_in(source)
        for star in own.stars:
            brought = self.star_names(star, seen)
            if brought is None:
                return None
            names |= brought
        return frozenset(names)

    def star_names(self, star: Import, seen: set[str]) -> frozenset[str] | None:
        """Return what a star import brings, None where it cannot be known."""
        module = self.find(star.module or "")
        if isinstance(module, Missing):
            return None  # rule E502 has the say on it
        if isinstance(module, Outside):
            return None if module.names is None else frozenset(module.names)
        if module.source is None or module.source.path in seen:
            return frozenset()
        try:
            names = self._names(module.source, seen | {module.source.path})
            listed = _listed(module_names(module.source))
        except Rejected:
            return None
        if names is None:
            return None
        # What `__all__` lists is there, or the import itself fails; names of submodules may be among it.
        return frozenset(n for n in names if not n.startswith("_")) | listed


_PLAINLY = ((b"class ", b"("), (b"class ", b":"), (b"def ", b"("), (b"async def ", b"("), (b"", b" = "))
_MARGIN_IMPORT = re.compile(rb"^(?:from|import)[ \t][^\n(]*(?:\([^()]*\))?", re.MULTILINE)
# A binding below `if`, `try` and the like that stand at the margin, with no definition between them.
_IN_A_BLOCK = (
    rb"^(?:if |elif |else:|try:|except|finally:|with )[^\n]*\n"
    rb"(?:[ \t]+(?![ \t]|def |class |async |@)[^\n]*\n|\n|\#[^\n]*\n)*?"
    rb"[ \t]+(?:%b = |(?:async +)?(?:def|class) +%b[(:])"
)
_MODULE_ATTRIBUTES = frozenset({"__name__", "__doc__", "__file__", "__package__", "__path__", "__spec__", "__dict__"})


def _covering(module: str, declared: frozenset[str], *, deeper_than: int = 0) -> bool:
    """Tell whether a declared package is `module`, one of its parents or something inside it."""
    parts = module.split(".")
    prefixes = (".".join(parts[:end]) for end in range(deeper_than + 1, len(parts) + 1))
    return any(prefix in declared for prefix in prefixes) or (not deeper_than and _parent_of_any(module, declared))


def _parent_of_any(module: str, names: frozenset[str] | Mapping[str, object]) -> bool:
    return any(name.startswith(f"{module}.") for name in names)


def _stands_plainly(raw: bytes, name: str) -> bool:
    """Tell by the bytes alone whether a line at the margin binds `name`: most imports need no more.

    A line inside a string could deceive it; then an import that fails is let pass.
    """
    word = name.encode()
    if word not in raw:
        return False
    if any(b"\n%b%b%b" % (before, word, after) in raw for before, after in _PLAINLY):
        return True
    start = raw.find(b"\n%b:" % word)  # an annotation alone binds nothing
    if start >= 0 and b" = " in raw[start : raw.find(b"\n", start + 1)]:
        return True
    if re.search(_IN_A_BLOCK % (word, word), raw, re.MULTILINE):
        return True
    return any(word in found.group() and name in _imported(found.group()) for found in _MARGIN_IMPORT.finditer(raw))


def _imported(statement: bytes) -> set[str]:
    """Return the names that the text of one import statement binds."""
    try:
        return set().union(*(bound_by(part) for part in ast.parse(statement).body))
    except (SyntaxError, ValueError):
        return set()


def _listed(names: ModuleNames) -> frozenset[str]:
    """Return what the `__all__` of a module lists in so many words."""
    return frozenset(
        entry
        for binding in names.bindings.get("__all__", ())
        for entry in _strings(binding.statement)
        if entry != ANYTHING
    )


def _strings(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
