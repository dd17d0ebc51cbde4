"""`orchestrator`: the commands, the exit codes, and the end of every error."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.cli import audit, diff, init, lock, plan, render, validate, verify
from orchestrator.cli.steps import Stopped
from orchestrator.core.diagnostics import ExitCode, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.core.diagnostics import Diagnostic

app = typer.Typer(
    name="orchestrator",
    help="Checked, audited patches for a vendor's image: edit pipeline.yaml, render, audit.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: " + "; ".join(f"{int(code)} {code.meaning}" for code in ExitCode),
)
for module in (init, validate, plan, diff, render, verify, audit, lock):
    app.command(module.__name__.rpartition(".")[2])(module.command)


def main() -> None:
    """Run the command line; every way out has its exit code."""
    sys.exit(run_app(sys.argv[1:]))


def run_app(arguments: list[str]) -> int:
    """Return the exit code of a command line; print what a failure has to say."""
    as_json = "--json" in arguments
    try:
        result = app(arguments, standalone_mode=False)
        return int(result or 0)
    except Stopped as stopped:
        _explain(stopped.diagnostics, arguments, as_json=as_json)
        return stopped.exit_code
    except Rejected as rejected:
        _explain(rejected.diagnostics, arguments, as_json=as_json)
        return ExitCode.USAGE if rejected.diagnostics[0].code.startswith("E7") else ExitCode.INVALID
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:  # noqa: BLE001 - what is left is our bug, and its report is the last resort
        if _is_usage(error):
            sys.stderr.write(f"{_usage_text(error)}\n")
            return ExitCode.USAGE
        _report_bug(error, arguments)
        return ExitCode.BUG


def _is_usage(error: Exception) -> bool:
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage_text(error: Exception) -> str:
    message = str(error.format_message())  # type: ignore[attr-defined]  # what `_is_usage` saw
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "orchestrator"
    return f"error: {message}\n  help: `{path} --help` shows how it is used."


def _explain(diagnostics: tuple[Diagnostic, ...], arguments: list[str], *, as_json: bool) -> None:
    from orchestrator.cli import output

    output.print_diagnostics(diagnostics, output.lines_of(_reader(arguments)), as_json=as_json)


def _reader(arguments: list[str]) -> Callable[[str], bytes]:
    from orchestrator.origin.workspace import WorkspaceFiles

    folder = Path()
    for option in ("-C", "--workspace"):
        if option in arguments[:-1]:
            folder = Path(arguments[arguments.index(option) + 1])
    return WorkspaceFiles(folder.resolve()).read


def _report_bug(error: Exception, arguments: list[str]) -> None:
    import platform
    import traceback

    lines = traceback.format_exception(error)
    sys.stderr.write("This is a fault of orchestrator, not of your pipeline. Please report what follows.\n\n")
    sys.stderr.write(f"orchestrator {' '.join(arguments)}\nPython {platform.python_version()}\n")
    sys.stderr.write("".join(lines))
