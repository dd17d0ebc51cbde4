"""What `render` makes of a finished run: everything to say about it, the exit code and, if all is well, the files."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.cli.options import Request
    from orchestrator.cli.steps import BaseTree
    from orchestrator.emit.audit import Circumstances
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan


@dataclass(frozen=True)
class Rendered:
    """The findings in the order in which they are told, the exit code, and the files of `build/`; none if it failed."""

    found: tuple[Diagnostic, ...]
    exit_code: ExitCode
    touched: int
    files: Mapping[str, bytes] | None = None


def rendered(
    plan: Plan,
    base: BaseTree,
    run: Run,
    request: Request,
    surroundings: tuple[Diagnostic, ...],
    blessed: bytes | None,
    *,
    locked: bool,
) -> Rendered:
    """Return what `render` makes of a run; `surroundings` are the findings about the workspace.

    `blessed` is the lock as it was before the run. With `locked`, what the lock does not hold is an error. Raises
    `Rejected` where a file cannot be made, and E703 where the lock is another one by now: the files would say two
    things.
    """
    from orchestrator.cli.locked import lock_faults
    from orchestrator.cli.steps import LOCK, exit_code_of, lock_bytes, lock_of
    from orchestrator.emit.build import build_files
    from orchestrator.emit.report.gathering import Surroundings
    from orchestrator.origin.interpreter import compile_errors, find_interpreter

    interpreter = find_interpreter(plan.facts.python)
    touched = {path: run.tree[path] for path in run.tree.changed_since(run.installed) if path.endswith(".py")}
    syntax = compile_errors(interpreter, touched) if interpreter and touched and not run.failed else ()
    unlocked = lock_faults(run, base, lock_of(request), refuse=locked, around=surroundings)
    found = (*surroundings, *base.notices, *run.diagnostics, *syntax, *unlocked)
    if run.failed:
        return Rendered(found, exit_code_of(run), len(touched))
    if syntax or (locked and unlocked):
        return Rendered(found, ExitCode.CHECK_FAILED if syntax else ExitCode.MISMATCH, len(touched))
    # Where a tree was handed over from is a place on somebody's machine; what it is, its digest says.
    name = "handed over with --tree" if request.trees else base.name
    if lock_bytes(request) != blessed:
        raise Rejected(Diagnostic("E703", f"another run has written {LOCK} meanwhile", help="Render again."))
    around = Surroundings(name, base.inputs, blessed, unlocked)
    return Rendered(found, ExitCode.OK, len(touched), build_files(run, circumstances(), around))


def moment() -> time.struct_time:
    """Return the time in UTC, or what SOURCE_DATE_EPOCH says of it: read here and nowhere else."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.gmtime(int(epoch)) if epoch.isdecimal() else time.gmtime()


def circumstances() -> Circumstances:
    """Return clock, host and user: read here and nowhere else."""
    from orchestrator.emit.audit import Circumstances

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    command = " ".join(["orchestrator", *sys.argv[1:]])
    return Circumstances(time.strftime("%Y-%m-%dT%H:%M:%SZ", moment()), socket.gethostname(), user, command)
