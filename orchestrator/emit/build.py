"""Everything that `render` writes, as a map of path to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.core.digest import digest
from orchestrator.emit.audit import audit_lines
from orchestrator.emit.manifest import BuildEntry, Manifest, Step, WheelEntry
from orchestrator.emit.patches import patch_of
from orchestrator.emit.report.gathering import report_of
from orchestrator.emit.report.markdown import markdown_of
from orchestrator.emit.report.page import page_of
from orchestrator.engine.claims import BUILD_TEMPLATES
from orchestrator.engine.outcome import AlreadyApplied, Applied, outcome_name
from orchestrator.engine.templates import compile_jinja, render_template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchestrator.emit.audit import Circumstances
    from orchestrator.emit.report.gathering import Surroundings
    from orchestrator.engine.outcome import Run, StageResult

DOCKERFILE, DOCKERIGNORE = BUILD_TEMPLATES
LOG, INNER_LOG = "audit.jsonl", "patchset/audit.jsonl"
PAGE, MARKDOWN = "report.html", "report.md"


def build_files(run: Run, circumstances: Circumstances, around: Surroundings | None = None) -> dict[str, bytes]:
    """Return the files of `build/` for a run without errors; `around` is what only the reports need.

    Dockerfile and `.dockerignore` come from the workspace's own templates; raises `Rejected` where these are
    missing or do not render.
    """
    manifest = manifest_of(run)
    files = {
        "Dockerfile": _text(run, DOCKERFILE, manifest),
        ".dockerignore": _text(run, DOCKERIGNORE, manifest),
        **manifest.payload(run.tree, b"", _wheel_files(run)),
        **{f"patches/{name}": content for name, content in stage_patches(run).items()},
    }
    for name, content in run.artefacts.items():
        if name in {*files, LOG, PAGE, MARKDOWN, "patches", "patchset"}:
            message = f"a stage renders '{name}', which is a file of every build"
            raise Rejected(Diagnostic("E233", message, help="Give the artefact another name."))
        files[name] = content
    files |= reports(run, files, manifest.patchset, around)
    emitted = {name: digest(content) for name, content in sorted(files.items()) if name != INNER_LOG}
    patchset = {"patchset_digest": manifest.patchset, "emitted": emitted}
    return {
        **files,
        LOG: audit_lines(run, patchset, circumstances),
        INNER_LOG: audit_lines(run, patchset, None),
    }


def reports(
    run: Run, files: Mapping[str, bytes], patchset_digest: str, around: Surroundings | None
) -> dict[str, bytes]:
    """Return the reports of a run whose build folder holds `files`, by name."""
    emitted = {name: content for name, content in files.items() if name != INNER_LOG}
    report = report_of(run, emitted, patchset_digest, around)
    return {PAGE: page_of(report), MARKDOWN: markdown_of(report)}


def stage_patches(run: Run) -> dict[str, bytes]:
    """Return `NN-stage.patch` → diff for every stage that changed files, numbered in order."""
    changed = [result for result in run.results if result.after]
    width = max(2, len(str(len(run.results))))
    number = {result.id: i for i, result in enumerate(run.results, start=1)}
    return {f"{number[r.id]:0{width}d}-{r.id}.patch": patch_of(r.before, r.after) for r in changed}


def manifest_of(run: Run) -> Manifest:
    """Return the installer's manifest for a run."""
    target = run.plan.target
    tree = run.installed
    steps = []
    for result in run.results:
        tree = tree.with_files(result.after)
        live = result.planned.stage.live if result.in_effect else None
        word = outcome_name(result.outcome)
        steps.append(Step(result.id, word, tree, _files(result), tuple(_wheels(result)), live, tuple(_builds(result))))
    return Manifest.of(run.plan.name, target.image.python, target.roots, run.installed, steps)


def _wheels(result: StageResult) -> Iterator[WheelEntry]:
    """Yield the wheels of a stage that is in effect, as the installer has to know them."""
    for planned in result.planned.wheels if result.in_effect else ():
        wheel = planned.wheel
        if wheel is not None:
            roots = tuple(sorted(wheel.roots))
            yield WheelEntry(result.id, planned.key, wheel.version, wheel.file, wheel.sha256, planned.replaces, roots)


def _builds(result: StageResult) -> Iterator[BuildEntry]:
    """Yield what the installer has to compile for a stage that is in effect."""
    for planned in result.planned.compiles if result.in_effect else ():
        root, _, source = planned.source.partition("/")
        yield BuildEntry(result.id, root, source, planned.to.partition("/")[2], planned.command)


def _wheel_files(run: Run) -> dict[str, bytes]:
    wheels = (planned.wheel for result in run.results if result.in_effect for planned in result.planned.wheels)
    return {wheel.file: wheel.content for wheel in wheels if wheel is not None}


def _files(result: StageResult) -> frozenset[str]:
    """Return the files that hold the stage's work."""
    match result.outcome:
        case Applied():
            return frozenset(result.after)
        case AlreadyApplied():
            planned = result.planned
            return frozenset([*(e.edit.file for e in planned.edits), *(d.to for d in planned.deploys)])
        case _:
            return frozenset()


def _text(run: Run, template: str, manifest: Manifest) -> bytes:
    plan = run.plan
    context = {
        "image": plan.target.image.reference,
        "interpreter": plan.target.image.interpreter,
        "patchset_digest": manifest.patchset,
        "labels": {"orchestrator.pipeline": plan.name, "orchestrator.target": plan.target.name},
    }
    try:
        text = plan.read(template).decode("utf-8")
    except UnicodeDecodeError:
        help_ = "Save it as UTF-8."
        raise Rejected(Diagnostic("E125", f"'{template}' is not UTF-8", Place(template), help=help_)) from None
    return render_template(template, compile_jinja(template, text), context, plan.read).encode()
