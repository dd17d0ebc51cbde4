"""Distributions made for a test: a folder on `sys.path` with modules, and the metadata that pip would leave."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

TRANSFORM = '''\
"""Raise every limit."""

import libcst as cst
from pydantic import BaseModel


class Params(BaseModel, extra="forbid"):
    """What to raise it to."""

    to: int = 99


def transform(module, params):
    """Return the module with its first number changed."""
    class Raise(cst.CSTTransformer):
        def leave_Integer(self, original_node, updated_node):
            return updated_node.with_changes(value=str(params.to))

    return module.visit(Raise())
'''

CHECK = '''\
from orchestrator.checks.base import Check
from orchestrator.checks.verdict import when
from orchestrator.spec.model import Code, TargetPath


class Says(Check):
    """The file holds a text."""

    file: TargetPath
    text: str
    code: Code | None = None

    def look(self, view):
        return when(self.text.encode() in (view.read(self.file) or b""), f"{self.text} is in {self.file}")
'''


@dataclass
class Site:
    """A folder that counts as site-packages for the length of a test."""

    folder: Path

    @classmethod
    @contextlib.contextmanager
    def at(cls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
        """Make the folder and put it on the path; modules that were imported from it are forgotten at the end."""
        folder.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(folder))
        try:
            yield cls(folder)
        finally:
            # `sys.modules` itself stays: what is written in C does not see another one put in its place.
            for name, module in list(sys.modules.items()):
                spec = getattr(module, "__spec__", None)
                if spec is not None and Path(str(spec.origin)).is_relative_to(folder):
                    del sys.modules[name]

    def install(
        self,
        name: str,
        files: Mapping[str, str],
        *,
        transforms: Mapping[str, str] | None = None,
        checks: Mapping[str, str] | None = None,
        version: str = "1.0",
    ) -> None:
        """Write a distribution: its modules, and its entry points by name."""
        for path, text in files.items():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = {"orchestrator.transforms": transforms or {}, "orchestrator.checks": checks or {}}
        lines = []
        for group, entries in groups.items():
            lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items()), ""]
        (info / "entry_points.txt").write_text("\n".join(lines))
