"""From the bytes of `pipeline.yaml` to a validated pipeline with its values filled in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.checks.catalogue import CHECKS
from orchestrator.checks.plugins import check_model
from orchestrator.code.holes import interpolate
from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean
from orchestrator.engine.model import Pipeline
from orchestrator.spec.document import Document, read_document
from orchestrator.spec.edits import EDITS
from orchestrator.spec.model import code_fields
from orchestrator.spec.target import Target, load_target
from orchestrator.spec.validate import misread, validated

if TYPE_CHECKING:
    from pydantic import BaseModel


class WrongChoice(Rejected):
    """The command line asks for a variant, a parameter or a target file that is not there."""


Read = Callable[[str], bytes]
"""Brings a workspace file by its path; raises `Rejected`."""

_TAGGED: dict[str, Mapping[str, type[BaseModel]]] = {"op": EDITS, "check": CHECKS}
_KNOWN: dict[str, type[BaseModel]] = {**EDITS, **CHECKS}


@dataclass(frozen=True)
class Choice:
    """What the command line says about a pipeline: a variant, and parameters as YAML scalars."""

    variant: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    """Another target file than the one the pipeline names."""


@dataclass(frozen=True)
class Loaded:
    """A valid pipeline, its target, the values that YAML may refer to, and the document for places."""

    pipeline: Pipeline
    target: Target
    values: Mapping[str, Any]
    document: Document

    def place(self, stage: int, *path: str | int) -> Place:
        """Return where a part of stage number `stage` stands in the YAML."""
        return self.document.place(("stages", stage, *path))


def load(name: str, content: bytes, read: Read, choice: Choice | None = None) -> Loaded:
    """Return the pipeline in `content` with the parameters of `choice`; raise `Rejected` with all faults found.

    Reading stops at the first step that finds faults; within a step all are collected.
    """
    choice = choice or Choice()
    document = read_document(name, content)
    if not isinstance(document.data, dict):
        help_ = "Start with `version: 1`; `orchestrator init` writes a starter."
        raise Rejected(Diagnostic("E103", "the document is not a mapping", document.place(()), help=help_))
    wrong = misread(document)
    if wrong:
        raise Rejected(wrong)
    params = _params(document, choice)
    target = _target(document, read, choice.target)
    values: dict[str, Any] = {f"params.{key}": value for key, value in params.items()} | target.values()
    data = dict(document.data)
    if "stages" in data:
        data["stages"] = _filled(document, values, target.unknown())
    if isinstance(data.get("params"), dict):
        data["params"] = params
    pipeline = validated(Pipeline, data, document, {**_KNOWN, **_foreign(data.get("stages"))})
    return Loaded(pipeline, target, values, document)


def load_facts(name: str, content: bytes, read: Read, choice: Choice) -> tuple[Target, dict[str, Any]]:
    """Return the target and the values of a pipeline whose stages may be anything; raise `Rejected` as `load` does."""
    document = read_document(name, content)
    if not isinstance(document.data, dict):
        raise Rejected(Diagnostic("E103", "the document is not a mapping", document.place(())))
    target = _target(document, read, choice.target)
    return target, {f"params.{key}": value for key, value in _params(document, choice).items()} | target.values()


def _params(document: Document, choice: Choice) -> dict[str, Any]:
    """Return the parameters: those of the document, those of the variant, those of the command line."""
    data = document.data
    params = dict(data["params"]) if isinstance(data.get("params"), dict) else {}
    variants = data["variants"] if isinstance(data.get("variants"), dict) else {}
    faults = []
    for variant, changes in variants.items():
        for key, value in changes.items() if isinstance(changes, dict) else ():
            if key not in params:
                place = document.place(("variants", variant, key), key=True)
                message = f"variant '{variant}' sets '{key}', which is not a parameter"
                faults.append(Diagnostic("E201", message, place, help=did_you_mean(key, params)))
            elif not _fits(value, params[key]):
                place = document.place(("variants", variant, key))
                faults.append(_other_type(f"variant '{variant}' sets {key} to {value!r}", params[key], place))
    if faults:
        raise Rejected(faults)
    if choice.variant is not None and choice.variant not in variants:
        help_ = did_you_mean(choice.variant, variants) or "The pipeline has no `variants:`."
        raise WrongChoice(Diagnostic("E202", f"--variant {choice.variant}: there is no such variant", help=help_))
    changed = {**params, **(variants.get(choice.variant or "") or {})}
    for key, text in choice.settings.items():
        try:
            changed[key] = _setting(document, params, key, text)
        except Rejected as error:
            faults.extend(error.diagnostics)
    if faults:
        raise WrongChoice(faults)
    return changed


def _setting(document: Document, params: Mapping[str, Any], key: str, text: str) -> Any:  # noqa: ANN401 - a scalar
    if key not in params:
        message = f"--set {key}: there is no such parameter"
        help_ = did_you_mean(key, params) or "The pipeline has no `params:`."
        raise Rejected(Diagnostic("E201", message, help=help_))
    try:
        read = read_document(f"--set {key}", text.encode())
        value = text if isinstance(params[key], str) else read.data
    except Rejected:
        value = text
    if not _fits(value, params[key]):
        raise Rejected(_other_type(f"--set {key}={text}", params[key], document.place(("params", key))))
    return value


def _fits(value: object, default: object) -> bool:
    """Tell whether a value may take a parameter's place: one of its type, or a whole number for any number."""
    number = isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool)
    return type(value) is type(default) or number


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}


