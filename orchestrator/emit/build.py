"""Everything that `render` writes, as a map of path to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.core.diagnostics import Diagnostic, Place, Rejected
from orchestrator.emit.audit import audit_lines
from orchestrator.emit.manifest import Manifest, Step
from orchestrator.emit.patches import patch_of
from orchestrator.engine.outcome import AlreadyApplied, Applied, outcome_name
from orchestrator.engine.templates import render_template

if TYPE_CHECKING:
    from orchestrator.emit.audit import Circumstances
    from orchestrator.engine.outcome import Run, StageResult

DOCKERFILE = "templates/Dockerfile.j2"
DOCKERIGNORE = "templates/dockerignore.j2"


def build_files(run: Run, circumstances: Circumstances) -> dict[str, bytes]:
    """Return the files of `build/` for a run without errors.

    Dockerfile and `.dockerignore` come from the workspace's own templates; raises `Rejected` where these are
    missing or do not render.
    """
    manifest = manifest_of(run)
    patchset = {"patchset_digest": manifest.patchset}
    files = {
        "Dockerfile": _text(run, DOCKERFILE, manifest),
        ".dockerignore": _text(run, DOCKERIGNORE, manifest),
        "audit.jsonl": audit_lines(run, patchset, circumstances),
        **manifest.payload(run.tree, audit_lines(run, patchset, None)),
        **{f"patches/{name}": content for name, content in stage_patches(run).items()},
    }
    for name, content in run.artefacts.items():
        if name in files:
            message = f"a stage renders '{name}', which is a file of every build"
            raise Rejected(Diagnostic("E233", message, help="Give the artefact another name."))
        files[name] = content
    return files


def stage_patches(run: Run) -> dict[str, bytes]:
    """Return `NN-stage.patch` → diff for every stage that changed files, numbered in order."""
    changed = [result for result in run.results if result.after]
    width = max(2, len(str(len(run.results))))
    number = {result.id: i for i, result in enumerate(run.results, start=1)}
    return {f"{number[r.id]:0{width}d}-{r.id}.patch": patch_of(r.before, r.after) for r in changed}


def manifest_of(run: Run) -> Manifest:
    """Return the installer's manifest for a run."""
    target = run.plan.target
    tree = run.base
    steps = []
    for result in run.results:
        tree = tree.with_files(result.after)
        steps.append(Step(result.id, outcome_name(result.outcome), tree, _files(result)))
    return Manifest.of(run.plan.name, target.image.python, target.roots, run.base, steps)


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
    return render_template(template, text, context, plan.read).encode()
