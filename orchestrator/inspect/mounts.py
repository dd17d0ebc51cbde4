"""Bind mounts of a RUN: files of the context that are there while it runs."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from orchestrator.inspect.dockerfile import expand
from orchestrator.inspect.paths import joined
from orchestrator.inspect.sources import matches

if TYPE_CHECKING:
    from orchestrator.inspect.build import Stage
    from orchestrator.inspect.dockerfile import Instruction
    from orchestrator.inspect.session import Session


def bind_mounts(session: Session, stage: Stage, instruction: Instruction) -> list[str]:
    """Put the files of bind mounts in their place; return them, so that they can go again."""
    bound = []
    for key, value in instruction.flags:
        settings = dict(part.partition("=")[::2] for part in value.split(",")) if key == "mount" else {}
        if key != "mount" or settings.get("type", "bind") != "bind":
            continue
        target = joined(stage.cwd, settings.get("target") or settings.get("dst") or settings.get("destination") or ".")
        target = expand(target, stage.environment)
        source = expand(settings.get("source") or settings.get("src") or ".", stage.environment)
        if "from" in settings:
            stage.image.opaque.add(target)
            continue
        for match in matches(session, source, instruction.place, alone=True):
            for file in match.files:
                end = posixpath.join(target, posixpath.relpath(file, match.path or ".")) if match.is_folder else target
                end = posixpath.normpath(end)
                if end not in stage.image.files:
                    stage.image.put(end, file)
                    bound.append(end)
    return bound
