"""One effective environment, of image, Dockerfile and run configuration, and the rules that it has to keep (rule 8)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from orchestrator.checks.serving.facts import DOCKERFILE, IMAGE, RUN
from orchestrator.core.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.checks.serving.facts import Serving
    from orchestrator.checks.view import View
    from orchestrator.core.diagnostics import Place

PRELOAD = "LD_PRELOAD"


@dataclass(frozen=True)
class Variable:
    """One variable of the server's process: the value that wins, where it is set, and what it hides."""

    name: str
    value: str
    layer: str
    hidden: tuple[tuple[str, str], ...] = ()
    """(layer, value) of every earlier layer that sets it to something else."""


Environment = dict[str, Variable]


def effective_environment(layers: Sequence[tuple[str, Mapping[str, str]]]) -> Environment:
    """Return the variables of all layers; a later layer wins and keeps what it hides."""
    found: Environment = {}
    for layer, variables in layers:
        for name, value in variables.items():
            before = found.get(name)
            hidden = before.hidden if before else ()
            if before and before.value != value:
                hidden = (*hidden, (before.layer, before.value))
            found[name] = Variable(name, value, layer, hidden)
    return found


def environment_here(serving: Serving, run: Mapping[str, str]) -> Environment:
    """Return the effective environment of a run configuration on a target's image."""
    layers = ((IMAGE, serving.image_environment), (DOCKERFILE, serving.dockerfile_environment), (RUN, run))
    return effective_environment(layers)


def environment_faults(view: View, found: Environment, at: Mapping[str, Place], file: Place) -> Iterator[Diagnostic]:
    """Yield what is wrong with an environment; `at` are the places of the run configuration's own variables."""
    serving = view.facts.serving
    for name, wanted in serving.required.items():
        yield from _lost(found.get(name), name, str(wanted.value), wanted.source, at.get(name, file))
    for refused in serving.refused:
        variable = found.get(refused.name)
        if variable and refused.containing in variable.value:
            message = (
                f"rule 8: {refused.name}={variable.value} ({variable.layer}) is not supported here: {refused.source}"
            )
            yield Diagnostic("E543", message, at.get(refused.name, file), "Remove it.")
    if PRELOAD in found:
        yield from _missing_libraries(view, found[PRELOAD], at.get(PRELOAD, file))
    ours = [variable for variable in found.values() if variable.layer != IMAGE]
    for variable in ours:
        for layer, value in variable.hidden:
            message = f"{variable.name}={variable.value} ({variable.layer}) hides {variable.name}={value} ({layer})"
            help_ = "Set it in one place."
            yield Diagnostic("W542", message, at.get(variable.name, file), help_, severity=Severity.WARNING)
    if serving.server and any(path in view.tree for path in serving.server.argument_files):
        yield from _unread(view, ours, at, file)


def _lost(variable: Variable | None, name: str, wanted: str, source: str, place: Place) -> Iterator[Diagnostic]:
    if variable is not None and variable.value == wanted:
        return
    is_ = "is set nowhere" if variable is None else f"is {variable.value!r} ({variable.layer})"
    message = f"{name} {is_}, and must be {wanted!r} in the server's environment: {source}"
    yield Diagnostic("E544", message, place, "Set it in the run configuration's `env`, or by ENV in the Dockerfile.")


def _missing_libraries(view: View, variable: Variable, place: Place) -> Iterator[Diagnostic]:
    """Yield a fault for each library that is neither in the image's inventory nor in a package root of the tree."""
    for library in re.split(r"[\s:]+", variable.value.strip()):
        if not library or library in view.facts.serving.image_files or _in_tree(view, library):
            continue
        message = (
            f"rule 8: {PRELOAD} ({variable.layer}) names {library}, which is not known to be in the image: "
            "a missing file kills every process"
        )
        yield Diagnostic("E543", message, place, "Remove it, or enter the file under `image.files` of the target.")


def _in_tree(view: View, path: str) -> bool:
    for root, places in view.facts.roots.items():
        for folder in places:
            if path.startswith(f"{folder}/") and view.content(f"{root}{path.removeprefix(folder)}") is not None:
                view.read(f"{root}{path.removeprefix(folder)}")
                return True
    return False


def _unread(view: View, ours: Sequence[Variable], at: Mapping[str, Place], file: Place) -> Iterator[Diagnostic]:
    """Yield a warning for each variable that no string of the tree names and nothing of the inventory reads."""
    serving = view.facts.serving
    known = set(serving.required) | {refused.name for refused in serving.refused} | set(serving.image_environment)
    asked = [v for v in ours if v.name not in known and not any(fnmatchcase(v.name, name) for name in serving.read)]
    left = {variable.name.encode() for variable in asked}
    for path in view.paths() if left else ():
        raw = view.tree[path]
        left -= {name for name in left if name in raw and re.search(rb"[\"']" + name + rb"[\"']", raw)}
        if not left:
            break
    for variable in asked:
        if variable.name.encode() in left:
            message = f"nothing reads {variable.name} ({variable.layer}): no string of the patched tree names it"
            help_ = "Correct its name, remove it, or enter what reads it under `read_env` of the target."
            yield Diagnostic("W541", message, at.get(variable.name, file), help_, severity=Severity.WARNING)
