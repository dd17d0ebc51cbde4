"""The manifest that the installer in the image follows: made from trees, written in one spelling."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from orchestrator.core.digest import digest
from orchestrator.emit import patchset
from orchestrator.emit.patchset import BuildEntry, FileEntry, Image, StageEntry, WheelEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["BuildEntry", "FileEntry", "Image", "Manifest", "StageEntry", "Step", "WheelEntry"]


@dataclass(frozen=True)
class Step:
    """One stage of a run, in order: its id, its outcome in a word, the tree after it and the files it stands in.

    `files` are package paths; the stage's image of each is what `tree` holds. A stage that found its edits applied
    already names its files too, a stage that was skipped names none. Its wheels are installed before the first edit.
    `live` is the one of its files that can be asked in the image what is in use, if it has one. `builds` are compiled
    there once all files are written.
    """

    id: str
    outcome: str
    tree: Mapping[str, bytes]
    files: frozenset[str]
    wheels: tuple[WheelEntry, ...] = ()
    live: str | None = None
    builds: tuple[BuildEntry, ...] = ()


@dataclass(frozen=True)
class Manifest(patchset.Manifest):
    """The installer's own model of a manifest, with the writer that only this side needs."""

    @classmethod
    def of(
        cls,
        name: str,
        python: str,
        roots: Mapping[str, Sequence[str]],
        base: Mapping[str, bytes],
        steps: Iterable[Step],
    ) -> Manifest:
        """Return the manifest of a run over `base`.

        Args:
            name: the pipeline's name.
            python: major and minor version of the target's interpreter, such as `3.10`.
            roots: for each package that the run touches, the absolute spellings of its folder in the image.
            base: package path → bytes before the first edit, the content of the wheels included.
            steps: the stages in the order they ran.

        Raises:
            ValueError: what was given cannot be followed by the installer, which is a fault of the caller.
        """
        done = tuple(steps)
        images: dict[str, list[Image]] = {}
        for step in done:
            for path in step.files:
                images.setdefault(path, []).append(Image(step.id, digest(step.tree[path])))
        made = cls(
            name=name,
            python=python,
            roots={root: tuple(roots[root]) for root in sorted({path.split("/")[0] for path in images})},
            files=tuple(
                FileEntry(
                    root=path.partition("/")[0],
                    path=path.partition("/")[2],
                    before=digest(base[path]) if path in base else None,
                    images=tuple(images[path]),
                )
                for path in sorted(images)
            ),
            stages=tuple(StageEntry(step.id, step.outcome, tuple(sorted(step.files)), step.live) for step in done),
            wheels=tuple(wheel for step in done for wheel in step.wheels),
            builds=tuple(build for step in done for build in step.builds),
        )
        faults = list(made.faults())
        if faults:
            raise ValueError("; ".join(faults))
        return made

    def to_bytes(self) -> bytes:
        """Return the manifest as the bytes of `manifest.json`: sorted keys, one trailing newline."""
        record = {**self.record(), "patchset": self.patchset}
        return (json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()

    def payload(
        self, final: Mapping[str, bytes], audit: bytes, wheels: Mapping[str, bytes] = MappingProxyType({})
    ) -> dict[str, bytes]:
        """Return what the image gets: paths of the build context, all below `patchset/`, and their bytes.

        Args:
            final: package path → bytes after the last stage.
            audit: the log, without the run record.
            wheels: file name → bytes of the wheels that the manifest lists.
        """
        changed = [entry.name for entry in self.files if entry.before != entry.after]
        return {
            "patchset/patchset.py": Path(patchset.__file__).read_bytes(),
            "patchset/manifest.json": self.to_bytes(),
            "patchset/audit.jsonl": audit,
            **{f"patchset/overlay/{name}": final[name] for name in changed},
            **{f"patchset/wheels/{name}": content for name, content in wheels.items()},
        }
