"""A matrix of renders as records, and what is written beside its cells: summary, log and bake file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.core.digest import digest
from orchestrator.emit.audit import chained_lines, read_audit
from orchestrator.emit.bake import BAKE, bake_file, bake_names, tag_of
from orchestrator.emit.build import INNER_LOG, LOG
from orchestrator.emit.records import stage_record
from orchestrator.emit.report.text import code_span, markdown
from orchestrator.engine.matrix import DEFAULT
from orchestrator.engine.outcome import AlreadyApplied, Applied, Failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.core.diagnostics import Diagnostic, ExitCode
    from orchestrator.emit.audit import Circumstances
    from orchestrator.engine.matrix import Cell
    from orchestrator.engine.outcome import Run

SUMMARY, SUMMARY_PAGE = "summary.json", "summary.md"


@dataclass(frozen=True)
class CellResult:
    """What became of one cell: its run and its files as far as it came, what stands against it, its exit code."""

    cell: Cell
    exit_code: ExitCode
    errors: tuple[Diagnostic, ...] = ()
    run: Run | None = None
    files: Mapping[str, bytes] | None = None


def cell_records(results: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Return a record for each cell: outcome, counts, and for one that can be built its digests and names."""
    keys = {result.cell: (result.cell.target, result.cell.variant or DEFAULT) for result in results}
    names = bake_names(keys.values())
    return [_cell_record(result, names[keys[result.cell]]) for result in results]


def _cell_record(result: CellResult, bake: str) -> dict[str, Any]:
    cell, run = result.cell, result.run
    variant = cell.variant or DEFAULT
    record: dict[str, Any] = {
        "event": "cell",
        "folder": cell.folder,
        "target": cell.target,
        "variant": variant,
        "file": cell.file,
        "outcome": "failed" if result.exit_code else "rendered" if result.files is not None else "planned",
        "exit": int(result.exit_code),
    }
    if run is not None:
        kinds = [type(each.outcome) for each in run.results]
        record |= {
            "pipeline": run.plan.name,
            "image": run.plan.target.image.reference,
            "params": {
                key.removeprefix("params."): value
                for key, value in sorted(run.plan.values.items())
                if key.startswith("params.")
            },
            "stages": {
                "in_effect": kinds.count(Applied) + kinds.count(AlreadyApplied),
                "skipped": len(kinds) - sum(map(kinds.count, (Applied, AlreadyApplied, Failed))),
                "failed": [each.id for each in run.results if isinstance(each.outcome, Failed)],
            },
            "changed": len(run.tree.changed_since(run.installed)),
        }
    if result.errors:
        record["errors"] = [found.record() for found in result.errors]
    if result.files is not None and run is not None:
        patchset = next(r for r in read_audit(result.files[INNER_LOG]) if r["event"] == "patchset")
        record |= {
            "bake": bake,
            "tag": tag_of(run.plan.name, cell.target, variant),
            "patchset": patchset["patchset_digest"],
            "log": digest(result.files[INNER_LOG]),
        }
    return record


def matrix_files(
    results: Sequence[CellResult], shared: Mapping[str, int], circumstances: Circumstances
) -> dict[str, bytes]:
    """Return all files of a matrix of which every cell can be built, by their path in the output folder.

    `shared` says how often what the cells have in common was made.
    """
    records = cell_records(results)
    beside = {
        BAKE: bake_file(records),
        SUMMARY: _json({"cells": [_without_event(record) for record in records], "made": dict(shared)}),
        SUMMARY_PAGE: _page(records, shared).encode(),
    }
    emitted = {name: digest(content) for name, content in sorted(beside.items())}
    log = chained_lines([*records, {"event": "matrix", "emitted": emitted, "made": dict(shared)}], circumstances)
    cells = {
        f"{result.cell.folder}/{name}": content for result in results for name, content in (result.files or {}).items()
    }
    return {**cells, **beside, LOG: log}


def stage_records(results: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Return the stage records of every cell that was run, each with the cell's name."""
    return [
        {**stage_record(each, result.run.final.get(each.id, ())), "cell": result.cell.folder}
        for result in results
        if result.run is not None
        for each in result.run.results
    ]


def _without_event(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "event"}


def _json(data: object) -> bytes:
    return (json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _page(records: Sequence[Mapping[str, Any]], shared: Mapping[str, int]) -> str:
    lines = [
        f"# {markdown(records[0]['pipeline'])}: {len(records)} images",
        "",
        "| cell | base image | stages in effect | skipped | files changed | tag | patch set |",
        "| --- | --- | ---: | ---: | ---: | --- | --- |",
    ]
    for record in records:
        stages = record["stages"]
        cells = (
            f"[{record['folder']}]({record['folder']}/report.md)",
            code_span(record["image"]),
            stages["in_effect"],
            stages["skipped"],
            record["changed"],
            code_span(record["tag"]),
            code_span(record["patchset"][:12]),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", shared_words(shared, len(records)), "", f"Build them all here: `docker buildx bake -f {BAKE}`."]
    return "\n".join(lines) + "\n"


def shared_words(shared: Mapping[str, int], cells: int) -> str:
    """Return in a sentence how often what the cells share was made."""
    return (
        f"{_times(cells, 'cell')}: {_times(shared['bases'], 'base tree')} fetched, {_times(shared['runs'], 'run')}, "
        f"{_times(shared['files'], 'source file')} parsed."
    )


def _times(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
