"""`tune`: search for a kernel's configuration on a device, and show what would change in the table."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import JsonOption, WorkspaceOption
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchestrator.origin.workspace import WorkspaceFiles
    from orchestrator.spec.target import Target
    from orchestrator.tune.search import Search


def command(
    operation: Annotated[str, typer.Argument(help="decode, prefill, or a name of the table.")],
    device: Annotated[str, typer.Option("--device", metavar="TARGET", help="A target: its file, or its name.")],
    workspace: WorkspaceOption = Path(),
    dtype: Annotated[str, typer.Option("--dtype", help="Type of the cache.")] = "float16",
    head_size: Annotated[int, typer.Option("--head-size", min=0, help="Head size; 0: the model's.")] = 0,
    heads: Annotated[str, typer.Option("--heads", metavar="QUERY/KV", help="Heads; default: one rank's.")] = "",
    batch: Annotated[list[int] | None, typer.Option("--batch", min=1, help="Sequences. Repeatable.")] = None,
    length: Annotated[
        list[int] | None, typer.Option("--length", min=0, help="Tokens in the cache. Repeatable.")
    ] = None,
    new: Annotated[int, typer.Option("--new", min=1, help="New tokens a sequence, for prefill.")] = 2048,
    study: Annotated[
        str, typer.Option("--study", metavar="NAME", help="Name of the study; default: what it is about.")
    ] = "",
    storage: Annotated[
        str, typer.Option("--storage", metavar="URL", help="Optuna storage; default: an SQLite file in the cache.")
    ] = "",
    trials: Annotated[int, typer.Option("--trials", min=0, help="Configurations the study ends with; 0: all.")] = 0,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Start nothing later; 0: no limit.")] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the search.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes at a time; 0: by the processors.")] = 0,
    limit: Annotated[float, typer.Option("--limit", min=1, help="Seconds for one compilation or one check.")] = 60.0,
    python: Annotated[
        list[str] | None, typer.Option("--python", metavar="PATH", help="An interpreter with Triton. Repeatable.")
    ] = None,
    preferred: Annotated[
        bool, typer.Option("--preferred", help="Keep to the preferred share of shared memory.")
    ] = False,
    timing: Annotated[
        bool, typer.Option("--timing/--no-timing", help="Time on the device here, if it is the target's.")
    ] = True,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="A picture of the space, SVG or PNG.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the diff there.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Change the table itself.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Search for the fastest configuration of a kernel on a device.

    The space is filtered by the model of the device and by the compilers; what passes is timed where the device is
    here, and otherwise only ranked. The result is a diff to the table; nothing is written without --write.

    Example: orchestrator tune decode --device h200 --trials 100 --plot space.svg
    """
    from orchestrator.cli.options import Request
    from orchestrator.cli.output import lines_of, print_diagnostics
    from orchestrator.cli.steps import Stopped, need_extra, workspace_files
    from orchestrator.core.codes import CODES
    from orchestrator.origin.pinned import cache_folder

    need_extra("tune", ("optuna", "matplotlib"))
    from orchestrator.cli.rendering import moment
    from orchestrator.cli.tuned import Outputs, look_at, shown
    from orchestrator.tune.start import Wanted, prepared

    files = workspace_files(Request(workspace))
    shapes = tuple((b, n) for b in batch or [1] for n in length or [])
    if batch and not shapes:
        raise Stopped.usage("E902", "--batch without --length", "Say the tokens in the cache, too.")
    try:
        wanted = Wanted(files.root, _target(files, device), operation, dtype, head_size, heads, shapes, new, study,
                        storage, trials, seconds, seed, jobs, limit, tuple(python or ()), preferred, timing,
                        dict(os.environ))  # fmt: skip
        with contextlib.ExitStack() as ending:
            look_at(plot, out)
            with _progress(trials) as progress:
                search, why, warnings = prepared(wanted, cache_folder(os.environ), progress)
                ending.callback(search.close)
                print_diagnostics(warnings, lines_of(files.read), as_json=as_json)
                interrupted = _ran(search)
            today = time.strftime("%Y-%m-%d", moment())
            code = shown(search, why, Outputs(files.root, plot, out, write, as_json, today, interrupted))
    except Rejected as rejected:
        raise Stopped(rejected.diagnostics, CODES[rejected.diagnostics[0].code].exits[0]) from None
    return ExitCode.INTERRUPTED if interrupted else code


def _ran(search: Search) -> bool:
    """Run the search; return whether it was interrupted, which loses nothing."""
    try:
        search.run()
    except KeyboardInterrupt:
        return True
    return False


def _target(files: WorkspaceFiles, name: str) -> Target:
    """Return the target of that name or file; raise `Rejected` where there is none."""
    from orchestrator.spec.target import load_target

    known = {Path(path).stem: path for path in files.names("targets", ".yaml")}
    path = known.get(name, name)
    if path == name and not (files.root / name).is_file():
        help_ = did_you_mean(name, known) or "Name a target file of the workspace."
        raise Rejected(Diagnostic("E902", f"there is no target '{name}'", help=help_))
    return load_target(path, files.read(path), files.read)


@contextlib.contextmanager
def _progress(trials: int) -> Iterator[Callable[[int, str], None]]:
    """Give a function that shows how many configurations were tried; a bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _count, _words: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from orchestrator.cli.output import console

    columns = (
        TextColumn("tune"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=trials or None)
        yield lambda count, words: bar.update(task, completed=count, description=words)
