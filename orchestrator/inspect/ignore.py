"""What `.dockerignore` leaves out of a build context, as the builder reads it: the last pattern that matches wins."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """One line: where it stands, what it matches, and whether it takes back (`!`) what earlier lines left out."""

    line: int
    text: str
    regex: re.Pattern[str]
    keeps: bool


@dataclass(frozen=True)
class Ignore:
    """The patterns of one file."""

    file: str = ""
    patterns: tuple[Pattern, ...] = ()

    def ignoring(self, path: str) -> Pattern | None:
        """Return the pattern that leaves `path` out, or None where it is in the context."""
        parts = path.split("/")
        above = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        last = None
        for pattern in self.patterns:
            if any(pattern.regex.fullmatch(name) for name in above):
                last = pattern
        return None if last is None or last.keeps else last


def read_ignore(file: str, text: str) -> Ignore:
    """Return the patterns of a `.dockerignore`; lines that are no pattern count for nothing, as in the builder."""
    found = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip() if not raw.startswith("#") else ""
        keeps = line.startswith("!")
        name = line.removeprefix("!").strip() if keeps else line
        if not name:
            continue
        name = posixpath.normpath(name).lstrip("/")
        regex = _compiled(name)
        if regex is not None and name not in {"", "."}:
            found.append(Pattern(number, line, regex, keeps))
    return Ignore(file, tuple(found))


def _compiled(name: str) -> re.Pattern[str] | None:
    try:
        return re.compile(glob_regex(name), re.DOTALL)
    except re.error:
        return None


def glob_regex(glob: str) -> str:
    """Return a regular expression for a pattern: `*` and `?` stay within a name, `**` goes through folders."""
    out: list[str] = []
    i = 0
    while i < len(glob):
        if glob.startswith("**", i):
            i += 2
            while glob.startswith("*", i):
                i += 1
            if glob.startswith("/", i):
                out.append("(?:.*/)?")
                i += 1
            else:
                out.append(".*")
            continue
        text, i = _single(glob, i)
        out.append(text)
    return "".join(out)


def _single(glob: str, i: int) -> tuple[str, int]:
    """Translate what stands at `i`; return it and where to go on."""
    character = glob[i]
    if character == "*":
        return "[^/]*", i + 1
    if character == "?":
        return "[^/]", i + 1
    if character == "\\" and i + 1 < len(glob):
        return re.escape(glob[i + 1]), i + 2
    end = glob.find("]", i + 2) if character == "[" else -1
    if end > 0:
        inside = glob[i + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
        return f"[{inside.replace('^', '^', 1)}]", end + 1
    return re.escape(character), i + 1
