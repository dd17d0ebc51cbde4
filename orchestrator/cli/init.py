"""`init`: a starter workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import JsonOption
from orchestrator.core.diagnostics import ExitCode


def command(
    folder: Annotated[Path, typer.Argument(help="The new workspace.")] = Path(),
    as_json: JsonOption = False,
) -> int:
    """Write a starter workspace that validates and renders at once.

    Example: orchestrator init my-patches && orchestrator render -C my-patches
    """
    from orchestrator.cli.output import console, print_records
    from orchestrator.cli.steps import Stopped
    from orchestrator.emit.starting import IGNORED, starter_files

    files = starter_files()
    if (folder / IGNORED).exists():
        del files[IGNORED]
    taken = [name for name in files if (folder / name).exists()]
    if taken:
        message = f"{folder / taken[0]} exists already"
        raise Stopped.usage("E702", message, "Choose an empty folder.")
    try:
        for name, content in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}"
        raise Stopped.usage("E701", message, "Check space and permissions.") from None
    if as_json:
        print_records({"event": "written", "file": str(folder / name)} for name in files)
    else:
        for name in files:
            console().print(str(folder / name))
        console(stderr=True).print(f"Next: orchestrator render -C {folder}")
    return ExitCode.OK
