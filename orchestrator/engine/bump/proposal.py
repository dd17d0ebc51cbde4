"""The YAML to write instead: only what was run in memory and applies is proposed."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any

from orchestrator.checks.view import View
from orchestrator.code.edits import ScopedEdit
from orchestrator.code.scopes import MODULE
from orchestrator.core.diagnostics import Rejected
from orchestrator.engine.attempt import attempt
from orchestrator.spec.document import read_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.checks.base import Check
    from orchestrator.checks.view import Facts
    from orchestrator.code.scopes import Definition
    from orchestrator.engine.ground import Ground
    from orchestrator.engine.plan import Plan, PlannedEdit, PlannedStage

Moves = dict[tuple[str, str | None], tuple[str, str | None]]
"""(file, within) as the YAML has it → as it would have to be."""
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*\Z")
_MEANT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def moved_to(planned: PlannedEdit, to: Definition) -> PlannedEdit:
    """Return an edit at another place."""
    within = None if to.name == MODULE else to.name
    return dataclasses.replace(planned, edit=ScopedEdit(to.file, within, planned.edit.edit))


def applies(stage: PlannedStage, edit: PlannedEdit, ground: Ground) -> bool:
    """Tell whether an edit of a stage applies by itself."""
    alone = dataclasses.replace(stage, edits=(edit,), deploys=(), wheels=())
    try:
        tried = attempt(alone, ground)
    except Rejected:
        return False
    return bool(tried.pending) and not tried.faults


def whole_applies(stage: PlannedStage, edits: Sequence[PlannedEdit], moves: Moves, ground: Ground, facts: Facts) -> str:
    """Return why a stage with these edits, its checks moved along, does not apply; empty where it does."""
    tried = attempt(dataclasses.replace(stage, edits=tuple(edits)), ground)
    if tried.faults:
        return tried.faults[0].message
    ground = ground.with_roots(tried.roots)
    before = View(ground.tree, ground.base, facts, sources=ground.sources)
    after = dataclasses.replace(before, tree=ground.tree.with_files(tried.written))
    for checks, view in ((stage.stage.pre, before), (stage.stage.post, after)):
        for check in checks:
            verdict = moved_check(check, moves).judge(view)
            if not verdict.holds:
                return f"{check.check} ({check.subject()}): {verdict.evidence}"
    return ""


def moved_check(check: Check, moves: Moves) -> Check:
    """Return a check at the place to which what it looks at has moved."""
    key = (str(getattr(check, "file", "")), getattr(check, "within", None))
    if key not in moves:
        return check
    file, within = moves[key]
    known = {"file": file, "within": within}
    return check.model_copy(update={name: value for name, value in known.items() if name in type(check).model_fields})


def edit_yaml(plan: Plan, stage: PlannedStage, planned: PlannedEdit, to: PlannedEdit) -> str:
    """Return the YAML of an edit at its new place, as an entry of `edits:`; what the user wrote is kept."""
    written = _written(plan, stage, "edits")
    return entry(_relocated(written[planned.number - 1], to.edit.file, to.edit.within)) if written else ""


def stage_yaml(plan: Plan, stage: PlannedStage, edits: Sequence[PlannedEdit], moves: Moves) -> str:
    """Return all entries of a stage that have to change, by key: `edits` are all of its edits, moved or as they are."""
    moved = [edit_yaml(plan, stage, old, new) for old, new in zip(stage.edits, edits, strict=True) if new is not old]
    parts = ["edits:\n" + "".join(moved)] if moved else []
    for key in ("pre", "post"):
        changed = []
        for data in _written(plan, stage, key):
            place = (str(data.get("file", "")), data.get("within"))
            if place in moves:
                changed.append(entry(_relocated(data, *moves[place])))
        if changed:
            parts.append(f"{key}:\n" + "".join(changed))
    return "".join(parts)


def _written(plan: Plan, stage: PlannedStage, key: str) -> list[dict[str, Any]]:
    """Return the entries of a stage as the YAML has them, nothing filled in."""
    document = read_document(stage.place.file, plan.read(stage.place.file))
    stages = document.data.get("stages") or [] if isinstance(document.data, dict) else []
    found = next((data for data in stages if isinstance(data, dict) and data.get("id") == stage.id), {})
    return [data for data in found.get(key) or [] if isinstance(data, dict)]


def _relocated(data: Mapping[str, Any], file: str, within: str | None) -> dict[str, Any]:
    """Return an entry with another file and definition, its keys in their order."""
    made: dict[str, Any] = {}
    for key, value in data.items():
        if key == "file":
            made["file"] = file
            if within is not None:
                made["within"] = within
        elif key != "within":
            made[key] = value
    return made


def entry(data: Mapping[str, Any], indent: str = "  ") -> str:
    """Return a mapping as an entry of a list in block style, in YAML 1.2 that reads back as the same data."""
    lines = []
    for number, (key, value) in enumerate(data.items()):
        lead = f"{indent}- " if number == 0 else f"{indent}  "
        lines.append(f"{lead}{_scalar(key)}: {_value(value, indent + '    ')}\n")
    return "".join(lines)


def _value(value: object, indent: str) -> str:
    if isinstance(value, str) and "\n" in value and _fits_a_block(value):
        body = "".join(f"{indent}{line}\n" if line else "\n" for line in value.rstrip("\n").split("\n"))
        return f"|{'' if value.endswith(chr(10)) else '-'}\n{body}".rstrip("\n")
    return _scalar(value)


def _fits_a_block(text: str) -> bool:
    """Tell whether a text can stand as a literal block: nothing that YAML would take for something else."""
    lines = text.removesuffix("\n").split("\n")
    spaced = any(line != line.rstrip() for line in lines) or lines[0][:1] in {" ", ""} or lines[-1] == ""
    return not spaced and all(line.isprintable() for line in lines) and "\N{ZERO WIDTH NO-BREAK SPACE}" not in text


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _MEANT:
        return value
    if isinstance(value, str):
        return "".join(_escaped(character) for character in json.dumps(value, ensure_ascii=False))
    return json.dumps(value)


def _escaped(character: str) -> str:
    """Return a character as it may stand in a text in double quotes: one that is not seen by its number."""
    return character if character.isprintable() else f"\\U{ord(character):08X}"
