"""Golden stages as test cases: each stage as its folder says, a second time, and in every shape of file."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.options import Request
from orchestrator.cli.output import lines_of
from orchestrator.cli.steps import Stopped, make_plan_for
from orchestrator.core.diagnostics import did_you_mean, errors
from orchestrator.emit.frames import frame
from orchestrator.engine.outcome import AlreadyApplied, Applied, outcome_name
from orchestrator.testing.golden import apply, apply_again, deployed_files, made, read_golden
from orchestrator.testing.shapes import SHAPES, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.core.diagnostics import Diagnostic
    from orchestrator.engine.outcome import Run
    from orchestrator.engine.plan import Plan
    from orchestrator.testing.golden import Golden

LEFT_OUT = frozenset({"E502", "E513", "E514"})
"""House rules about other files: a golden folder holds only what the stage needs."""
AS_WRITTEN, AGAIN = "as written", "again"


class GoldenMismatch(AssertionError):  # noqa: N818 - it says how a test failed, not that a program did
    """A stage does not make what its golden folder says; the message shows the difference."""


@dataclass(frozen=True)
class GoldenCase:
    """One stage of a workspace in one shape; `check` runs it. `str` is a name for a list of tests."""

    workspace: Path
    folder: Path
    shape: str = AS_WRITTEN
    variant: str | None = None
    target: str | None = None

    @property
    def stage(self) -> str:
        """The stage's id: the folder's name."""
        return self.folder.name

    def __str__(self) -> str:
        return f"{self.stage}-{self.shape}"

    def check(self) -> None:
        """Raise `GoldenMismatch` unless the stage, alone on `before/`, makes exactly what `after/` says."""
        __tracebackhide__ = True
        _check(self)


def golden_cases(
    workspace: Path | str,
    golden: Path | str = "tests/golden",
    variant: str | None = None,
    targets: Mapping[str, str] | None = None,
) -> list[GoldenCase]:
    """Return the cases of every golden folder: `tests/golden/STAGE/before/…` and `tests/golden/STAGE/after/…`.

    `golden` is relative to the workspace. `targets` is stage → target file, for stages that the pipeline's own target
    skips. A file has only the shapes that it can have; a stage that edits nothing has none but its own. Raises
    `GoldenMismatch` where there is no such folder: a test without a case would pass.
    """
    root = Path(workspace).resolve()
    top = root / golden
    made = f"make {golden}/STAGE/before/ and {golden}/STAGE/after/"
    if not top.is_dir():
        raise GoldenMismatch(f"there is no folder {top}: {made}")
    folders = sorted(path for path in top.iterdir() if path.is_dir() and path.name[0] not in "._")  # __pycache__
    if not folders:
        raise GoldenMismatch(f"there is no golden stage in {top}: {made}")
    found = []
    for folder in folders:
        names = [AS_WRITTEN, AGAIN]
        golden_stage = read_golden(folder)
        names += [shape.name for shape in SHAPES if _varied(golden_stage, shape) is not None]
        target = (targets or {}).get(folder.name)
        found += [GoldenCase(root, folder, name, variant, target) for name in names]
    return found


def _varied(golden: Golden, shape: Shape) -> Golden | None:
    """Return a golden stage with its edited Python files in a shape; None where none can have it."""
    edited = [path for path in golden.after if path in golden.before and path.endswith(".py")]
    for path in edited:
        if shape.change(golden.before[path]) is None or shape.change(golden.after[path]) is None:
            return None
    return golden.varied(lambda raw: shape.change(raw) or raw) if edited else None


@cache
def _plan(workspace: Path, variant: str | None, target: str | None) -> Plan:
    try:
        return make_plan_for(Request(workspace, variant=variant, target=target, command="test"))
    except Stopped as stopped:
        raise GoldenMismatch(f"the workspace {workspace} is not valid\n{_told(stopped.diagnostics)}") from None


def _told(found: tuple[Diagnostic, ...], run: Run | None = None, plan: Plan | None = None) -> str:
    lines = lines_of(plan.read, run) if plan is not None else lambda _file, _number: None
    return "\n".join(frame(each, lines).plain for each in found)


def _check(case: GoldenCase) -> None:
    __tracebackhide__ = True
    plan = _plan(case.workspace, case.variant, case.target)
    ids = [planned.id for planned in plan.stages]
    if case.stage not in ids:
        near = did_you_mean(case.stage, ids)
        raise GoldenMismatch(f"{case.folder} is named after no stage of the pipeline; {near}")
    golden = read_golden(case.folder)
    if not golden.before and not golden.after:
        raise GoldenMismatch(f"{case.folder} has neither files in before/ nor in after/")
    shape = next((each for each in SHAPES if each.name == case.shape), None)
    varied = _varied(golden, shape) if shape is not None else golden
    if varied is None:
        raise GoldenMismatch(f"{case}: a file of the folder cannot have this shape")
    first = _applied(case, plan, varied, exact=shape is None or shape.exact)
    if case.shape != AS_WRITTEN:
        _unchanged(case, plan, varied, first)


def _applied(case: GoldenCase, plan: Plan, golden: Golden, *, exact: bool) -> Run:
    """Return the run of the stage on its own tree, once it is seen to have made what the folder says."""
    __tracebackhide__ = True
    done = apply(plan, golden)
    faults = tuple(found for found in errors(done.diagnostics) if found.code not in LEFT_OUT)
    outcome = done.results[0].outcome
    if faults or not isinstance(outcome, Applied):
        words = f"{case}: the stage is {outcome_name(outcome)}"
        reason = getattr(outcome, "reason", "")
        raise GoldenMismatch("\n".join(filter(None, [words, reason, _told(faults, done, plan)])))
    differences = list(_differences(made(done), golden.after, exact=exact))
    differences += [
        f"{path} is deployed, and is not there as its source is"
        for path in {d.to for d in done.results[0].planned.deploys} - deployed_files(done)
        if path not in golden.after
    ]
    if differences:
        raise GoldenMismatch("\n".join([f"{case}: not what after/ says", *differences]))
    return done


def _unchanged(case: GoldenCase, plan: Plan, golden: Golden, first: Run) -> None:
    """Check that a second run changes nothing and, where the stage edits or deploys, knows that it is applied."""
    __tracebackhide__ = True
    again = apply_again(plan, golden, first)
    planned = again.results[0].planned
    outcome = again.results[0].outcome
    changed = again.tree.changed_since(first.tree)
    if changed:
        differences = _differences({p: again.tree[p] for p in changed}, {p: first.tree[p] for p in changed}, exact=True)
        raise GoldenMismatch("\n".join([f"{case}: a second run changes what the first made", *differences]))
    if (planned.edits or planned.deploys) and not isinstance(outcome, AlreadyApplied):
        told = _told(errors(again.diagnostics), again, plan)
        words = f"{case}: a second run says '{outcome_name(outcome)}', not 'already applied'"
        raise GoldenMismatch("\n".join(filter(None, [words, told])))


def _differences(found: Mapping[str, bytes], wanted: Mapping[str, bytes], *, exact: bool) -> list[str]:
    """Return what differs, file by file, as text."""
    lines = [f"{path} was made, and after/ does not have it" for path in sorted(found.keys() - wanted.keys())]
    lines += [f"{path} is in after/, and was not made" for path in sorted(wanted.keys() - found.keys())]
    for path in sorted(found.keys() & wanted.keys()):
        if found[path] != wanted[path] and (exact or not _same_code(found[path], wanted[path])):
            lines.append(_diff(path, wanted[path], found[path]))
    return lines


def _same_code(found: bytes, wanted: bytes) -> bool:
    """Tell whether two files differ in nothing but the blanks that their lines begin with, and mean the same."""
    both = [[line.lstrip() for line in raw.splitlines()] for raw in (found, wanted)]
    try:
        return both[0] == both[1] and ast.dump(ast.parse(found)) == ast.dump(ast.parse(wanted))
    except (SyntaxError, ValueError):
        return False


def _diff(path: str, wanted: bytes, found: bytes) -> str:
    lines = difflib.unified_diff(_visible(wanted), _visible(found), f"after/{path}", f"made/{path}", lineterm="")
    return "\n".join(lines)


def _visible(raw: bytes) -> list[str]:
    r"""Return lines as text in which carriage returns, a byte order mark and a missing last line end can be seen."""
    text = raw.decode("utf-8", errors="backslashreplace").replace("\ufeff", "\\ufeff")
    lines = text.replace("\r", "\\r").split("\n")
    return lines[:-1] if lines[-1] == "" else [*lines[:-1], f"{lines[-1]}\\ no line end"]
