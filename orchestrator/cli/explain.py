"""`explain`: what the documents say about one code, edit, check or transform."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import JsonOption, WorkspaceOption
from orchestrator.core.diagnostics import ExitCode, Rejected, did_you_mean

if TYPE_CHECKING:
    from orchestrator.code.transforms import LoadedTransform
    from orchestrator.origin.workspace import WorkspaceFiles


def command(
    what: Annotated[
        str | None, typer.Argument(help="A code, an edit, a check, a transform; all names if not given.")
    ] = None,
    workspace: WorkspaceOption = Path(),
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the schema of pipeline.yaml, with the installed checks.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Print what the documents say about a code, an edit, a check, a model of a file, or a transform.

    Checks and transforms of installed distributions are known; transforms of a workspace need that workspace.

    Example: orchestrator explain E405
    """
    from orchestrator.checks.catalogue import CHECKS
    from orchestrator.checks.plugins import installed_models
    from orchestrator.cli.output import print_records
    from orchestrator.cli.steps import Stopped
    from orchestrator.emit.explain import explanations
    from orchestrator.emit.schema import pipeline_schema

    if schema:
        made = pipeline_schema(installed_models(CHECKS))
        sys.stdout.write(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
        return ExitCode.OK
    known = _names(workspace)
    if what is None:
        _list(known, as_json=as_json)
        return ExitCode.OK
    plain = what.rpartition(":")[2].strip()
    foreign = installed_models(CHECKS) if "." in plain else {}
    transforms = _transforms(plain, workspace) if plain in known["transform"] else {}
    found = explanations(what, foreign, transforms)
    if not found:
        if plain in known["check"]:  # it is installed, and cannot be loaded
            _explain_broken(plain)
        everything = [name for names in known.values() for name in names]
        same = [name for name in everything if name.rpartition(".")[2] == plain]
        near = f"did you mean '{same[0]}'?" if same else did_you_mean(plain, everything)
        near = near if near.startswith("did you mean") else "`orchestrator explain` lists all names."
        raise Stopped.usage("E700", f"nothing is called '{what}'", near)
    if as_json:
        print_records(each.record() for each in found)
    else:
        sys.stdout.write("\n".join(each.text for each in found))
    return ExitCode.OK


def _explain_broken(name: str) -> None:
    from orchestrator.checks.catalogue import CHECKS
    from orchestrator.checks.plugins import check_model
    from orchestrator.cli.steps import Stopped

    try:
        check_model(name, CHECKS)
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.INVALID) from None


def _names(workspace: Path) -> dict[str, list[str]]:
    """Return every name that can be explained, by kind."""
    from orchestrator.emit.explain import names
    from orchestrator.origin.plugins import installed

    known = names()
    known["check"] += installed("check")
    known["transform"] = [*_own(workspace), *installed("transform")]
    return known


def _own(workspace: Path) -> list[str]:
    """Return the transforms of a workspace."""
    files = _files(workspace)
    try:
        found = files.names("stages", ".py") if files else ()
    except Rejected:
        return []
    return [path.removeprefix("stages/").removesuffix(".py") for path in found]


def _files(workspace: Path) -> WorkspaceFiles | None:
    from orchestrator.origin.workspace import WorkspaceFiles

    return WorkspaceFiles(workspace.resolve()) if workspace.is_dir() else None


def _transforms(name: str, workspace: Path) -> dict[str, LoadedTransform]:
    """Return the transform of this name; stop (invalid) where it cannot be loaded."""
    from orchestrator.cli.steps import Stopped
    from orchestrator.code.transforms import installed_transform, load_transform
    from orchestrator.origin.plugins import find_plugin

    try:
        if "." in name:
            plugin = find_plugin("transform", name)
            return {name: installed_transform(plugin)} if plugin else {}
        files = _files(workspace)
        path = f"stages/{name}.py"
        return {name: load_transform(name, path, files.read(path))} if files else {}
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.INVALID) from None


def _list(known: dict[str, list[str]], *, as_json: bool) -> None:
    from orchestrator.cli.output import console, print_records

    if as_json:
        print_records({"event": "names", "kind": kind, "names": names} for kind, names in known.items())
        return
    for kind, names in known.items():
        console().print(f"{kind}: {', '.join(names) or '-'}")
