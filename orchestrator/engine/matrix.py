"""The matrix: each image that a pipeline is for, with the parameters as they are and under each variant."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected, did_you_mean
from orchestrator.spec.document import read_document
from orchestrator.spec.target import load_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchestrator.engine.load import Read
    from orchestrator.spec.document import Document

DEFAULT = "default"
"""What the parameters without a variant are called."""
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


@dataclass(frozen=True)
class Cell:
    """One image under one variant: the target's file and name, the variant (None: parameters as they are)."""

    file: str
    target: str
    variant: str | None = None
    place: Place | None = None
    """Where the pipeline names the file."""

    @property
    def folder(self) -> str:
        """The folder of the cell, which is its name too: `TARGET/VARIANT`."""
        return f"{self.target}/{self.variant or DEFAULT}"


def cells_of(name: str, content: bytes, read: Read) -> tuple[Cell, ...]:
    """Return the cells of the pipeline in `content`: target by target, the parameters as they are first.

    A target that cannot be read is called by its file's name: what is wrong with it is told when it is loaded. Raises
    `Rejected`: E270 for two cells of one name, E271 for a variant whose name is none for a folder.
    """
    document = read_document(name, content)
    data = document.data if isinstance(document.data, dict) else {}
    targets = list(_targets(document))
    variants = data["variants"] if isinstance(data.get("variants"), dict) else {}
    named = [(file, _name_of(file, read), place) for file, place in targets]
    faults = [*_same_targets(named), *_bad_variants(variants, document)]
    if faults:
        raise Rejected(faults)
    return tuple(Cell(file, target, variant, place) for file, target, place in named for variant in (None, *variants))


def target_faults(name: str, content: bytes, read: Read) -> tuple[Diagnostic, ...]:
    """Return what is wrong with the files that `target:` and `targets:` of a pipeline name."""
    faults: list[Diagnostic] = []
    for file, place in _targets(read_document(name, content)):
        try:
            load_target(file, read_named(file, place, read), read)
        except Rejected as error:
            faults += error.diagnostics
    return tuple(faults)


def read_named(file: str, place: Place | None, read: Read) -> bytes:
    """Return a file that the pipeline names; raise `Rejected` with the place of its name where it cannot be read."""
    try:
        return read(file)
    except Rejected as error:
        raise Rejected(found.at(place) if place else found for found in error.diagnostics) from None


def _targets(document: Document) -> Iterator[tuple[str, Place]]:
    data = document.data if isinstance(document.data, dict) else {}
    if isinstance(data.get("target"), str):
        yield data["target"], document.place(("target",))
    further = data.get("targets")
    for i, file in enumerate(further if isinstance(further, list) else ()):
        if isinstance(file, str):
            yield file, document.place(("targets", i))


def _name_of(file: str, read: Read) -> str:
    try:
        return load_target(file, read(file), read).name
    except Rejected:
        return posixpath.splitext(posixpath.basename(file))[0]


def _same_targets(named: Sequence[tuple[str, str, Place]]) -> Iterator[Diagnostic]:
    first: dict[str, str] = {}
    for file, target, place in named:
        if target not in first:
            first[target] = file
            continue
        other = first[target]
        same = other == file
        message = f"'{file}' is listed twice" if same else f"two targets are called '{target}': {other} and {file}"
        help_ = "List it once." if same else "Give one of them another `name:`; it is the name of a folder."
        yield Diagnostic("E270", message, place, help=help_)


def _bad_variants(variants: Mapping[str, object], document: Document) -> Iterator[Diagnostic]:
    first: dict[str, str] = {}
    for variant in variants:
        place = document.place(("variants", variant), key=True)
        other = first.setdefault(variant.casefold(), variant)
        if variant == DEFAULT:
            message = f"a variant is called '{DEFAULT}', which is the folder of the parameters as they are"
            yield Diagnostic("E270", message, place, help="Call it something else.")
        elif not _FOLDER.match(variant):
            message = f"variant {variant!r} cannot be the name of a folder"
            help_ = "Use letters, digits, `.`, `_` and `-`, and begin with a letter or a digit."
            yield Diagnostic("E271", message, place, help=help_)
        elif other != variant:
            message = f"variants '{other}' and '{variant}' differ in case alone: one folder on some systems"
            yield Diagnostic("E270", message, place, help="Call one of them something else.")


def chosen_cells(cells: Sequence[Cell], patterns: Sequence[str]) -> tuple[Cell, ...]:
    """Return the cells that any of the patterns names (`*` and `?` as in file names), all without a pattern.

    Raises `Rejected` (E272) for a pattern that names none.
    """
    faults = []
    for pattern in patterns:
        if not any(fnmatchcase(cell.folder, pattern) for cell in cells):
            help_ = did_you_mean(pattern, [cell.folder for cell in cells])
            faults.append(Diagnostic("E272", f"--cell {pattern}: there is no such cell", help=help_))
    if faults:
        raise Rejected(faults)
    return tuple(cell for cell in cells if not patterns or any(fnmatchcase(cell.folder, p) for p in patterns))
