"""The check that every configuration in a table of kernel configurations fits the device's shared memory."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from orchestrator.checks.base import Check
from orchestrator.checks.reading import owner, source_of
from orchestrator.checks.tile import limits_of
from orchestrator.checks.verdict import Status, Verdict, fails
from orchestrator.core.digest import digest
from orchestrator.spec.model import TargetPath

if TYPE_CHECKING:
    from orchestrator.checks.view import View
    from orchestrator.code.source import Source


class Row(NamedTuple):
    """One configuration: its name, its tile in words, and the bytes of shared memory that a block of it takes."""

    name: str
    tile: str
    shared_bytes: int


class TableFits(Check):
    """Every row that a table of kernel configurations has for a device fits one block's shared memory.

    The table is a module of the tree that imports the standard library alone; it is run, apart from the tree. Its
    function `name` takes the device's name and returns rows of (name, tile in words, bytes). More bytes than `limit`
    fail, more than `preferred` warn: both are the target's figures where they are not given.
    """

    check: Literal["table_fits"]
    file: TargetPath
    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", description="the function that returns the rows")]
    device: Annotated[str, Field(min_length=1, description="the device's name in the table")]
    limit: Annotated[int | None, Field(ge=1, description="bytes")] = None
    preferred: Annotated[int | None, Field(ge=1, description="bytes")] = None

    def look(self, view: View) -> Verdict:
        """Return whether every row fits, with each row's bytes."""
        source = source_of(view, self.file)
        limit, preferred = limits_of(view, self.limit, self.preferred)
        try:
            rows = self._rows(source)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the table's own code does
            return fails(f"{owner(self.file, self.name)} gives no rows for '{self.device}': {_said(error)}")
        if not rows:
            return fails(f"{owner(self.file, self.name)} has no row for '{self.device}'")
        status = Status.HOLDS
        shown = []
        for row in sorted(rows, key=lambda row: -row.shared_bytes):
            above = ""
            if row.shared_bytes > limit:
                status, above = Status.FAILS, f", above the limit of {limit:,} B"
            elif row.shared_bytes > preferred:
                status = Status.FAILS if status is Status.FAILS else Status.WARNS
                above = f", above the preferred {preferred:,} B"
            shown.append(f"{row.name}: {row.tile}, {row.shared_bytes:,} B{above}")
        head = f"{len(rows)} rows for '{self.device}', the limit is {limit:,} B"
        return Verdict(status, "; ".join([head, *shown]))

    def _rows(self, source: Source) -> list[Row]:
        module = types.ModuleType(f"_table_{digest(source.raw)[:12]}")
        sys.modules[module.__name__] = module  # dataclasses look annotations up there
        try:
            exec(compile(source.text, source.path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user's own table
            return [_row(row) for row in getattr(module, self.name)(self.device)]
        finally:
            del sys.modules[module.__name__]


def _row(given: Any) -> Row:  # noqa: ANN401 - whatever the table returns
    name, tile, needed = given
    if not isinstance(needed, int) or isinstance(needed, bool) or needed < 0:
        raise TypeError(f"a row is (name, tile in words, bytes), one is {given!r}")
    return Row(str(name), str(tile), needed)


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
