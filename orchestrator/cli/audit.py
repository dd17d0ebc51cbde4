"""`audit`: is the log whole, does it fit the folder, and what does it say?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import JsonOption
from orchestrator.core.diagnostics import ExitCode

if TYPE_CHECKING:
    from orchestrator.core.diagnostics import Diagnostic


def command(
    path: Annotated[Path, typer.Argument(help="A folder that `render` wrote, or a log.")] = Path("build"),
    as_json: JsonOption = False,
) -> int:
    """Verify an audit: a removed, edited, moved or cut-off line is found, and files that differ from the log.

    Example: orchestrator audit build
    """
    from orchestrator.cli.output import console, print_diagnostics, print_records, print_table
    from orchestrator.emit.audit import read_audit
    from orchestrator.emit.tables import cells_table, stages_table

    log = path / "audit.jsonl" if path.is_dir() else path
    content, faults = _checked(log, whole=path.is_dir())
    print_diagnostics(faults, as_json=as_json)
    if faults:
        return ExitCode.MISMATCH
    records = read_audit(content)
    if as_json:
        print_records(records)
    else:
        cells = any(record["event"] == "cell" for record in records)
        print_table(cells_table(records) if cells else stages_table(records))
        console(stderr=True).print(f"{log}: {len(records)} records, the chain is whole")
    return ExitCode.OK


def _checked(log: Path, *, whole: bool) -> tuple[bytes, list[Diagnostic]]:
    """Return the log and what is wrong with it and, if a whole folder was named, with the folder."""
    from orchestrator.cli.steps import Stopped
    from orchestrator.emit.audit import audit_faults, read_audit
    from orchestrator.emit.folder_check import folder_faults, matrix_faults

    try:
        content = log.read_bytes()
    except OSError as error:
        message = f"{log} cannot be read: {error.strerror}"
        raise Stopped.usage("E127", message, "Render first, or name the log.") from None
    # The copy in the image has no run record: nothing there says how many lines it had.
    inner = (log.parent / "manifest.json").is_file() and not (log.parent / "patchset").is_dir()
    faults = audit_faults(str(log), content, complete=not inner)
    if not faults and any(record["event"] == "matrix" for record in read_audit(content)):
        return content, matrix_faults(log.parent, read_audit(content))
    beside = any((log.parent / name).exists() for name in ("Dockerfile", "patchset"))
    if not faults and not inner and (whole or beside):
        faults = folder_faults(log.parent, read_audit(content))
    return content, faults
