"""`bump`: what becomes of every edit on other releases of the base."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import (
    FileOption,
    JsonOption,
    OfflineOption,
    Request,
    SetOption,
    TargetOption,
    VariantOption,
    WorkspaceOption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.cli.bases import Prepared, Wanted
    from orchestrator.core.diagnostics import Place
    from orchestrator.engine.bump.fates import BaseFate

ToOption = Annotated[
    list[str] | None,
    typer.Option("--to", metavar="RELEASE", help="NAME==VERSION, or a range: `vllm>=0.6.3,<0.8`. Repeatable."),
]


class Format(StrEnum):
    """How verdicts are shown."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    MARKDOWN = "markdown"


def command(
    to: ToOption = None,
    newest_patch: Annotated[
        bool, typer.Option("--newest-patch", help="Of a range only the newest patch of every minor release.")
    ] = False,
    tree: Annotated[
        list[str] | None,
        typer.Option("--tree", metavar="ROOT=PATH", help="A folder or archive as a base. Repeatable: a base each."),
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option("--image", metavar="ARCHIVE", help="An image as a base. Repeatable.")
    ] = None,
    which: Annotated[str | None, typer.Option("--which", help="Which of several images in an archive.")] = None,
    base: Annotated[
        list[str] | None,
        typer.Option("--base", metavar="ROOT=PATH", help="The base to compare with, if not the target's own."),
    ] = None,
    workspace: WorkspaceOption = Path(),
    file: FileOption = "pipeline.yaml",
    target: TargetOption = None,
    variant: VariantOption = None,
    settings: SetOption = None,
    offline: OfflineOption = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Bases that are judged at once.", show_default="one a core")
    ] = os.cpu_count() or 1,
    shape: Annotated[
        Format, typer.Option("--format", help="text, json, github (annotations) or markdown.")
    ] = Format.TEXT,
    brief: Annotated[bool, typer.Option("--brief", help="Only the table.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Judge every edit on other releases of the base: exact, adapted, moved, gone, and what would mend it.

    Nothing is written. Exit code 0: every stage is exact, or what it is is declared by `expect:` or `upstream:`; 4: an
    edit is not; 5: only checks fail; 3 or 6: a base has no source, or another one than the lock has.

    Example: orchestrator bump --to 'vllm>=0.6.3,<0.8' --newest-patch
    """
    from orchestrator.cli.bases import prepare
    from orchestrator.cli.output import print_diagnostics
    from orchestrator.cli.pool import judge_all
    from orchestrator.engine.bump.fates import exit_code
    from orchestrator.engine.run import no_collection

    request = Request(workspace, file, target, variant, tuple(settings or ()), (), offline, command="bump")
    with no_collection():
        prepared = prepare(request, tuple(base or ()))
    wanted = _wanted(prepared, to or (), tree or (), image or (), which, newest_patch=newest_patch)
    shape = Format.JSON if as_json else shape
    found = judge_all(prepared, wanted, jobs)
    notices = [*prepared.notices, *(d for each in found for d in each.findings)]
    print_diagnostics(notices, as_json=shape is Format.JSON)
    _print(prepared, found, shape, brief=brief)
    return exit_code(found)


def _wanted(
    prepared: Prepared,
    to: Sequence[str],
    trees: Sequence[str],
    images: Sequence[str],
    which: str | None,
    *,
    newest_patch: bool,
) -> list[Wanted]:
    """Return the bases that the command line asks for; stop (usage) where it asks for none."""
    from orchestrator.cli.bases import Wanted
    from orchestrator.cli.steps import Stopped, root_and_path
    from orchestrator.cli.wanted import wanted_releases

    if not (to or trees or images):
        help_ = "Say --to NAME==VERSION or a range, --tree ROOT=PATH or --image ARCHIVE."
        raise Stopped.usage("E135", "there is no base to bump to", help_)
    if which is not None and not images:
        raise Stopped.usage("E134", "--which needs --image", "Give both.")
    for tree in trees:
        root_and_path(prepared.plan, tree)
    return [
        *wanted_releases(prepared, to, newest_patch=newest_patch),
        *(Wanted(tree, tree=tree) for tree in dict.fromkeys(trees)),
        *(Wanted(image, image=image, which=which) for image in dict.fromkeys(images)),
    ]


def _print(prepared: Prepared, found: Sequence[BaseFate], shape: Format, *, brief: bool) -> None:
    from orchestrator.cli.output import console, print_records, print_table
    from orchestrator.emit.bumped.github import commands
    from orchestrator.emit.bumped.markdown import bump_markdown
    from orchestrator.emit.bumped.table import bump_tables, details

    match shape:
        case Format.JSON:
            print_records(record for base in found for record in base.records())
        case Format.GITHUB:
            sys.stdout.writelines(f"{line}\n" for line in commands(found, lambda place: _seen(prepared, place)))
        case Format.MARKDOWN:
            sys.stdout.write(bump_markdown(prepared.plan.name, found))
        case Format.TEXT:
            out = console()
            for table in bump_tables(found, out.width):
                print_table(table)
                out.print()
            for line in () if brief else details(found):
                out.print(line)


def _seen(prepared: Prepared, place: Place) -> Place:
    """Return a place of the workspace as it is seen from the folder that the command runs in."""
    from dataclasses import replace

    workspace = prepared.request.workspace
    return place if workspace == Path() else replace(place, file=(workspace / place.file).as_posix())
