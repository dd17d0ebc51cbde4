"""The environment that a Dockerfile sets for its image: the ENV instructions of its last stage."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REFERENCE = re.compile(r"\\\$|\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")


def environment_of(dockerfile: str, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the last stage of a Dockerfile sets; later instructions win.

    `before` is the environment of the image behind FROM, for references such as `$PATH`; what nothing sets is empty,
    as Docker has it. Both forms are read, `ENV A=1 B=2` and `ENV A 1`.
    """
    found: dict[str, str] = {}
    for instruction, rest in _instructions(dockerfile):
        if instruction == "FROM":
            found = {}
        elif instruction == "ENV":
            known = {**before, **found}
            found.update((name, _expanded(value, known)) for name, value in _pairs(rest))
    return found


def image_of(dockerfile: str) -> str:
    """Return what the last stage is built on, an empty string where there is no FROM."""
    images = [rest.split() for instruction, rest in _instructions(dockerfile) if instruction == "FROM"]
    words = [word for word in images[-1] if not word.startswith("--")] if images else []
    return words[0] if words else ""


def _instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction in capitals with the rest of its line, continued lines joined, comments left out."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\[ \t]*\n", " ", "\n".join(lines)).splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction:
            yield instruction.upper(), rest.strip()


def _pairs(rest: str) -> Iterator[tuple[str, str]]:
    first, _, value = rest.partition(" ")
    if "=" not in first:
        if first:
            yield first, value.strip()
        return
    try:
        words = shlex.split(rest.replace("\\$", "\\\\$"))
    except ValueError:  # an open quote: Docker refuses the file, which is not for us to say
        words = rest.split()
    for word in words:
        name, equals, text = word.partition("=")
        if equals:
            yield name, text


def _expanded(value: str, known: Mapping[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match.group().startswith("\\"):
            return "$"
        return known.get(match["braced"] or match["plain"], "")

    return _REFERENCE.sub(replaced, value)
