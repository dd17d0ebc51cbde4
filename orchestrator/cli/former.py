"""Reading a former render for `--against`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.cli.steps import Stopped
from orchestrator.core.diagnostics import ExitCode, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from orchestrator.emit.against import Started
    from orchestrator.engine.plan import Plan


def former_runs(folder: Path | None, plan: Plan) -> dict[str, Started]:
    """Return how the servers of a former render were started, by run configuration; none without a folder.

    Stops (usage) where the folder is no former render of this pipeline.
    """
    from orchestrator.emit.against import DOCKERFILE, MANIFEST, run_configurations, started

    if folder is None:
        return {}
    names = run_configurations(plan)
    if not names:
        raise Stopped.usage("E128", "--against: the pipeline renders no run configuration", "Add a stage for it.")
    files = {}
    for name in (MANIFEST, DOCKERFILE, *names):
        try:
            files[name] = (folder / name).read_bytes()
        except OSError:  # what is missing is said below, by name
            continue
    try:
        return {name: started(str(folder), files, name, plan.target) for name in names}
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.USAGE) from None


def against_records(
    folder: Path | None, former: Mapping[str, Started], files: Mapping[str, bytes], plan: Plan
) -> list[dict[str, Any]]:
    """Return what differs between a former render and the files of this one, a record for each run configuration."""
    from orchestrator.emit.against import against_record, started

    return [
        against_record(str(folder), name, before, started("this render", files, name, plan.target))
        for name, before in former.items()
        if name in files
    ]
