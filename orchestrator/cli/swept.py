"""What a sweep needs of the pipeline: the run configuration that it renders for each value, all in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.cli.steps import Stopped, base_of, exit_code_of, make_plan_for, run_on
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected, did_you_mean, errors
from orchestrator.spec.document import read_document
from orchestrator.spec.run_config import RunConfig
from orchestrator.spec.validate import validated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orchestrator.cli.options import Request
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan
    from orchestrator.sweep.model import Weights
    from orchestrator.sweep.trial import Rendered


def weights_of(request: Request, by: str) -> Weights | None:
    """Return the weights of the target's score, None where it has none; stop (usage) where they are to decide."""
    from orchestrator.sweep.model import Weights

    score = make_plan_for(request).target.score
    if score is None and by == "score":
        raise _stop("E912", "--by score: the target has no `score:`", "Give it the weights, or decide by output.")
    return None if score is None else Weights(score.output, score.input, score.cached, score.source)


def rendered(
    request: Request, parameter: str, values: Mapping[str, float], config: str | None, tell: Callable[[str], None]
) -> list[Rendered]:
    """Return what the pipeline renders for each value; `tell` gets a line for each, because it takes a while.

    A value that the pipeline refuses is told as such; where all are refused, stops with what stands against the first.
    """
    from orchestrator.checks.view import Sources
    from orchestrator.cli.matrix import Shared

    found: list[Rendered] = []
    first: Stopped | None = None
    shared = Shared(Sources(), None)  # what is handed over on standard input can be read once
    for text, number in values.items():
        try:
            plan = make_plan_for(replace(request, settings=(*request.settings, f"{parameter}={text}")))
            name = _name(plan, config)
            base = base_of(plan, request, shared.tree_of)
            run = run_on(plan, base, request, sources=shared.sources, trees=shared.tree_of)
            found.append(_rendered(run, name, text, number))
            tell(f"{parameter}={text}: rendered")
        except Stopped as stopped:
            if stopped.exit_code is ExitCode.USAGE:
                raise
            first = first or stopped
            found.append(_refused(text, number, stopped.diagnostics))
    if first is not None and all(one.refused for one in found):
        raise first
    return found


def _rendered(run: Run, name: str, text: str, number: float) -> Rendered:
    from orchestrator.emit.build import manifest_of
    from orchestrator.sweep.trial import Rendered

    if run.failed:
        raise Stopped(errors(run.diagnostics), exit_code_of(run))
    if name not in run.artefacts:
        raise _stop("E912", f"no stage that is on renders {name}", "Switch its stage on.", ExitCode.INVALID)
    content = run.artefacts[name]
    document = read_document(name, content)
    try:
        read = validated(RunConfig, document.data, document, {})
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.CHECK_FAILED) from None
    return Rendered(
        value=text,
        number=number,
        name=name,
        content=content,
        command=tuple(read.command),
        environment={variable.name: variable.value for variable in read.env},
        concurrency=read.concurrency,
        patchset=manifest_of(run).patchset,
    )


def _refused(text: str, number: float, found: Sequence[Diagnostic]) -> Rendered:
    from orchestrator.sweep.trial import Rendered

    return Rendered(text, number, refused="; ".join(f"{d.code}: {d.message}" for d in found))


def _name(plan: Plan, config: str | None) -> str:
    """Return the name of the run configuration; stop (usage) where it is not clear which one."""
    from orchestrator.emit.against import run_configurations

    names = run_configurations(plan)
    if not names:
        raise _stop("E912", "the pipeline renders no run configuration", "Add a stage for it, with schema: run-config.")
    if config is None and len(names) == 1:
        return names[0]
    if config not in names:
        said = "several run configurations are rendered" if config is None else f"no run configuration {config}"
        raise _stop("E912", said, f"Choose one with --config; {did_you_mean(config or '', names)}")
    return config


def _stop(code: str, message: str, help_: str, exit_code: ExitCode = ExitCode.USAGE) -> Stopped:
    return Stopped((Diagnostic(code, message, help=help_),), exit_code)
