"""`orchestrator`: the commands, the exit codes, and the end of every error."""

from __future__ import annotations

import errno
import io
import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.cli import (
    audit,
    bump,
    diff,
    explain,
    init,
    inspect,
    lock,
    match,
    plan,
    render,
    sweep,
    tune,
    validate,
    verify,
)
from orchestrator.cli.steps import Stopped
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    name="orchestrator",
    help=(
        "Checked, audited patches for a vendor's image: edit pipeline.yaml, render, audit.\n\n"
        "Example: orchestrator init my-patches && orchestrator render -C my-patches"
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: " + "; ".join(f"{int(code)} {code.meaning}" for code in ExitCode),
)
COMMANDS = (init, match, validate, plan, diff, render, verify, audit, lock, bump, inspect, tune, sweep, explain)
for module in COMMANDS:
    context = getattr(module, "CONTEXT", None)
    app.command(module.__name__.rpartition(".")[2], context_settings=context)(module.command)


def main() -> None:
    """Run the command line; every way out has its exit code."""
    for stream in (sys.stdout, sys.stderr):  # what the terminal cannot show is escaped, not a fault
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = run_app(sys.argv[1:])
    if code == ExitCode.INTERRUPTED:
        # A thread may still be inside native code, and the end of the interpreter would abort there.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run_app(arguments: list[str]) -> int:
    """Return the exit code of a command line; print what a failure has to say."""
    code = ExitCode.OK
    try:
        code = _run(arguments)
        if code is ExitCode.INTERRUPTED:
            sys.stderr.write("interrupted\n")
        sys.stdout.flush()
    except SystemExit:  # typer's own answer to the same, for what is written before the end
        return ExitCode.OK
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"error[E700]: the output cannot be written: {error.strerror}\n")
        return ExitCode.USAGE
    return code


def _run(arguments: list[str]) -> ExitCode:
    as_json = _asks_records(_own(arguments))
    try:
        return ExitCode(app(arguments, standalone_mode=False, prog_name="orchestrator") or 0)
    except Stopped as stopped:
        _explain(stopped.diagnostics, arguments, as_json=as_json)
        return stopped.exit_code
    except Rejected as rejected:
        _explain(rejected.diagnostics, arguments, as_json=as_json)
        return ExitCode.USAGE if rejected.diagnostics[0].code.startswith("E7") else ExitCode.INVALID
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in {errno.EPIPE, errno.ENOSPC}:
            raise  # of stdout: whatever else we write has its own report
        if _is_usage(error):
            _explain_usage(error, arguments, as_json=as_json)
            return ExitCode.USAGE
        _report_bug(error, arguments)
        return ExitCode.BUG


def _asks_records(own: list[str]) -> bool:
    """Tell whether a command line asks for records, which errors are then as well: `--format json` is `--json`."""
    return "--json" in own or "--format=json" in own or ("--format", "json") in itertools.pairwise(own)


def _is_usage(error: Exception) -> bool:
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _explain_usage(error: Exception, arguments: list[str], *, as_json: bool) -> None:
    message = str(error.format_message()).replace("Value error, ", "")  # type: ignore[attr-defined]  # `_is_usage` saw
    if message.startswith("Usage:"):  # no command was given: the help itself is the answer
        sys.stderr.write(f"{message}\n")
        return
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "orchestrator"
    found = Diagnostic("E700", message, help=f"`{path} --help` shows how it is used.")
    _explain((found,), arguments, as_json=as_json)


def _explain(diagnostics: tuple[Diagnostic, ...], arguments: list[str], *, as_json: bool) -> None:
    from orchestrator.cli import output

    output.print_diagnostics(diagnostics, output.lines_of(_reader(arguments)), as_json=as_json)


def _reader(arguments: list[str]) -> Callable[[str], bytes]:
    from orchestrator.origin.workspace import WorkspaceFiles

    folder = Path()
    for option, value in itertools.pairwise([*_own(arguments), ""]):
        if option in {"-C", "--workspace"}:
            folder = Path(value)
        elif option.startswith("--workspace="):
            folder = Path(option.partition("=")[2])
    return WorkspaceFiles(folder.resolve()).read


def _own(arguments: list[str]) -> list[str]:
    """Return the words that are ours: behind `--` stands another program's command line."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _report_bug(error: Exception, arguments: list[str]) -> None:
    import platform
    import traceback

    lines = traceback.format_exception(error)
    sys.stderr.write("This is a fault of orchestrator, not of your pipeline. Please report what follows.\n\n")
    sys.stderr.write(f"orchestrator {' '.join(arguments)}\nPython {platform.python_version()}\n")
    sys.stderr.write("".join(lines))
