"""E514: an entry that a run puts into a registry-like table names a module that is there and a class that it defines.

Where a table looks its modules up is derived from the entries that it had: those resolve below one package, in one
way. A table whose entries do not is no registry, and nothing is said about it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.checks.house.spelling import module_of
from orchestrator.checks.house.tables import Entry, entries
from orchestrator.checks.house.world import InTree, Missing, World
from orchestrator.code.imports import module_names, package_of
from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.code.source import Source

_SAMPLE = 40
"""Old entries looked at to derive a convention: more would not say more."""
_MARKS = (b"{", b"OrderedDict", b"[", b"dict(", b".update(", b".setdefault(")
_FEWEST = 2
_MOST = 0.8
_TRACES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")


@dataclass(frozen=True)
class Convention:
    """How a table's entries are meant: what stands before the module's name, and how a value is split."""

    form: str
    """*pair*: (module, class); *dotted*: "module.Class"; *colon*: "module:Class"; *keyed*: the key is the module."""
    prefix: str


def judge(world: World, touched: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield one finding for each new entry whose module or class is not there."""
    for path in sorted(touched):
        source = world.view.source(path) if path.endswith(".py") else None
        raw = world.view.base.get(path)
        if source is None or raw is None:
            continue
        try:
            yield from _of_file(source, world.view.sources.get(path, raw), world)
        except Rejected:
            continue  # rule E501 has said so


def _of_file(source: Source, before: Source, world: World) -> Iterator[Diagnostic]:
    if not any(mark in source.raw for mark in _MARKS):
        return
    known = {(e.table, e.key, e.value) for e in entries(before)}
    new = [e for e in entries(source) if (e.table, e.key, e.value) not in known]
    if not new:
        return
    for table in dict.fromkeys(e.table for e in new):
        home, name, old = _home(table, source, world) or (source, table, before)
        reader = _Reader(world, home, _aliases(entries(home)))
        convention = reader.convention([e for e in entries(old) if e.table == name])
        for entry in new if convention else ():
            fault = reader.fault(entry, convention) if convention and entry.table == table else None
            if fault is not None:
                yield Diagnostic("E514", fault[0], source.place(entry.node), help=fault[1])


def _home(table: str, source: Source, world: World) -> tuple[Source, str, Source] | None:
    """Return the file that makes a table which this one imports, its name there, and that file as it was."""
    root, _, rest = table.partition(".")
    bound = module_names(source).bindings.get(root, ())
    entry = bound[0].imported if len(bound) == 1 else None
    if entry is None:
        return None
    module = module_of(ast.parse(table, mode="eval").body, source) or ""
    module, _, name = module.rpartition(".")
    found = world.find(module) if module and (rest or entry.name) else None
    if not isinstance(found, InTree) or found.source is None:
        return None
    old = world.view.base_source(found.source.path)
    return None if old is None else (found.source, name, old)


def _aliases(all_entries: Sequence[Entry]) -> Mapping[str, frozenset[str]]:
    """Return what the tables of a file say of a key in one word: for some of them that is another module's name."""
    found: dict[str, set[str]] = {}
    for entry in all_entries:
        if len(entry.value) == 1 and _is_dotted(entry.value[0]):
            found.setdefault(entry.key, set()).add(entry.value[0])
    return {key: frozenset(values) for key, values in found.items()}


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


