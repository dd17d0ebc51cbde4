"""Judge bases side by side: sources are fetched first, in threads; then processes that inherit what was prepared."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.cli.bases import judge_wanted
from orchestrator.cli.steps import fetched_sdist
from orchestrator.core.diagnostics import Diagnostic, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.cli.bases import Prepared, Wanted
    from orchestrator.engine.bump.fates import BaseFate

DOWNLOADS = 4
"""Sources that are fetched at once: the index and the line are the limit, not this machine."""
_PREPARED: list[Prepared] = []
"""In a worker: what its parent had prepared when it was forked."""


def fetched(prepared: Prepared, wanted: Sequence[Wanted]) -> list[Wanted]:
    """Return the bases with the sources of releases in the cache; one that cannot be had says why."""
    releases = [each for each in wanted if each.release and not each.missing]
    with ThreadPoolExecutor(DOWNLOADS) as threads:
        faults = dict(
            zip(
                (each.name for each in releases), threads.map(_fetch, releases, [prepared] * len(releases)), strict=True
            )
        )
    return [replace(each, missing=faults.get(each.name) or each.missing) for each in wanted]


def _fetch(wanted: Wanted, prepared: Prepared) -> tuple[Diagnostic, ...]:
    try:
        fetched_sdist(wanted.release, prepared.request)
    except Rejected as error:
        return error.diagnostics
    return ()


def judge_all(prepared: Prepared, wanted: Sequence[Wanted], jobs: int) -> list[BaseFate]:
    """Return what becomes of the pipeline on each base, in their order, by at most `jobs` processes."""
    wanted = fetched(prepared, wanted)
    jobs = min(jobs, len(wanted))
    if jobs <= 1 or any(each.image == "-" or each.tree.endswith("=-") for each in wanted):
        return [judge_wanted(prepared, each) for each in wanted]
    # What was read from the cache a moment ago is there: a worker asks nobody.
    here = replace(prepared, request=replace(prepared.request, offline=True))
    fork = multiprocessing.get_context("fork")  # a plan holds functions, which no process can be sent
    with ProcessPoolExecutor(jobs, mp_context=fork, initializer=_start, initargs=(here,)) as pool:
        try:
            return list(pool.map(_judge, wanted))
        except BrokenProcessPool:
            help_ = "It may have run out of memory: try again with --jobs 1."
            raise Rejected(Diagnostic("E700", "a process that judged a base was killed", help=help_)) from None
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start(prepared: Prepared) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    _PREPARED.append(prepared)


def _judge(wanted: Wanted) -> BaseFate:
    return judge_wanted(_PREPARED[0], wanted)
