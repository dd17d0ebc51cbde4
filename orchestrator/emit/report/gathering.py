"""The report's content, gathered from a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.core.digest import digest
from orchestrator.emit.memory import memory_records
from orchestrator.emit.records import stage_record
from orchestrator.emit.report.content import (
    CheckRow,
    EditRow,
    FigureRow,
    Moment,
    OutcomeKind,
    Report,
    Section,
    TileRow,
)
from orchestrator.emit.report.diffs import file_diffs
from orchestrator.emit.report.memory import memory_of
from orchestrator.emit.report.running import running_server
from orchestrator.engine.outcome import AlreadyApplied, Applied, Failed, Skipped, outcome_name
from orchestrator.spec.target import Figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.outcome import Judged, Outcome, Run, StageResult
    from orchestrator.spec.edits import AnyEdit

TILES = {"tile_fits", "table_fits"}
NOT_YET = "not yet"
"""How an effect stands before its stage: that it does not hold there is the point."""


@dataclass(frozen=True)
class Surroundings:
    """What a report shows that is not in the run: all of it must be the same for the same input.

    The base in words, its inputs with their digests, the lock's bytes, and what the lock does not hold.
    """

    base: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    lock: bytes | None = None
    notices: tuple[Diagnostic, ...] = ()


def report_of(run: Run, files: Mapping[str, bytes], patchset_digest: str, around: Surroundings | None = None) -> Report:
    """Return the report of a run whose build folder will hold `files` (and the report itself)."""
    around = around or Surroundings()
    plan = run.plan
    found = (*plan.warnings, *run.findings, *around.notices)
    patches = {name.partition("-")[2]: name for name in files if name.startswith("patches/")}
    sections = tuple(
        _section(
            result,
            number,
            patches.get(f"{result.id}.patch", "") if result.after else "",
            files,
            run.final.get(result.id, ()),
            tuple(d for d in found if d.stage == result.id),
        )
        for number, result in enumerate(run.results, start=1)
    )
    changed = run.tree.changed_since(run.installed)
    stages = {section.id for section in sections}
    digests = [
        ("Base tree", run.base.digest),
        ("Patched tree", run.tree.digest),
        ("Patch set", patchset_digest),
        ("Pipeline", plan.digest),
        ("Lock", digest(around.lock) if around.lock is not None else ""),
        *((f"Input {name}", value) for name, value in sorted(around.inputs.items())),
    ]
    return Report(
        pipeline=plan.name,
        target=plan.target.name,
        target_summary=plan.target.summary,
        image=plan.target.image.reference,
        python=plan.target.image.python,
        base=around.base,
        digests=tuple(digests),
        params=tuple(_params(plan.values)),
        sections=sections,
        findings=tuple(d for d in found if d.stage not in stages),
        server=running_server(run),
        memory=tuple(memory_of(memory_records(run))),
        tiles=tuple(tiles_in(sections)),
        figures=tuple(_figures(run)),
        package_files=tuple((p, _digest(run.installed.get(p)), digest(run.tree[p])) for p in changed),
        build_files=tuple((name, len(content), digest(content)) for name, content in sorted(files.items())),
        sources=tuple(sorted(plan.sources.items())),
        records=tuple(stage_record(result, run.final.get(result.id, ())) for result in run.results),
    )


def _digest(content: bytes | None) -> str:
    return "" if content is None else digest(content)


def _params(values: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in sorted(values.items()):
        if key.startswith("params."):
            yield key.removeprefix("params."), str(value)


def _section(  # noqa: PLR0913, PLR0917 - each is what one part of the section shows
    result: StageResult,
    number: int,
    patch: str,
    files: Mapping[str, bytes],
    final: Sequence[Judged],
    found: tuple[Diagnostic, ...],
) -> Section:
    stage = result.planned.stage
    provides = {**stage.provides.flags, **stage.provides.environment}
    return Section(
        id=result.id,
        number=number,
        kind=stage.kind,
        summary=stage.summary,
        outcome=outcome_name(result.outcome),
        fit=_fit(result.outcome),
        reason=result.outcome.reason if isinstance(result.outcome, Skipped) else "",
        needs=tuple(stage.needs),
        after=tuple(stage.after),
        one_of=stage.one_of or "",
        claim=stage.claim or "",
        evidence=stage.evidence or "",
        edits=tuple(_edit(i, edit, result) for i, edit in enumerate(stage.edits, start=1)),
        deploys=(
            *((d.file, d.to, d.replaces or "") for d in stage.deploy),
            *((c.source, c.to, _COMPILED) for c in stage.compile),
        ),
        wheels=tuple(_wheels(result)),
        artefacts=tuple(sorted(result.artefacts)),
        provides=tuple((name, "" if value is True else str(value)) for name, value in provides.items()),
        checks=tuple(_checks(result.judged, final)),
        findings=(*result.diagnostics, *found),
        waivers=tuple(stage.waive),
        diffs=file_diffs(files[patch], result.before, result.after) if patch else (),
        patch=patch,
        digest=result.planned.digest,
    )


_COMPILED = "compiled in the image, so its digest is known only there"


def _fit(outcome: Outcome) -> OutcomeKind:
    match outcome:
        case Applied(fit=fit):
            return fit
        case AlreadyApplied():
            return "already"
        case Skipped():
            return "skipped"
        case Failed():
            return "failed"


def _edit(number: int, edit: AnyEdit, result: StageResult) -> EditRow:
    places = tuple(f"{site.place.line}" for n, site in result.sites if n == number)
    return EditRow(number, edit.op, edit.file, edit.within or "", edit.because or "", places)


def _wheels(result: StageResult) -> Iterable[tuple[str, str, str, str]]:
    for planned in result.planned.wheels if result.in_effect else ():
        if planned.wheel is not None:
            yield planned.key, planned.wheel.version, planned.replaces or "", planned.wheel.sha256


_BEFORE = Moment(NOT_YET)
_HELD = Moment("holds")


def _checks(judged: Sequence[Judged], final: Sequence[Judged]) -> Iterable[CheckRow]:
    ends = {(j.check, j.subject): _moment(j) for j in final}
    for j in judged:
        now, end = _moment(j), ends.get((j.check, j.subject), Moment())
        match j.role:
            case "upstream" | "when" | "pre":
                moments = (now, Moment(), Moment())
            case "effect":
                moments = (_BEFORE, now, end)
            case "invariant":
                moments = (_HELD, now, end)
            case _:
                moments = (Moment(), now, end)
        yield CheckRow(j.role, j.check, j.subject, j.because, *moments)


def _moment(judged: Judged) -> Moment:
    verdict = judged.verdict
    return Moment(str(verdict.status), verdict.evidence, str(verdict.place) if verdict.place else "")


def tiles_in(sections: Iterable[Section]) -> Iterable[TileRow]:
    """Yield every tile that a check of these stages derived from the code."""
    for section in sections:
        for row in section.checks:
            if row.check in TILES:
                yield TileRow(section.id, row.subject, row.because, row.last)


def _figures(run: Run) -> Iterable[FigureRow]:
    target = run.plan.target
    for name in ("device", "model", "engine"):
        for key, figure in getattr(target, name).items():
            if isinstance(figure, Figure):
                values = " / ".join(_number(value) for value in figure.values)
                value = "" if figure.value is None else _number(figure.value)
                note = " ".join(part for part in (f"Stated: {values}." if values else "", figure.note) if part)
                yield FigureRow(f"{name}.{key}", value, figure.status, figure.source, note)
            else:
                yield FigureRow(f"{name}.{key}", _number(figure), "stated", "", "")


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
