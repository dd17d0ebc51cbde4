"""Releases of the base: which one a tree is, and what a stage says about them."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from orchestrator.code.source import parse_python
from orchestrator.core.diagnostics import Diagnostic, Rejected, Severity
from orchestrator.engine.outcome import Skipped, not_now
from orchestrator.spec.releases import is_past

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from orchestrator.checks.view import View
    from orchestrator.core.tree import Tree
    from orchestrator.engine.model import Stage
    from orchestrator.engine.outcome import Judged, StageResult
    from orchestrator.engine.plan import PlannedStage

_FILES = ("_version.py", "version.py", "__version__.py", "__init__.py")
_NAMES = frozenset({"__version__", "version", "VERSION"})


def version_of(tree: Tree, root: str, versions: Mapping[str, str]) -> str | None:
    """Return the version of a package root: what its origin says, else what the package says of itself; else None."""
    if root in versions:
        return versions[root]
    for file in _FILES:
        raw = tree.get(f"{root}/{file}")
        found = _stated(raw) if raw is not None and b"ersion" in raw.lower() else None
        if found is not None:
            return found
    return None


@lru_cache(maxsize=64)
def _stated(raw: bytes) -> str | None:
    """Return the version that a module assigns as text at its top level; only a valid one counts."""
    try:
        body = parse_python(raw.decode("utf-8-sig", errors="replace")).body
    except Rejected:
        return None
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
        value = getattr(statement, "value", None)
        named = any(isinstance(target, ast.Name) and target.id in _NAMES for target in targets)
        if named and isinstance(value, ast.Constant) and isinstance(value.value, str) and is_version(value.value):
            return value.value
    return None


def is_version(text: str) -> bool:
    """Tell whether a text is a version as packages write them (PEP 440)."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def roots_of(planned: PlannedStage) -> tuple[str, ...]:
    """Return the package roots that a stage works in, in the order in which it names them."""
    files = [*(edit.edit.file for edit in planned.edits), *(deploy.to for deploy in planned.deploys)]
    return tuple(dict.fromkeys(file.partition("/")[0] for file in files))


def base_version(planned: PlannedStage, tree: Tree, versions: Mapping[str, str]) -> str | None:
    """Return the version of the base as a stage sees it: that of the first package root that it works in."""
    roots = roots_of(planned) or tuple(sorted({path.partition("/")[0] for path in tree}))
    return version_of(tree, roots[0], versions) if roots else None


def fixed_upstream(stage: Stage, evidence: Iterable[Judged]) -> str:
    """Return why a stage is skipped as fixed upstream: where, and by which checks that is known."""
    where = stage.upstream.pr if stage.upstream else ""
    return f"fixed upstream: {where} ({'; '.join(j.verdict.evidence for j in evidence)})"


def closed(stage: Stage, view: View) -> Skipped | None:
    """Return the outcome of a stage that its own checks keep from running on what `view` shows; else None."""
    upstream = stage.upstream.fixed_when if stage.upstream else []
    verdicts = [check.judge(view) for check in upstream]
    if verdicts and all(verdict.holds for verdict in verdicts):
        return Skipped(f"fixed upstream: {'; '.join(verdict.evidence for verdict in verdicts)}", upstream=True)
    for check in stage.when or ():
        verdict = check.judge(view)
        if not verdict.holds:
            return not_now(check, verdict)
    return None


def expired(results: Iterable[StageResult], tree: Tree, versions: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield E516 for every stage that is not skipped and has outlived `expires`; W517 where that cannot be told."""
    for result in results:
        last = result.planned.stage.expires
        if last is None or isinstance(result.outcome, Skipped):
            continue
        version = base_version(result.planned, tree, versions)
        where, stage = result.planned.place, result.id
        if version is None or not is_version(version):
            message = f"`expires: {last}` cannot be judged: the base does not say which version it is"
            help_ = "Take a base from a source distribution, or one whose package assigns `__version__`."
            yield Diagnostic("W517", message, where, help_, stage=stage, severity=Severity.WARNING)
        elif is_past(version, last):
            message = f"the stage expired with {last}, and the base is {version}"
            help_ = "Look whether it is still needed: remove it, retire it with `upstream:`, or set a later version."
            yield Diagnostic("E516", message, where, help_, stage=stage)
