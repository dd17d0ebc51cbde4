"""What a command does, one small type for each kind."""

from __future__ import annotations

from dataclasses import dataclass

LOST = "\ntrue"
"""Behind the text of a program that succeeds whatever the text returns."""
STREAM_EDITORS = frozenset({"sed", "gsed", "perl", "awk", "ed"})
"""Programs that change files in place by what they find in them."""


@dataclass(frozen=True)
class Copy:
    """Files put at `target`: `how` is the program. `sources` are as written; `into`: the target is a folder."""

    how: str
    sources: tuple[str, ...]
    target: str
    into: bool = False
    moves: bool = False


@dataclass(frozen=True)
class RunScript:
    """A script that is started: `language` is shell or python, `text` is that of `-c`, `path` empty for stdin."""

    language: str
    path: str
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    text: str | None = None
    module: str = ""
    sourced: bool = False
    direct: bool = False


@dataclass(frozen=True)
class EditFile:
    """Files changed in place: by sed, perl, patch, git apply."""

    how: str
    targets: tuple[str, ...]
    script: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class PipInstall:
    """`pip install` and its like. `names` are requirements, paths and wheels as written."""

    how: str
    names: tuple[str, ...]
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Download:
    """Something fetched: `outputs` are the paths it makes, where they are known."""

    how: str
    what: str = ""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """A change of the working directory."""

    path: str


@dataclass(frozen=True)
class Other:
    """Anything else, by its name."""

    name: str
    arguments: tuple[str, ...] = ()


Act = Copy | RunScript | EditFile | PipInstall | Download | Change | Other
