"""The options that several commands share, and what they hold together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", "-C", help="Folder with the pipeline.", show_default="this folder")
]
FileOption = Annotated[str, typer.Option("--file", "-f", help="The pipeline, a file of the workspace.")]
TargetOption = Annotated[str | None, typer.Option("--target", help="Another target file than the pipeline names.")]
VariantOption = Annotated[str | None, typer.Option("--variant", help="A variant of the pipeline.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter. Repeatable.")]
TreeOption = Annotated[
    list[str] | None,
    typer.Option("--tree", metavar="ROOT=PATH", help="Package source: a folder, an archive, or - for a tar on stdin."),
]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Use only what is in the cache.")]
MatrixOption = Annotated[bool, typer.Option("--matrix", help="Every target under every variant.")]
CellOption = Annotated[
    list[str] | None,
    typer.Option("--cell", metavar="TARGET/VARIANT", help="Only these cells of the matrix; * and ? stand for others."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Records as JSON lines on stdout.")]


@dataclass(frozen=True)
class Request:
    """What the command line asks for, before anything is read."""

    workspace: Path = Path()
    file: str = "pipeline.yaml"
    target: str | None = None
    variant: str | None = None
    settings: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    offline: bool = False
    command: str = "render"
    environment: dict[str, str] = field(default_factory=dict)
