"""Checks on files as such: there or not, their bytes, their text, unchanged since the base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.reading import content_of, owner, parsing, scopes_of, source_of, times
from orchestrator.checks.verdict import Verdict, fails, holds, when
from orchestrator.code.scopes import definition_digest
from orchestrator.core.diagnostics import Place
from orchestrator.core.digest import digest
from orchestrator.spec.model import TargetPath

if TYPE_CHECKING:
    from orchestrator.checks.view import View


class FileExists(Check):
    """The file is in the tree or among the artefacts."""

    check: Literal["file_exists"]
    file: TargetPath

    def look(self, view: View) -> Verdict:
        """Return whether the file is there, with its size."""
        content = content_of(view, self.file)
        return holds(f"{self.file} is there, {len(content):,} bytes", Place(self.file))


class FileAbsent(Check):
    """The file is neither in the tree nor among the artefacts."""

    check: Literal["file_absent"]
    file: TargetPath

    def look(self, view: View) -> Verdict:
        """Return whether the file is not there."""
        content = view.read(self.file)
        if content is None:
            return holds(f"{self.file} is not there", Place(self.file))
        return fails(f"{self.file} is there, {len(content):,} bytes", Place(self.file))


class Sha256(Check):
    """The file has exactly these bytes."""

    check: Literal["sha256"]
    file: TargetPath
    equals: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="64 lower-case hexadecimal digits")]

    def look(self, view: View) -> Verdict:
        """Return whether the digest of the file is the wanted one."""
        found = digest(content_of(view, self.file))
        if found == self.equals:
            return holds(f"{self.file} has sha256 {found}", Place(self.file))
        return fails(f"{self.file} has sha256 {found}, not {self.equals}", Place(self.file))


class TextCount(Check):
    """A text stands in the file exactly so many times: for files that are not Python."""

    check: Literal["text_count"]
    file: TargetPath
    text: Annotated[str, Field(min_length=1, description="the text; occurrences do not overlap")]
    equals: Annotated[int, Field(ge=0, description="how often it must stand there")]

    def look(self, view: View) -> Verdict:
        """Return whether the file has the text as often as wanted; CRLF counts as one line feed."""
        content = content_of(view, self.file).replace(b"\r\n", b"\n")
        wanted = self.text.encode()
        count = content.count(wanted)
        first = content.find(wanted)
        line = content.count(b"\n", 0, first) + 1 if count else 0
        since = f", first in line {line}" if count else ""
        evidence = f"{self.file} has the text {self.text!r} {times(count)}{since}"
        place = Place(self.file, line, 1 if line else 0)
        return when(count == self.equals, evidence if count == self.equals else f"{evidence}, not {self.equals}", place)


class Unchanged(Check):
    """The file, or one definition in it, is as it was in the base tree."""

    check: Literal["unchanged"]
    file: TargetPath
    within: Annotated[str | None, Field(description="qualified name; without it every byte of the file counts")] = None

    def look(self, view: View) -> Verdict:
        """Return whether the bytes, or the definition's normalised source, are those of the base."""
        content = content_of(view, self.file)
        base = view.base.get(self.file)
        if base is None:
            return fails(f"{self.file} is not in the base tree", Place(self.file))
        if self.within is None:
            if content == base:
                return holds(f"{self.file} has the bytes of the base, sha256 {digest(content)}", Place(self.file))
            return fails(f"{self.file} differs from the base: {_first_difference(base, content)}", Place(self.file))
        return self._definition(view, self.within)

    def _definition(self, view: View, within: str) -> Verdict:
        source, base = source_of(view, self.file), view.base_source(self.file)
        place = source.place(scopes_of(source, within)[0])
        before = definition_digest(parsing(base), within) if base else None
        where = owner(self.file, within)
        if before is None:
            return fails(f"{where} is not in the base tree", place)
        if before == definition_digest(source, within):
            return holds(f"{where} is the definition of the base, digest {before}", place)
        return fails(f"{where} differs from the definition of the base, digest {before}", place)


def _first_difference(base: bytes, content: bytes) -> str:
    old, new = base.splitlines(keepends=True), content.splitlines(keepends=True)
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return f"first in line {same + 1}, {len(base):,} bytes before and {len(content):,} now"
