"""The server's command line: placeholders filled in with what belongs to one value. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PORT = "port"
_TEXTS = ("value", PORT, "config", "folder")
_LISTS = ("flags", "command")
_OF_THE_VALUE = ("value", "config", "folder", *_LISTS)
_PLACEHOLDER = re.compile(r"\{\{[a-z_]+\}\}|\{[a-z_]+\}")
_FIRST_FLAG = re.compile(r"--?[A-Za-z]")


@dataclass(frozen=True)
class Filling:
    """What the placeholders stand for: `command` is the argument list of the rendered run configuration."""

    value: str
    port: int
    config: Path
    command: tuple[str, ...]

    def text(self, name: str) -> str:
        """Return what `{name}` stands for within a word."""
        return {
            "value": self.value,
            PORT: str(self.port),
            "config": str(self.config),
            "folder": str(self.config.parent),
        }[name]

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words that a word `{name}` stands for."""
        return flags_of(self.command) if name == "flags" else self.command


def flags_of(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return an argument list from its first flag on, without the program and, after `-m`, without the module."""
    module = next((i for i, word in enumerate(command[1:], 1) if word == "-m" or not word.startswith("-")), 0)
    after = module + 2 if command[module : module + 1] == ("-m",) else 1
    start = next((i for i, word in enumerate(command) if i >= after and _FIRST_FLAG.match(word)), len(command))
    return tuple(command[start:])


def faults_of(words: Sequence[str], port: int | None) -> list[Diagnostic]:
    """Return what is wrong with a command line, before anything is filled in."""
    if not words or not words[0]:
        help_ = "Write it behind `--`, for example `-- {command} --port {port}`."
        return [Diagnostic("E910", "there is no server command", help=help_)]
    found = []
    for word in words:
        for name in (match[1:-1] for match in _PLACEHOLDER.findall(word)):
            if name in _LISTS and word != f"{{{name}}}":
                message = f"`{{{name}}}` stands for several words and cannot be part of `{word}`"
                found.append(Diagnostic("E910", message, help="Make it a word of its own."))
            elif not name.startswith("{") and name not in (*_TEXTS, *_LISTS):
                near = did_you_mean(name, (*_TEXTS, *_LISTS))
                help_ = f"{near[:1].upper()}{near[1:]} Text in braces is written {{{{{name}}}}}."
                found.append(Diagnostic("E910", f"unknown placeholder `{{{name}}}`", help=help_))
    if port is None and not any(f"{{{PORT}}}" in word.replace(f"{{{{{PORT}}}}}", "") for word in words):
        help_ = "Write `--port {port}`, or say with --port before the command which one it listens on."
        found.append(Diagnostic("E910", "the server command does not say where `{port}` goes", help=help_))
    return found


def appends_flags(words: Sequence[str]) -> bool:
    """Tell whether nothing in a command line depends on the value, so that the flags are appended."""
    return not any(name in _OF_THE_VALUE for word in words for name in _names(word))


def filled(words: Sequence[str], filling: Filling) -> list[str]:
    """Return the command line for one value; `{{name}}` is the text `{name}`."""
    found: list[str] = []
    for word in (*words, "{flags}") if appends_flags(words) else words:
        if word[1:-1] in _LISTS and word == f"{{{word[1:-1]}}}":
            found.extend(filling.words(word[1:-1]))
        else:
            found.append(_PLACEHOLDER.sub(lambda match: _replaced(match[0], filling), word))
    return found


def _names(word: str) -> list[str]:
    return [match[1:-1] for match in _PLACEHOLDER.findall(word) if not match.startswith("{{")]


def _replaced(match: str, filling: Filling) -> str:
    return match[1:-1] if match.startswith("{{") else filling.text(match[1:-1])