def _other_type(what: str, default: object, place: Place) -> Diagnostic:
    message = f"{what}: the parameter takes {_KINDS.get(type(default), 'another type')}"
    help_ = f"Give a value like the one in `params:`, {default!r}."
    return Diagnostic("E203", message, place, help=help_)


def _target(document: Document, read: Read, other: str | None) -> Target:
    path = other if other is not None else document.data.get("target")
    if not isinstance(path, str):
        message = "`target` names the file with the target's facts"
        raise Rejected(
            Diagnostic("E111", message, document.place(("target",)), help="Add `target: targets/NAME.yaml`.")
        )
    try:
        content = read(path)
    except Rejected as error:
        if other is not None:
            named = (dataclasses.replace(d, message=f"--target: {d.message}") for d in error.diagnostics)
            raise WrongChoice(named) from None
        raise Rejected(d.at(document.place(("target",))) for d in error.diagnostics) from None
    return load_target(path, content, read)


def _filled(document: Document, values: Mapping[str, Any], unknown: frozenset[str]) -> Any:  # noqa: ANN401 - plain data
    faults: list[Diagnostic] = []

    def fill(data: Any, path: tuple[str | int, ...], code: frozenset[str]) -> Any:  # noqa: ANN401 - plain data
        if isinstance(data, list):
            return [fill(item, (*path, i), code) for i, item in enumerate(data)]
        if isinstance(data, dict):
            inside = _code_keys(data)
            return {
                key: value if key in inside and isinstance(value, str) else fill(value, (*path, key), inside)
                for key, value in data.items()
            }
        if isinstance(data, str) and "${" in data:
            try:
                return interpolate(data, values)
            except Rejected as error:
                faults.extend(explained(d, unknown).at(document.place(path)) for d in error.diagnostics)
        return data

    filled = fill(document.data.get("stages"), ("stages",), frozenset())
    if faults:
        raise Rejected(faults)
    return filled


def explained(found: Diagnostic, unknown: frozenset[str]) -> Diagnostic:
    """Return a diagnostic about an unknown value that says so where the target's figure itself is unknown."""
    name = found.message.partition("${")[2].partition("}")[0]
    if found.code != "E204" or name not in unknown:
        return found
    message = f"`${{{name}}}` is unknown: the target says so, and nothing is computed from it"
    return dataclasses.replace(found, message=message, help="Measure it and enter it in the target, or do without it.")


def _foreign(stages: Any) -> dict[str, type[BaseModel]]:  # noqa: ANN401 - plain data
    """Return the models of the installed checks that stages name; of those that can be had."""
    named = {
        check["check"]
        for stage in (stages if isinstance(stages, list) else ())
        for check in (_checks(stage) if isinstance(stage, dict) else ())
        if isinstance(check, dict) and isinstance(check.get("check"), str)
    }
    found = {name: _installed(name) for name in named - CHECKS.keys()}
    return {name: model for name, model in found.items() if model is not None}


def _checks(stage: Mapping[str, Any]) -> list[Any]:
    """Return what stands where a stage has its checks."""
    upstream = stage.get("upstream")
    fixed = _listed(upstream, "fixed_when") if isinstance(upstream, dict) else []
    return [check for key in ("when", "pre", "post") for check in _listed(stage, key)] + fixed


def _listed(stage: Mapping[str, Any], key: str) -> list[Any]:
    value = stage.get(key)
    return value if isinstance(value, list) else []


def _installed(name: str) -> type[BaseModel] | None:
    try:
        return check_model(name, CHECKS)
    except Rejected:  # told when the entry is validated
        return None


def _code_keys(data: Mapping[str, Any]) -> frozenset[str]:
    for tag, models in _TAGGED.items():
        name = str(data.get(tag))
        model = models.get(name)
        if model is None and tag == "check" and "." in name:
            model = _installed(name)
        if model is not None:
            return frozenset(code_fields(model))
    return frozenset()
