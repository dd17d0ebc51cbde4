"""`--matrix`: every image under every variant, one after the other, with all that they share made once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from orchestrator.cli.steps import (
    BaseTree,
    Stopped,
    base_of,
    exit_code_of,
    image_templates,
    lock_bytes,
    pipeline_of,
    plan_of,
    run_on,
    tree_of,
    workspace_files,
)
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.checks.view import Sources
    from orchestrator.cli.options import Request
    from orchestrator.emit.matrix import CellResult
    from orchestrator.engine.matrix import Cell
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan


@dataclass
class Shared:
    """What cells have in common: files of the workspace, base trees, parsed sources, runs of equal plans."""

    sources: Sources
    blessed: bytes | None
    """The lock as it was before the first run."""
    files: dict[str, bytes] = field(default_factory=dict)
    bases: list[tuple[tuple[object, ...], BaseTree | Stopped | Rejected]] = field(default_factory=list)
    runs: list[tuple[Plan, BaseTree, Run]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return how often each was made."""
        bases = sum(isinstance(base, BaseTree) for _, base in self.bases)
        return {"bases": bases, "runs": len(self.runs), "files": self.sources.parsed}

    def reader(self, read: Callable[[str], bytes]) -> Callable[[str], bytes]:
        """Return `read` so that each file is read once: all cells see the same bytes."""

        def once(path: str) -> bytes:
            if path not in self.files:
                self.files[path] = read(path)
            return self.files[path]

        return once

    def tree_of(self, plan: Plan, request: Request) -> BaseTree:
        """Return the base tree of a plan's target; targets with the same origins and package roots share one."""
        roots = tuple(plan.target.roots)
        key = (plan.target.origins, roots, request.trees)
        for known, base in self.bases:
            if known == key:
                return _given(base)
        made: BaseTree | Stopped | Rejected
        try:
            made = tree_of(plan, request)
        except (Stopped, Rejected) as error:
            made = error
        self.bases.append((key, made))
        return _given(made)

    def run_of(self, plan: Plan, base: BaseTree, request: Request) -> Run:
        """Return the run of a plan; one whose stages, facts and base equal those of a former run is that run."""
        for known, on, run in self.runs:
            if _equal(plan, known) and on.tree is base.tree and on.wheels == base.wheels:
                return replace(run, plan=replace(run.plan, values=plan.values, read=plan.read))
        run = run_on(plan, base, request, sources=self.sources, trees=self.tree_of)
        self.runs.append((plan, base, run))
        return run


def _given(base: BaseTree | Stopped | Rejected) -> BaseTree:
    if isinstance(base, Exception):
        raise base
    return base


def _equal(one: Plan, other: Plan) -> bool:
    """Tell whether two plans do the same: a value that no stage uses makes no difference."""
    facts = replace(one.facts, values={}) == replace(other.facts, values={})
    return one.digest == other.digest and one.target == other.target and facts and one.warnings == other.warnings


@dataclass(frozen=True)
class Matrix:
    """The cells as they came out, what was shared, and everything to tell."""

    results: tuple[CellResult, ...]
    shared: Shared
    found: tuple[Diagnostic, ...]

    @property
    def exit_code(self) -> ExitCode:
        """The worst of the cells' exit codes, which is the highest."""
        return max((result.exit_code for result in self.results), default=ExitCode.OK)


def matrix_of(request: Request, patterns: Sequence[str], *, locked: bool | None) -> Matrix:
    """Return what becomes of every cell that a pattern names; a cell that fails does not stop the others.

    `locked` is that of `render`; None makes a plan alone, without files. Stops where the pipeline has no matrix that
    can be told.
    """
    from orchestrator.checks.view import Sources
    from orchestrator.engine.matrix import cells_of, chosen_cells

    files = workspace_files(request)
    shared = Shared(Sources(), lock_bytes(request))
    read = shared.reader(files.read)
    _refuse_single(request)
    content = pipeline_of(read, request)
    try:
        cells = cells_of(request.file, content, read)
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.INVALID) from None
    try:
        chosen = chosen_cells(cells, patterns)
    except Rejected as error:
        raise Stopped(error.diagnostics, ExitCode.USAGE) from None
    if not chosen:  # without a target: loading says so
        plan_of(request, read)
    if len({cell.file for cell in chosen}) > 1 and any(tree.endswith("=-") for tree in request.trees):
        message = "--tree from stdin can be read once, and the matrix has several targets"
        help_ = "Name a folder or an archive, or one target with --cell 'TARGET/*'."
        raise Stopped.usage("E700", message, help_)
    made = [_made(cell, request, shared, read, locked=locked) for cell in chosen]
    told = {result.cell.folder: found for result, found in made}
    return Matrix(tuple(result for result, _ in made), shared, together(told))


def _refuse_single(request: Request) -> None:
    for option, value in (("--target", request.target), ("--variant", request.variant)):
        if value is not None:
            help_ = f"Name the cells: --cell '{'TARGET/*' if option == '--target' else '*/VARIANT'}'."
            raise Stopped(
                (Diagnostic("E700", f"{option} is one, --matrix is all of them", help=help_),), ExitCode.USAGE
            )


def _made(
    cell: Cell, whole: Request, shared: Shared, read: Callable[[str], bytes], *, locked: bool | None
) -> tuple[CellResult, tuple[Diagnostic, ...]]:
    """Return what became of a cell, and everything to tell about it."""
    from orchestrator.cli.rendering import rendered
    from orchestrator.cli.workspace import workspace_findings
    from orchestrator.emit.matrix import CellResult
    from orchestrator.engine.matrix import read_named

    request = replace(whole, target=cell.file, variant=cell.variant)
    run = None
    try:
        read_named(cell.file, cell.place, read)
        plan = plan_of(request, read)
        image_templates(plan, required=locked is not None)
        around = workspace_findings(plan, request)
        base = base_of(plan, request, shared.tree_of)
        run = shared.run_of(plan, base, request)
        if locked is None:
            found = (*around, *base.notices, *run.diagnostics)
            return CellResult(cell, exit_code_of(run), errors(found), run), found
        done = rendered(plan, base, run, request, around, shared.blessed, locked=locked)
    except Stopped as stopped:
        return CellResult(cell, stopped.exit_code, errors(stopped.diagnostics), run), stopped.diagnostics
    except Rejected as error:
        code = ExitCode.USAGE if error.diagnostics[0].code.startswith("E7") else ExitCode.INVALID
        return CellResult(cell, code, errors(error.diagnostics), run), error.diagnostics
    return CellResult(cell, done.exit_code, errors(done.found), run, done.files), done.found


def together(told: dict[str, tuple[Diagnostic, ...]]) -> tuple[Diagnostic, ...]:
    """Return the findings of all cells, each once, with the cells that it is about."""
    cells: dict[Diagnostic, list[str]] = {}
    for cell, found in told.items():
        for each in found:
            at = cells.setdefault(each, [])
            if cell not in at:
                at.append(cell)
    return tuple(
        found if len(at) == len(told) else replace(found, notes=(*found.notes, f"in {', '.join(at)}"))
        for found, at in cells.items()
    )