@dataclass
class _Reader:
    world: World
    source: Source
    aliases: Mapping[str, frozenset[str]]
    inside: dict[str, list[InTree]] = field(default_factory=dict)

    def convention(self, old: Sequence[Entry]) -> Convention | None:
        """Return the convention by which most of the old entries resolve, None where none is clear."""
        sample = old[:: max(1, len(old) // _SAMPLE)]
        best: tuple[float, Convention | None] = (0.0, None)
        for form in ("pair", "colon", "dotted", "keyed"):
            fitting = [e for e in sample if self.split(e, form)]
            if len(fitting) < _FEWEST or len(fitting) < _MOST * len(sample):
                continue
            for prefix in self.prefixes():
                convention = Convention(form, prefix)
                share = self.share(fitting, convention)
                if share > best[0]:
                    best = (share, convention)
        return best[1] if best[0] >= _MOST else None

    def share(self, sample: Sequence[Entry], convention: Convention) -> float:
        """Return the share of entries that plainly resolve, nought as soon as too few of them can."""
        missed = 0
        for entry in sample:
            missed += not self.plainly(entry, convention)
            if missed > (1 - _MOST) * len(sample):
                return 0.0
        return 1 - missed / len(sample)

    def plainly(self, entry: Entry, convention: Convention) -> bool:
        """Tell whether the class of an entry stands at the margin of its module: quick, nothing is parsed."""
        modules, name = self.split(entry, convention.form) or ((), "")
        found = (self.world.find(f"{convention.prefix}{module}") for module in modules)
        return any(isinstance(module, InTree) and self.at_margin(module, name) for module in found)

    def prefixes(self) -> Iterator[str]:
        """Yield where modules may be looked up: nowhere in particular, the packages around, and what the file names."""
        yield ""
        package = package_of(self.source.path).split(".")
        named = {
            node.value.strip(".")
            for node in ast.walk(self.source.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and set(node.value) <= _TRACES
        }
        around = [".".join(package[:end]) for end in range(len(package), 0, -1)]
        spelt = sorted(name for name in named if "." in name and _is_dotted(name) and name not in around)
        for prefix in (*around, *spelt):
            if isinstance(self.world.find(prefix), InTree):
                yield f"{prefix}."

    def split(self, entry: Entry, form: str) -> tuple[tuple[str, ...], str] | None:
        """Return the modules that an entry may mean and the class in it; None where it is not of this form."""
        match form, entry.value:
            case "pair", (module, name) if _is_dotted(module.lstrip(".")) and name.isidentifier():
                return (module.lstrip("."),), name
            case "colon", (text,) if text.count(":") == 1:
                module, _, name = text.partition(":")
                return ((module.lstrip("."),), name) if _is_dotted(module.lstrip(".")) and _is_dotted(name) else None
            case "dotted", (text,) if "." in text and _is_dotted(text):
                module, _, name = text.rpartition(".")
                return (module,), name
            case "keyed", (text,) if text.isidentifier():
                others = self.aliases.get(entry.key, frozenset()) - {text}
                return (entry.key.replace("-", "_"), *sorted(others)), text
            case _:
                return None

    def fault(self, entry: Entry, convention: Convention) -> tuple[str, str] | None:
        """Return what is wrong with an entry and what to do, None if it resolves or is of another form."""
        parts = self.split(entry, convention.form)
        if parts is None:
            return None
        modules, name = parts
        names = [f"{convention.prefix}{module}" for module in modules]
        inside = [found for module in names if isinstance(found := self.world.find(module), InTree)]
        what = f"`{entry.table}[{entry.key!r}]` names"
        if inside:
            if any(self.defines(module, name) for module in inside):
                return None
            message = f"{what} `{name}`, which `{inside[0].name}` does not define"
            return message, "Correct the name, or define it in the module."
        if not any(isinstance(self.world.find(module), Missing) for module in names):
            return None  # outside of the tree: not for us to see
        around, _, last = names[0].rpartition(".")
        near = did_you_mean(last, self.world.submodules(around)) if around else ""
        help_ = f"{near} " if near.startswith("did") else ""
        path = names[0].replace(".", "/")
        message = f"{what} the module `{names[0]}`, and there is no {path}.py"
        return message, f"{help_}Let a stage deploy the module, or correct the entry."

    def defines(self, module: InTree, name: str) -> bool:
        """Tell whether a module has a name, or one of the modules directly in it where it is a package."""
        first = name.partition(".")[0]
        if self.at_margin(module, first):
            return True
        if not module.is_package:
            return self.world.has(module, first)
        names = self.world.names(module)
        if names is not None and first in names:
            return True
        return any(self.world.has(each, first) for each in self.below(module))

    def at_margin(self, module: InTree, name: str) -> bool:
        first = name.partition(".")[0].encode()
        stands = re.compile(rb"^(?:(?:async )?def |class |)%b\b" % re.escape(first), re.MULTILINE)
        several = [module, *self.below(module)] if module.is_package else [module]
        return any(
            each.source is not None and first in each.source.raw and stands.search(each.source.raw) for each in several
        )

    def below(self, module: InTree) -> list[InTree]:
        """Return the modules directly in a package that have a file."""
        if module.name not in self.inside:
            found = [self.world.find(f"{module.name}.{each}") for each in self.world.submodules(module.name)]
            self.inside[module.name] = [each for each in found if isinstance(each, InTree) and each.source is not None]
        return self.inside[module.name]
