"""Transforms and checks that installed distributions bring, by their entry points.

To list them nothing is imported; one is loaded when a pipeline uses it. Its name is `DISTRIBUTION.NAME`: the
distribution as package indexes spell it (lower case, dashes), a dot, and the name of the entry point.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from packaging.utils import canonicalize_name

from orchestrator.core.diagnostics import Diagnostic, Rejected, did_you_mean
from orchestrator.core.digest import digest_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Kind = Literal["transform", "check"]
GROUPS: dict[Kind, str] = {"transform": "orchestrator.transforms", "check": "orchestrator.checks"}
"""Kind → the group of its entry points."""
_TARGET = re.compile(r"(?P<module>[\w.]+)\s*(:\s*(?P<attribute>[\w.]+))?\s*(\[.*\])?\s*\Z")


@dataclass(frozen=True)
class Plugin:
    """One entry point: its kind, its name with the prefix, the distribution with its version, and what it names."""

    kind: Kind
    name: str
    distribution: str
    version: str
    target: str
    location: str = ""
    """The folder that the distribution is installed in."""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}, {self.target}"


def installed(kind: Kind) -> Mapping[str, tuple[Plugin, ...]]:
    """Return the plugins of a kind by name, without loading any; several of one name are a clash."""
    return _scanned(tuple(sys.path))[kind]


@lru_cache(maxsize=16)
def _scanned(path: tuple[str, ...]) -> dict[Kind, Mapping[str, tuple[Plugin, ...]]]:
    kinds: dict[str, Kind] = {group: kind for kind, group in GROUPS.items()}
    found: dict[Kind, defaultdict[str, list[Plugin]]] = {kind: defaultdict(list) for kind in GROUPS}
    for distribution in metadata.distributions(path=list(path)):
        name = distribution.metadata["Name"] if distribution.metadata is not None else None
        for entry in distribution.entry_points if name else ():
            kind = kinds.get(entry.group)
            if kind is None:
                continue
            own = str(canonicalize_name(name))
            where = str(distribution.locate_file(""))
            plugin = Plugin(kind, f"{own}.{entry.name}", own, distribution.version, entry.value, where)
            others = found[kind][plugin.name]
            # One distribution may be seen twice, in its own folder and as installed: that is one, if it says the same.
            if not any((other.target, other.version) == (plugin.target, plugin.version) for other in others):
                others.append(plugin)
    return {
        kind: {name: tuple(plugins) for name, plugins in sorted(by_name.items())} for kind, by_name in found.items()
    }


def find_plugin(kind: Kind, name: str) -> Plugin | None:
    """Return the plugin of this name, None where there is none; raise `Rejected` (E281) where there are several."""
    found = installed(kind).get(name, ())
    if len(found) > 1:
        message = f"{kind} '{name}' is brought by two entry points"
        notes = tuple(f"{plugin} (in {plugin.location})" for plugin in found)
        help_ = "Uninstall one of the two, or let its author rename the entry point."
        raise Rejected(Diagnostic("E281", message, help=help_, notes=notes))
    return found[0] if found else None


def suggestion(kind: Kind, name: str, own: Iterable[str] = ()) -> str:
    """Return what may be meant by a name that is not known: one of `own`, or a plugin."""
    plugins = list(installed(kind))
    last = name.rpartition(".")[2]
    same = [plugin for plugin in plugins if plugin.rpartition(".")[2] == last]
    if same:
        return f"did you mean '{same[0]}'?"
    near = did_you_mean(name, [*own, *plugins])
    distribution = name.rpartition(".")[0]
    if distribution and not near.startswith("did you mean"):
        there = f" Installed: {', '.join(plugins)}." if plugins else ""
        return f"Install the distribution '{distribution}' beside orchestrator, or correct the name.{there}"
    return near


@cache
def load_plugin(plugin: Plugin) -> Any:  # noqa: ANN401 - whatever the distribution's author put there
    """Return what the entry point names; raise `Rejected` (E280) where it cannot be imported."""
    target = _TARGET.match(plugin.target)
    if target is None:
        raise Rejected(broken(plugin, "it names no `module` or `module:attribute`"))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout is the result's
            found: Any = importlib.import_module(target["module"])
            for part in (target["attribute"] or "").split(".") if target["attribute"] else ():
                found = getattr(found, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the author's module does at import
        raise Rejected(broken(plugin, f"loading it raised {said(error)}")) from None
    return found


def said(error: BaseException) -> str:
    """Return an exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def broken(plugin: Plugin, why: str) -> Diagnostic:
    """Return E280, which names the distribution."""
    message = f"{plugin.kind} '{plugin.name}' of {plugin.distribution} {plugin.version} cannot be used: {why}"
    help_ = f"Mend or update the distribution '{plugin.distribution}'; docs/plugins.md says what it has to bring."
    return Diagnostic("E280", message, help=help_, notes=(f"entry point: {plugin.target} (in {plugin.location})",))


@cache
def source_digest(plugin: Plugin) -> str:
    """Return the digest of the Python files of the top-level package, or module, that a plugin comes from.

    Raises `Rejected` (E280) where these cannot be read.
    """
    top = re.split(r"[.:\s]", plugin.target)[0]
    try:
        spec = importlib.util.find_spec(top)
        if spec is None:
            raise Rejected(broken(plugin, f"there is no module '{top}'"))
        files = [
            (f"{top}/{path.relative_to(folder).as_posix()}", path.read_bytes())
            for folder in map(Path, spec.submodule_search_locations or ())
            for path in sorted(folder.rglob("*.py"))
        ]
        if not files:
            files = [(f"{top}.py", Path(spec.origin or "").read_bytes())]
    except (OSError, ValueError, ImportError) as error:
        raise Rejected(broken(plugin, f"its source cannot be read: {said(error)}")) from None
    return digest_files(files)
