"""What the documents say about one thing: a code, an edit, a check, a model of a file, a transform."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.checks.catalogue import CHECKS
from orchestrator.core.codes import CODES, INSTALLER_CODES
from orchestrator.emit.reference import (
    CONFIGURATION,
    DOCUMENT,
    FACTS,
    code_section,
    installer_row,
    keys_of,
    section,
)
from orchestrator.spec.edits import EDITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from orchestrator.checks.base import Check
    from orchestrator.code.transforms import LoadedTransform


@dataclass(frozen=True)
class Explanation:
    """What a name means: its kind, its text as the documents have it (Markdown), and the same as data."""

    kind: str
    name: str
    text: str
    data: Mapping[str, Any]

    def record(self) -> dict[str, Any]:
        """Return plain data."""
        return {"event": "explanation", "kind": self.kind, "name": self.name, **self.data, "text": self.text}


def names() -> dict[str, list[str]]:
    """Return what can be explained without a workspace, by kind."""
    models = [model.__name__ for model in (*DOCUMENT, *FACTS, *CONFIGURATION)]
    return {"code": [*CODES, *INSTALLER_CODES], "op": list(EDITS), "check": list(CHECKS), "model": models}


def explanations(
    name: str, foreign: Mapping[str, type[Check]], transforms: Mapping[str, LoadedTransform]
) -> list[Explanation]:
    """Return all that a name means, however its kind is written before it (`op: assign`); [] where it means nothing.

    `foreign` are checks of installed distributions, `transforms` those that could be loaded.
    """
    kind, _, plain = name.rpartition(":")
    kind, plain = kind.strip(), plain.strip()
    found = []
    if plain.upper() in CODES:
        found.append(_code(plain.upper()))
    if plain.upper() in INSTALLER_CODES:
        entry = INSTALLER_CODES[plain.upper()]
        data = {"meaning": entry.meaning, "advice": entry.advice}
        found.append(Explanation("code", plain.upper(), installer_row(plain.upper()), data))
    if plain in EDITS:
        found.append(_model("op", plain, f"op: {plain}", EDITS[plain]))
    checks: dict[str, type[Check]] = {**CHECKS, **foreign}
    if plain in checks:
        found.append(_model("check", plain, f"check: {plain}", checks[plain]))
    models = [m for m in (*DOCUMENT, *FACTS, *CONFIGURATION) if m.__name__.lower() == plain.lower()]
    found += [_model("model", model.__name__, model.__name__, model) for model in models]
    if plain in transforms:
        found.append(_transform(plain, transforms[plain]))
    return [each for each in found if kind in {"", each.kind, "use"}]


def _code(code: str) -> Explanation:
    entry = CODES[code]
    exits = [int(exit_code) for exit_code in entry.exits]
    data = {"title": entry.title, "meaning": entry.meaning, "advice": entry.advice, "exits": exits}
    return Explanation("code", code, "\n".join(code_section(code)).rstrip("\n") + "\n", data)


def _model(kind: str, name: str, heading: str, model: type[BaseModel]) -> Explanation:
    what = inspect.getdoc(model) or ""
    try:
        keys, lines = keys_of(model), section(heading, model)
    except Exception as error:  # noqa: BLE001 - a model of others may hold what has no schema
        keys, lines = [], [f"### {heading}", "", what, "", f"Its keys cannot be shown: {error}"]
    return Explanation(kind, name, "\n".join(lines).rstrip("\n") + "\n", {"what": what, "keys": keys})


def _transform(name: str, loaded: LoadedTransform) -> Explanation:
    """Return what a transform says of itself: its docstring, and the keys of its `Params`."""
    what = inspect.getdoc(loaded.function) or ""
    lines = [f"### transform: {name}", "", loaded.about or what, ""]
    if loaded.about and what:
        lines += [what, ""]
    params = _model("params", "params", "params", loaded.params)
    lines += params.text.splitlines()[2:] if loaded.params.model_fields else ["It takes no params."]
    where = loaded.origin or loaded.path
    text = "\n".join([*lines, "", f"From {where}."]) + "\n"
    return Explanation("transform", name, text, {"what": loaded.about or what, "keys": params.data["keys"]})
