"""`lock --accept`: bless what single stages meet in a base, after showing how it differs from what was blessed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from orchestrator.cli.bases import own_tree, plan_on, prepare, released
from orchestrator.cli.steps import BaseTree, Stopped, deeply, exit_code_of, origin_exit, tree_of
from orchestrator.core.diagnostics import Diagnostic, ExitCode, Rejected, did_you_mean, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.cli.bases import Prepared
    from orchestrator.cli.options import Request
    from orchestrator.core.tree import Tree
    from orchestrator.engine.lock import Lock
    from orchestrator.engine.outcome import Link, Run, StageResult


_RELEASE: Final = re.compile(r"[A-Za-z0-9._-]+==[^=\s]+\Z")


def accept_stages(
    request: Request, stages: tuple[str, ...], to: str | None, *, check: bool, as_json: bool
) -> bytes | None:
    """Print what the stages meet and the lock does not hold; return the lock that holds it, None if it does already.

    Stops where a stage does not exist (usage) or does not apply (4), and where the base cannot be had.
    """
    from orchestrator.cli.output import console, print_records
    from orchestrator.engine.lock import Lock

    if to is not None and request.trees:
        raise Stopped.usage("E700", "--to is one base, --tree is another", "Give one of them.")
    prepared = prepare(request)
    known = [planned.id for planned in prepared.plan.stages]
    unknown = next((stage for stage in stages if stage not in known), None)
    if unknown is not None or not stages:
        message = f"no stage '{unknown}'" if unknown else "--to needs --accept STAGE"
        raise Stopped.usage("E211", message, did_you_mean(unknown or "", known))
    base = _base(prepared, to)
    run = _run(prepared, base)
    results = [result for result in run.results if result.id in stages]
    _applied(results, run)
    old = prepared.lock or Lock()
    new = old.accepting(base.tree.digest, base.name, (link for r in results for link in r.links), known)
    if old.to_bytes() == new.to_bytes():
        console(stderr=True).print("nothing to accept")
        return None
    former = _former(prepared, old, base)
    for record in _changes(results, run, old, former):
        if as_json:
            print_records([record])
            continue
        console().print(f"{record['stage']}: {record['definition']}   {record['what']}")
        console().print(record["diff"])
    if not check:
        console(stderr=True).print(f"accepted on {base.name}: {', '.join(stages)}")
    return new.to_bytes()


def _base(prepared: Prepared, to: str | None) -> BaseTree:
    from orchestrator.cli.wanted import wanted_releases

    request = prepared.request
    try:
        if to is None:
            return tree_of(prepared.plan, request) if request.trees else own_tree(prepared)
        wanted = wanted_releases(prepared, [to], newest_patch=False)
        if len(wanted) != 1 or wanted[0].missing:
            raise Stopped.usage("E135", f"--to {to} is not one release with a source", "Write NAME==VERSION.")
        return released(prepared, wanted[0].release)[0]
    except Rejected as error:
        raise Stopped(error.diagnostics, origin_exit(error.diagnostics)) from None


def _run(prepared: Prepared, base: BaseTree) -> Run:
    from orchestrator.engine.run import run

    plan = plan_on(prepared, base)
    return deeply(lambda: run(plan, base.tree, prepared.lock))


def _applied(results: list[StageResult], run: Run) -> None:
    """Stop where a stage to accept does not apply: there is nothing that it meets."""
    from orchestrator.engine.outcome import Applied, outcome_name

    for result in results:
        faults = errors(result.diagnostics)
        if faults:
            raise Stopped(faults, exit_code_of(run))
        if not isinstance(result.outcome, Applied):
            message = f"stage '{result.id}' is {outcome_name(result.outcome)} here, so there is nothing to accept"
            help_ = "Look at it with `orchestrator bump`."
            raise Stopped((Diagnostic("E413", message, result.planned.place, help_),), ExitCode.NOT_APPLIED)


def _former(prepared: Prepared, lock: Lock, base: BaseTree) -> Tree | None:
    """Return a base that the lock knows, to show what has changed since; None where none can be had from the cache."""
    own = prepared.own
    if own is not None and own.tree.digest in lock.bases and own.tree.digest != base.tree.digest:
        return own.tree
    cached = replace(prepared, request=replace(prepared.request, offline=True))
    for digest, name in lock.base_names.items():
        release = name.rpartition(" ")[2]
        if not _RELEASE.match(release):
            continue
        try:
            found = released(cached, release)[0].tree
        except (Rejected, Stopped):
            continue
        if found.digest == digest:
            return found
    return None


def _changes(results: list[StageResult], run: Run, lock: Lock, former: Tree | None) -> Iterator[dict[str, str]]:
    """Yield a record for each definition that the lock does not hold: what it is, and its diff."""
    from orchestrator.checks.view import Sources
    from orchestrator.engine.bump.upstream import definition_diff
    from orchestrator.engine.run import fit_of

    sources = Sources()

    def record(link: Link) -> dict[str, str]:
        at = link.definition
        diff = definition_diff((former, at), (run.installed, at), sources) if former is not None else ""
        known = lock.base_image(at)
        what = "has changed since it was locked" if known else "is not in the lock"
        if not diff and known:
            what += "; the base that it was locked on is not at hand" if former is None else "; only its image differs"
        return {"event": "accept", "stage": link.stage, "definition": str(at), "what": what, "diff": diff}

    for result in results:
        yield from (record(link) for link in result.links if fit_of(link, lock, run.installed, sources) != "exact")
