"""`docker-bake.json`: the cells of a matrix as targets for BuildKit, which builds them here or on a cluster."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from orchestrator.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BAKE = "docker-bake.json"
_TAG_LENGTH = 128
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def bake_names(cells: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return (target, variant) → the name of the cell in bake: `TARGET_VARIANT`, where other characters become `-`.

    Two variants that would have one name then get a number; a target's name has neither `_` nor other characters.
    """
    names: dict[tuple[str, str], str] = {}
    for target, variant in cells:
        name = wanted = f"{target}_{_NOT_A_NAME.sub('-', variant)}"
        number = 1
        while name in names.values():
            number += 1
            name = f"{wanted}-{number}"
        names[target, variant] = name
    return names


def bake_file(cells: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the bake file for the records of a matrix's cells (see `cell_record`).

    Contexts are relative to the folder that holds the file: run `docker buildx bake` there.
    """
    groups: dict[str, list[str]] = {"default": [cell["bake"] for cell in cells]}
    for cell in cells:
        groups.setdefault(f"target-{cell['target']}", []).append(cell["bake"])
    data = {
        "group": {name: {"targets": targets} for name, targets in groups.items()},
        "target": {cell["bake"]: _target(cell) for cell in cells},
    }
    return (json.dumps(_literal(data), indent=2, ensure_ascii=False) + "\n").encode()


def _target(cell: Mapping[str, Any]) -> dict[str, Any]:
    labels = {
        "orchestrator.pipeline": cell["pipeline"],
        "orchestrator.target": cell["target"],
        "orchestrator.variant": cell["variant"],
        "orchestrator.patchset.digest": f"sha256:{cell['patchset']}",
    }
    return {
        "context": cell["folder"],
        "dockerfile": "Dockerfile",
        "args": {},
        "labels": labels,
        "tags": [cell["tag"]],
    }


def tag_of(pipeline: str, target: str, variant: str) -> str:
    """Return the tag of a cell's image: `PIPELINE:TARGET-VARIANT`, cut with a digest where it would be too long."""
    tag = f"{target}-{variant}"
    if len(tag) > _TAG_LENGTH:
        tag = f"{tag[: _TAG_LENGTH - 13]}-{digest(tag.encode())[:12]}"
    return f"{pipeline}:{tag}"


def _literal(data: Any) -> Any:  # noqa: ANN401 - plain data
    """Return data whose texts bake reads as they are: it takes `${…}` and `%{…}` in JSON for templates."""
    if isinstance(data, dict):
        return {key: _literal(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_literal(item) for item in data]
    return data.replace("${", "$${").replace("%{", "%%{") if isinstance(data, str) else data
